"""The local source: pods submitted over the kubelet's own socket.

They are no static pods: the node gives them a UID, keeps them on disk and ends them with grace
when it is asked to, as it would for an API server.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Literal

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.messages import Deleting, Submitted
from kubelet.pods.rows import LOCAL
from procs.syncloop.sources import submission
from procs.syncloop.sources.changes import Candidate, Deliver, Delivery
from procs.syncloop.sources.store import Store, StoreError
from procs.syncloop.sources.submission import InvalidError, Moment

log = klog.get_logger(__name__)

RETRY: Final = 10.0  # seconds after which an unreadable store is looked at again

# Says who else has a pod's name or UID; "" if nobody has.
Taken = Callable[[Pod], str]


class LocalSource:
    """Delivers the pods that were submitted here."""

    name = LOCAL

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        *,
        node: str,
        store: Store,
        deliver: Deliver,
        wall: Callable[[], int],
        running: Mapping[str, Pod],
        taken: Taken,
    ) -> None:
        self._node = node
        self._store = store
        self._deliver = deliver
        self._wall = wall
        self._running = running  # uid -> pod, as a predecessor knew them
        self._taken = taken
        self._pods: dict[str, Pod] = {}
        self._problems: dict[str, str] = {}  # uid of a broken file -> what is wrong
        self._loaded = False

    def start(self) -> None:
        """Read what is kept, and deliver it."""
        try:
            stored = self._store.load()
        except StoreError as err:
            log.error("Submitted pods cannot be read, trying again", err=err)
            self._deliver(Delivery(LOCAL, (), (str(err),), complete=False))
            asyncio.get_running_loop().call_later(RETRY, self.start)
            return
        for one in stored:
            pod = one.pod or self._running.get(one.uid)
            if pod is not None:
                self._pods[pod.uid] = pod
            if one.pod is None:
                log.error("A submitted pod cannot be read", problem=one.problem)
                goes_on = f"; pod {pod} goes on as it was" if pod else ""
                self._problems[one.uid] = one.problem + goes_on
        self._loaded = True
        self._give()

    def submit(self, data: bytes) -> Submitted:
        """Take a document: a new pod, or another version of one."""
        self._check_loaded()
        try:
            given = submission.read(data, self._node)
            old = self._find(given.pod.namespace, given.pod.name)
            if old is None:
                moment = Moment(self._node, self._wall())
                pod = submission.created(given, str(uuid.uuid4()), moment)
                self._refuse_taken(pod)
            else:
                pod = submission.updated(given, old)
        except InvalidError as err:
            raise HandlerError(str(err), ErrorKind.BAD_REQUEST) from None
        result: Literal["created", "configured", "unchanged"] = "created"
        if old is not None:
            result = "unchanged" if pod is old else "configured"
        if pod is not old:
            self._keep(pod)
        return Submitted(pod.uid, pod.name, pod.namespace, result, given.warnings)

    def delete(self, namespace: str, name: str, grace: int | None) -> Deleting | None:
        """Have a pod end; None if no such pod was submitted."""
        self._check_loaded()
        old = self._find(namespace, name)
        if old is None:
            return None
        pod = submission.deleted(old, grace, self._wall())
        if pod is not old:
            self._keep(pod)
        return Deleting(pod.uid, pod.metadata.deletion_grace_period_seconds or 0)

    def finished(self, uid: str) -> None:
        """Forget a pod of which nothing is left; one that is not to end goes on being wanted."""
        pod = self._pods.get(uid)
        if pod is None or not pod.metadata.deletion_timestamp:
            return
        try:
            self._store.drop(uid)
        except StoreError as err:
            # It comes back with its deletion mark at the next start, and ends again.
            log.error("The file of a pod that is gone stays", err=err)
        del self._pods[uid]
        self._problems.pop(uid, None)
        self._give()

    def _find(self, namespace: str, name: str) -> Pod | None:
        for pod in self._pods.values():
            if (pod.namespace, pod.name) == (namespace, name):
                return pod
        return None

    def _refuse_taken(self, pod: Pod) -> None:
        who = self._taken(pod)
        if not who and pod.uid in self._pods:
            who = f"uid {pod.uid!r} is that of pod {self._pods[pod.uid]}"
        if who:
            raise InvalidError(f"pod {pod} cannot be created: {who}")

    def _check_loaded(self) -> None:
        if not self._loaded:
            raise HandlerError("the submitted pods of before cannot be read yet, see the log")

    def _keep(self, pod: Pod) -> None:
        """Keep a version on disk first: what was acknowledged survives anything."""
        try:
            self._store.put(pod)
        except StoreError as err:
            raise HandlerError(str(err)) from None
        self._pods[pod.uid] = pod
        self._problems.pop(pod.uid, None)
        self._give()

    def _give(self) -> None:
        candidates = tuple(Candidate(LOCAL, origin(pod), pod) for pod in self._pods.values())
        self._deliver(Delivery(LOCAL, candidates, tuple(self._problems.values())))


def origin(pod: Pod) -> str:
    """Return how a submitted pod's origin is called in a sentence."""
    return f"submitted pod {pod.uid}"
