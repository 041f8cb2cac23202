"""Each pod's volumes, from the tables and the disk.

What is to be done follows from the pod's row, our own row and what is on disk, and from nothing
that only this process remembers. So starting, and starting again after a kill in the middle of
anything, is looking at each pod once.

Directories under the kubelet's root that neither table knows are left alone: they may be those of
pods that syncloop has not read yet. Their end comes when syncloop puts a row for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import CLUSTER, OBJECTS
from kubelet.pods.rows import MOUNTS, PODS, MountsRow, VolumeState
from kubelet.pods.wire import BadRecordError
from procs.volumes import progress, teardown
from procs.volumes.kit import Kit, blaming
from procs.volumes.known import Known, UnknownError, glance, read
from procs.volumes.layout import is_uid
from procs.volumes.mounting import Mounting
from procs.volumes.objects import Objects
from procs.volumes.progress import Decision
from procs.volumes.unmounting import Unmounting
from procs.volumes.wants import CsiWant, Waiting, Want

log = klog.get_logger(__name__)

_HELD: Final = (VolumeState.MOUNTED, VolumeState.UNMOUNTING)


class Volumes:
    """Keeps the volumes of all pods as the table of pods wants them."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._process = kit.process
        self._objects = Objects(kit.process.tables)
        self._mounting = Mounting(kit, self._objects, self._elsewhere)
        self._unmounting = Unmounting(kit)
        self._pods: dict[str, Known] = {}
        kit.poke = self._poke
        kit.released = self._released

    # Knowing that there is something to do.

    def start(self) -> None:
        """Take over what the tables hold, and look at every pod."""
        for uid, value in self._process.tables.items(MOUNTS):
            try:
                self._pods[uid] = Known(uid, MountsRow.from_wire(value))
            except BadRecordError as err:
                self._kit.say_odd("Entry of table mounts is not right", uid, err)
                self._pods[uid] = Known(uid, MountsRow(uid))
        self._process.on_hint(self._hinted)
        for pod in list(self._pods.values()):
            pod.seen = glance(self._process.tables, pod.uid)
            self._poke(pod)
        self._look_at_all()

    def close(self) -> None:
        """Begin nothing more; what hangs is not waited for."""
        for pod in self._pods.values():
            if pod.timer is not None:
                pod.timer.cancel()
        self._kit.ops.close()

    def _hinted(self, hint: Hint) -> None:
        if hint.table in (OBJECTS, CLUSTER):
            self._objects_changed(hint.table, hint.key)
        elif hint.table == PODS and hint.key == ANY_KEY:
            self._look_at_all()
        elif hint.table == PODS:
            self._look_at(hint.key, named=True)

    def _objects_changed(self, table: str, key: str) -> None:
        """Have work done for the pods to which an object matters that is another than it was."""
        objects = self._objects
        concerned = objects.all_concerned() if key == ANY_KEY else objects.concerned(table, key)
        for uid in concerned:
            pod = self._pods.get(uid)
            if pod is not None:
                pod.stale = True
                self._poke(pod)

    def driver_changed(self, name: str) -> None:
        """Try at once whatever waited for a CSI driver: it has registered, or is another now."""
        for pod in self._pods.values():
            wanted = [w for w in pod.wants if isinstance(w, CsiWant) and w.driver == name]
            works = [pod.work[want.name] for want in wants_of(pod, wanted)]
            for work in (*works, *pod.ending.values()):
                if work.failure is not None:
                    work.tried, work.failure = None, None
            if works or pod.ending:
                pod.stale = True
                self._poke(pod)

    def _released(self) -> None:
        """Look again at what waits for a claim: another pod may have had it."""
        for pod in self._pods.values():
            if any(isinstance(want, Waiting) for want in pod.wants):
                self._poke(pod)

    def _elsewhere(self, pod: Known) -> frozenset[str]:
        """Return the claims that other pods have."""
        rows = (o.row for o in self._pods.values() if o is not pod and o.row is not None)
        claims = (v.claim for row in rows for v in row.volumes if v.state in _HELD)
        return frozenset(claim for claim in claims if claim)

    def _look_at_all(self) -> None:
        for uid in {*self._process.tables.keys(PODS), *self._pods}:
            self._look_at(uid, named=False)

    def _look_at(self, uid: str, *, named: bool) -> None:
        """Have work done for a pod if its row is another than it was."""
        seen = glance(self._process.tables, uid)
        pod = self._pods.get(uid)
        if pod is None:
            if not seen:
                return
            if not is_uid(uid):
                message = "A pod's uid cannot be the name of a directory"
                self._kit.say_odd(message, uid, "left alone")
                return
            pod = self._pods[uid] = Known(uid)
        gone = not seen and named and PODS not in self._process.tables.unavailable
        if seen == pod.seen and not (gone and not pod.deleted):
            return
        pod.seen, pod.deleted = seen, gone
        self._poke(pod)

    def _poke(self, pod: Known) -> None:
        pod.dirty = True
        if pod.task is None:
            pod.task = self._process.spawn(self._work(pod), name=f"volumes of {pod.uid}")

    async def _work(self, pod: Known) -> None:
        try:
            while pod.dirty:
                pod.dirty = False
                with blaming(pod.uid):
                    self._step(pod)
        finally:
            pod.task = None
        if pod.row is None and pod.timer is None and not pod.seen and not pod.busy:
            self._objects.forget(pod.uid)
            self._pods.pop(pod.uid, None)

    # One look at a pod.

    def _step(self, pod: Known) -> None:
        try:
            row = read(self._process.tables, pod.uid)
        except UnknownError as err:
            self._kit.say_odd("The row of a pod cannot be read", pod.uid, err)
            return
        if pod.timer is not None:
            pod.timer.cancel()
            pod.timer = None
        state = row.state if row is not None else None
        decision = progress.decide(state, pod.row, deleted=pod.deleted)
        if decision is Decision.LEAVE:
            self._leave(pod)
        elif decision is Decision.UNMOUNT:
            self._objects.forget(pod.uid)
            self._unmounting.step(pod, row)
        else:
            assert row is not None
            self._mounting.step(pod, row)

    def _leave(self, pod: Known) -> None:
        """Keep the volumes of a pod whose row is not there, for all we know."""
        if pod.row is None:
            return
        if teardown.is_clean(pod.uid, self._kit.layout):
            self._kit.delete(pod)
            return
        log.warning(
            "Volumes of a pod without a row are kept until syncloop speaks of the pod again",
            pod=pod.uid,
        )

    # What others ask.

    def path_of(self, uid: str, volume: str) -> str:
        """Return where a volume of a pod is; "" if it is not mounted."""
        pod = self._pods.get(uid)
        rows = pod.row.volumes if pod is not None and pod.row is not None else ()
        mounted = (v for v in rows if v.name == volume and v.state is VolumeState.MOUNTED)
        return next((v.host_path for v in mounted if not v.block), "")

    def pods(self) -> Iterator[Known]:
        """Return what is known of each pod."""
        return iter(list(self._pods.values()))


def wants_of(pod: Known, wants: list[CsiWant]) -> Iterator[Want]:
    """Return those of the volumes that are known by their names."""
    return (want for want in wants if want.name in pod.work)
