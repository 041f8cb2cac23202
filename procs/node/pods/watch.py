"""The pods that the API server gave this node, and the mirror pods: table ``assigned``.

A row is written when somebody else changed something: the echo of a status that this kubelet wrote
is known here already, and is no news for anybody.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from kubelet import logging as klog
from kubelet.cluster.rows import ASSIGNED, ASSIGNED_KEY, AssignedRow, AssignedState
from kubelet.pods.wire import BadRecordError
from procs.node.apiserver.types import ApiError, Json, Watched
from procs.node.kit import Kit, Watching
from procs.node.pods import parts
from procs.node.pods.merge import foreign
from procs.node.pods.parts import OddError
from shm.codec import EncodeError
from shm.errors import TableFull

log = klog.get_logger(__name__)

PATH: Final = "/api/v1/pods"
TROUBLE: Final = "pods"


class AssignedPods:
    """What is bound to this node, as far as it was heard of.

    What a predecessor had heard is here at once; ``listed`` says whether this process has heard
    everything itself.
    """

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.pods: dict[str, Json] = {}  # by uid; no mirror pods
        self.mirrors: dict[tuple[str, str], Json] = {}  # by namespace and name
        self.listed = False
        self._listeners: list[Callable[[str], None]] = []
        self._list_listeners: list[Callable[[], None]] = []
        self._odd: set[str] = set()
        self._newest = 0  # resourceVersion that the watch has come to
        self._watching: Watching | None = None
        self._load()

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call back with the uid of a pod or mirror pod that is new, another now, or gone."""
        self._listeners.append(callback)

    def on_listed(self, callback: Callable[[], None]) -> None:
        """Call back each time that everything was heard anew."""
        self._list_listeners.append(callback)

    def start(self) -> None:
        """List and watch, as soon as this node's own object was seen (P-3)."""
        if self._kit.view.document is None:
            log.info("Pods are listed when the node's own object was seen")
        self._kit.view.on_heard(self._begin)
        self._begin()

    async def stop(self) -> None:
        """Watch no more."""
        if self._watching is not None:
            await self._watching.stop()

    def _begin(self) -> None:
        if self._watching is None and self._kit.view.document is not None:
            bound = Watched(PATH, fields=f"spec.nodeName={self._kit.view.name}", name="pods")
            self._watching = self._kit.watch(bound, _Ears(self), self._trouble)

    def _trouble(self, error: ApiError | None) -> None:
        self._kit.troubles.tell(TROUBLE, error)

    def _load(self) -> None:
        """Take over what a predecessor wrote."""
        for key, value in list(self._kit.process.tables.items(ASSIGNED)):
            if key == ASSIGNED_KEY:
                continue
            try:
                pod = parts.pod_of(json.loads(AssignedRow.from_wire(value).document))
            except (BadRecordError, OddError, ValueError) as err:
                log.error("Row cannot be read and is forgotten", table=ASSIGNED, pod=key, err=err)
                self._kit.process.delete(ASSIGNED, key)
            else:
                self.pods[parts.uid_of(pod)] = pod

    # What the API server says.

    def heard(self, item: Json) -> None:
        """Take a pod that is new or another now."""
        pod = self._sound(item)
        if pod is not None:
            self._note_version(parts.version_of(pod))
            self._take(pod)

    def gone(self, item: Json) -> None:
        """Take that a pod is gone."""
        uid = parts.uid_in(item)
        if uid:
            self._note_version(parts.version_of(item))
            self.drop(uid)

    def answered(self, item: Json) -> None:
        """Take a pod as the answer to a write has it.

        The watch may be behind it or ahead of it: then the pod may be gone already.
        """
        pod = self._sound(item)
        if pod is None:
            return
        uid, version = parts.uid_of(pod), parts.version_of(pod)
        known = uid in self.pods or any(parts.uid_of(m) == uid for m in self.mirrors.values())
        if known or (version.isdecimal() and int(version) > self._newest):
            self._take(pod)

    def _note_version(self, version: str) -> None:
        if version.isdecimal():
            self._newest = max(self._newest, int(version))

    def everything(self, items: list[Json], version: str) -> None:
        """Take all that there is; a list counts even where it is older than what was heard."""
        self._newest = int(version) if version.isdecimal() else 0
        self._drop_all_but({parts.uid_in(item) for item in items})
        found = [pod for pod in map(self._sound, items) if pod is not None]
        for pod in found:
            self._take(pod, whatever_age=True)
        self._say_listed()
        for listener in self._list_listeners:
            listener()

    def _drop_all_but(self, listed: set[str]) -> None:
        """Drop what is gone, before the next of its name comes.

        What is listed and odd stays as it was. With something in the list that cannot be told
        from any other pod, nothing is known to be gone.
        """
        if "" in listed:
            return
        for uid in [*self.pods, *map(parts.uid_of, self.mirrors.values())]:
            if uid not in listed:
                self.drop(uid)

    def _say_listed(self) -> None:
        """Tell that everything was listed, behind the rows of it (P-4)."""
        self.listed = True
        told = AssignedState(listed=True).to_wire()
        if self._kit.process.tables.value(ASSIGNED, ASSIGNED_KEY) != told:
            self._kit.process.put(ASSIGNED, ASSIGNED_KEY, told)

    def _sound(self, item: Json) -> Json | None:
        try:
            return parts.pod_of(item)
        except OddError as err:
            if str(err) not in self._odd:
                self._odd.add(str(err))
                log.error("Object of the API server is left out", err=err)
            return None

    # What becomes of it.

    def _take(self, pod: Json, *, whatever_age: bool = False) -> None:
        uid, place = parts.uid_of(pod), parts.name_of(pod)
        mirror = parts.is_mirror(pod)
        old = self.mirrors.get(place) if mirror else self.pods.get(uid)
        if old is not None and not whatever_age and _is_older(pod, old):
            return  # the watch is behind the answer to a write
        if mirror:
            self.mirrors[place] = pod
        else:
            self.pods[uid] = pod
        if old is None or _told(old) != _told(pod):
            if not mirror:
                self._put(uid, pod)
            self._call(uid)

    def _put(self, uid: str, pod: Json) -> None:
        namespace, name = parts.name_of(pod)
        document = json.dumps(pod, separators=(",", ":")).encode()
        row = AssignedRow(uid, name, namespace, parts.version_of(pod), document)
        try:
            self._kit.process.put(ASSIGNED, uid, row.to_wire())
        except (TableFull, EncodeError) as err:
            log.error("Pod is too large to be run", pod=parts.shown(pod), err=err)

    def drop(self, uid: str) -> None:
        """Have a pod or mirror pod no more."""
        known = self.pods.pop(uid, None) is not None
        if known:
            self._kit.process.delete(ASSIGNED, uid)
        for place in [p for p, pod in self.mirrors.items() if parts.uid_of(pod) == uid]:
            del self.mirrors[place]
            known = True
        if known:
            self._call(uid)

    def _call(self, uid: str) -> None:
        for listener in self._listeners:
            listener(uid)


class _Ears:
    """Hears the watch for :class:`AssignedPods`."""

    def __init__(self, pods: AssignedPods) -> None:
        self._pods = pods

    def listed(self, items: list[Json], version: str) -> None:
        """Take everything that there is."""
        log.v(2, "Pods were listed", number=len(items), version=version)
        self._pods.everything(items, version)

    def changed(self, item: Json) -> None:
        """Take a pod that is new or another now."""
        self._pods.heard(item)

    def deleted(self, item: Json) -> None:
        """Take that a pod is gone."""
        self._pods.gone(item)


def _told(pod: Json) -> Json:
    """Return what of a pod is news for others when it changes."""
    metadata = {k: v for k, v in pod["metadata"].items() if k != "resourceVersion"}
    return {"metadata": metadata, "spec": pod["spec"], "status": foreign(pod["status"])}


def _is_older(pod: Json, known: Json) -> bool:
    """Whether a version of a pod comes before another one; versions count over all pods."""
    new, old = parts.version_of(pod), parts.version_of(known)
    return new.isdecimal() and old.isdecimal() and int(new) < int(old)
