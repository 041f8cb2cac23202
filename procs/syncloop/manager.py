"""All pods of the node: their workers, what wakes them, and who is looked after when (P-20..P-42).

Nothing here acts on the runtime: it hands events to workers and sees that each pod has one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.probes import PROBES
from kubelet.pods.rows import API, PodRow, WorkerState
from kubelet.pods.runtime import RUNTIME_KEY, TABLE, PodRecord
from procs.syncloop.events import Events
from procs.syncloop.gc import KnownPod
from procs.syncloop.kit import Kit
from procs.syncloop.leftovers import left_on_disk
from procs.syncloop.sources.changes import Change, Op
from procs.syncloop.sources.sources import Sources
from procs.syncloop.workers import state
from procs.syncloop.workers.book import Book
from procs.syncloop.workers.ending import terminated, terminating
from procs.syncloop.workers.publish import publish_now
from procs.syncloop.workers.sync import sync
from procs.syncloop.workers.worker import Worker

log = klog.get_logger(__name__)

HOUSEKEEPING_SECONDS: Final = 2.0  # P-25
GC_SECONDS: Final = 60.0  # I-1

_STAGES: Final = {
    WorkerState.SYNC: sync,
    WorkerState.TERMINATING: terminating,
    WorkerState.TERMINATED: terminated,
}


class Manager:
    """The workers of all pods."""

    def __init__(self, kit: Kit, book: Book, events: Events) -> None:
        self._kit = kit
        self._book = book
        self._events = events
        self._workers: dict[str, Worker] = {}
        self._order: dict[str, list[str]] = {}  # full name -> uids in the order of arrival (P-15)
        self._sources: Sources | None = None
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._gone: dict[str, int] = {}  # uid -> when its last worker acted (monotonic)
        self._unknown: dict[str, str] = {}  # full name -> uid of what has no worker yet
        self._unknown_ns = 0  # the full look that this is from
        self._due = asyncio.Event()
        kit.process.on_hint(self._hinted)

    def start(self, sources: Sources) -> None:
        """Go on with what a predecessor knew, and take care of everything from now on."""
        self._sources = sources
        for row in sorted(self._book.pods.values(), key=lambda row: row.seen_ns):
            if row.state is WorkerState.FINISHED:
                self._leave(row)
            else:
                self._employ(row.uid, row)
        self._kit.process.spawn(self._housekeep(), name="housekeeping")
        self._kit.process.spawn(self._collect(), name="container garbage collection")

    # What sources say.

    def changed(self, changes: list[Change]) -> None:
        """Take what a source says, in its order."""
        for change in changes:
            self._change(change)
        self._due.set()

    def _change(self, change: Change) -> None:
        pod = change.pod
        worker = self._workers.get(pod.uid)
        over = self._book.pods.get(pod.uid) if worker is None else None
        if change.op is Op.REMOVE:
            if worker is not None:
                worker.deliver(state.Removed())
            elif over is not None:
                self._forget(over)
            return
        if over is not None:
            return  # it ended, and its object is about to go
        if worker is not None:
            desired = state.Desired(pod, change.source, change.op is Op.RECONCILE)
            worker.deliver(desired)
            return
        row = state.born(pod, change.source, self._kit.wall())
        self._kit.process.record("pod", f"{change.op} {pod} from {change.source}", pod.uid)
        self._book.put(row)
        self._employ(pod.uid, row)

    def _employ(self, uid: str, row: PodRow) -> None:
        worker = Worker(self._kit, self._book, uid, self)
        self._workers[uid] = worker
        if row.document:
            names = self._order.setdefault(_full_name(row), [])
            if uid not in names:
                names.append(uid)
        self._kit.process.row.depth("pods", len(self._workers))
        self._lives[uid] = self._kit.process.spawn(self._life(worker), name=f"pod {uid}")

    async def _life(self, worker: Worker) -> None:
        await worker.run(self._stage)
        del self._lives[worker.uid]
        self._finished(worker)

    async def stop(self) -> None:
        """Have no worker work any more; what is under way in the runtime stays in the journal."""
        lives = list(self._lives.values())
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)

    def _stage(self, worker: Worker) -> asyncio.Task[float]:
        return asyncio.create_task(self._in_stage(worker), name=f"stage of pod {worker.uid}")

    async def _in_stage(self, worker: Worker) -> float:
        current = worker.row.state
        with self._kit.process.doing(f"{current} pod", worker.uid):
            return await _STAGES[current](worker)

    def blocker(self, worker: Worker) -> str:
        """Return the uid of an older pod with the same name that must end first (P-15), or ""."""
        row = worker.row
        order = self._order.get(_full_name(row), [])
        first = order[0] if order else worker.uid
        if first != worker.uid:
            return first
        return "" if row.admitted else self._stranger(_full_name(row))

    def _stranger(self, name: str) -> str:
        """Return the uid of a pod of this name of which only the runtime knows, or ""."""
        workers = self._workers.values()
        orphans = (w.uid for w in workers if not w.row.document and _full_name(w.row) == name)
        found = next(orphans, "") or self._strangers().get(name, "")
        return "" if found in self._workers and self._workers[found].row.document else found

    def _strangers(self) -> dict[str, str]:
        """Return what the runtime holds and nobody looks after, uids by full name."""
        full_ns = self._kit.cache.full_look_ns()
        if self._unknown_ns != full_ns:
            self._unknown = {}
            for uid in self._kit.cache.uids():
                record = None if uid in self._workers else self._left(uid)
                if record is not None:
                    self._unknown[f"{record.name}_{record.namespace}"] = uid
            self._unknown_ns = full_ns
        return self._unknown

    def _left(self, uid: str, since_ns: int = 0) -> PodRecord | None:
        """Return what is left of a pod; what was seen before the last of it went is not."""
        record, stamp_ns = self._kit.cache.get(uid)
        return record if stamp_ns > self._gone.get(uid, since_ns) else None

    def kill(self, uid: str, event: state.Kill) -> None:
        """End a pod, to make room for another (A-5)."""
        if (worker := self._workers.get(uid)) is not None:
            worker.deliver(event)

    def moved(self) -> None:
        """Wake who is not let in yet: a pod that ended makes room (A-5)."""
        for worker in self._workers.values():
            if not worker.row.admitted:
                worker.wake()

    def _finished(self, worker: Worker) -> None:
        row = worker.row
        del self._workers[worker.uid]
        self._gone[worker.uid] = worker.acted_ns
        self._unknown_ns = 0
        order = self._order.get(_full_name(row), [])
        if worker.uid in order:
            order.remove(worker.uid)
        if row.again:
            fresh = state.reborn(row, self._kit.wall())
            self._book.remove(worker.uid)
            self._book.put(fresh)
            self._employ(fresh.uid, fresh)
        else:
            self._leave(row)
        for uid in order:
            if (other := self._workers.get(uid)) is not None:
                other.wake()
        if not order:
            self._order.pop(_full_name(row), None)
        self._kit.process.row.depth("pods", len(self._workers))

    def _leave(self, row: PodRow) -> None:
        """Let go of a pod that has ended.

        Of one of the API server's the rows stay for as long as its object does: until it is gone,
        somebody has to see that it may go (P-41).
        """
        assert self._sources is not None
        if row.source != API or not self._sources.wants(row.uid):
            self._forget(row)

    def _forget(self, row: PodRow) -> None:
        self._kit.process.record("gone", f"{row.namespace}/{row.name}", row.uid)
        assert self._sources is not None
        self._sources.finished(row.uid)
        self._book.remove(row.uid)
        self._events.forget(set(self._book.pods))

    # What the runtime and the probes say.

    def _hinted(self, hint: Hint) -> None:
        if hint.table == PROBES:
            self._probed(hint.key)
        elif hint.table != TABLE:
            return
        elif hint.key == ANY_KEY:
            self._look_at_all()
        elif hint.key == RUNTIME_KEY:
            self._wake_waiting()
        elif (worker := self._workers.get(hint.key)) is not None:
            self._runtime_changed(worker)
        else:
            self._due.set()

    def _look_at_all(self) -> None:
        """See whose entry has changed; each second something has, if only a stamp."""
        for worker in self._workers.values():
            self._runtime_changed(worker)
        self._wake_waiting()

    def _runtime_changed(self, worker: Worker) -> None:
        """Wake a worker; in the middle of a long start the status is shown meanwhile (P-73)."""
        if worker.runtime_changed() and worker.syncing:
            publish_now(worker)

    def _probed(self, key: str) -> None:
        """Show what the probes of a container found; what is to be done for it follows (P-78).

        While a pod ends, its readiness is shown, and nothing of it is started again (B-6).
        """
        for news in self._kit.probes.take(key):
            worker = self._workers.get(news.pod)
            if worker is None:
                continue
            for words in news.words:
                worker.record("probe", words)
            publish_now(worker)
            if news.planned and worker.row.state is WorkerState.SYNC:
                worker.wake()

    def _wake_waiting(self) -> None:
        """Wake who waits for the runtime itself: its network may have come up (P-51)."""
        for worker in self._workers.values():
            if worker.waits_for_network:
                worker.wake()

    # What nobody says.

    async def _housekeep(self) -> None:
        """See to what no event tells: pods that vanished from a source, orphans (P-35, P-42)."""
        while True:
            self._due.clear()
            self._look_after()
            try:
                async with asyncio.timeout(HOUSEKEEPING_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                continue

    def _look_after(self) -> None:
        sources = self._sources
        if sources is None or not sources.ready or not self._kit.cache.full_look_ns():
            return
        desired = sources.desired()
        full_ns = self._kit.cache.full_look_ns()
        self._gone = {uid: at_ns for uid, at_ns in self._gone.items() if at_ns >= full_ns}
        for uid, worker in list(self._workers.items()):
            ending = worker.row.ending
            if uid not in desired and (ending is None or not ending.removed):
                worker.deliver(state.Removed())
        for uid, row in list(self._book.pods.items()):
            if uid not in self._workers and uid not in desired:
                self._forget(row)
        for uid in self._kit.cache.uids():
            if uid not in self._workers and uid not in desired:
                record = self._left(uid, self._kit.started_ns)
                if record is not None:
                    self._adopt_orphan(uid, record.name, record.namespace)
        for left in left_on_disk(self._kit.site(), {*self._workers, *desired}):
            self._adopt_orphan(*left)

    def _adopt_orphan(self, uid: str, name: str, namespace: str) -> None:
        log.info("Pod on the node that nobody wants", pod=uid, name=name, namespace=namespace)
        self._kit.process.record("orphan", f"{namespace}/{name}", uid)
        row = state.orphan(uid, name, namespace, self._kit.wall())
        self._book.put(row)
        self._employ(uid, row)
        self._unknown_ns = 0

    async def _collect(self) -> None:
        """Remove dead containers, sandboxes and logs that nobody needs (I-1..I-4)."""
        while True:
            await asyncio.sleep(GC_SECONDS)
            assert self._sources is not None
            known = {
                uid: KnownPod(row.state, row.ending is not None and row.ending.removed)
                for uid, row in self._book.pods.items()
            }
            await self._kit.gc.collect(known, self._sources.ready)


def _full_name(row: PodRow) -> str:
    return f"{row.name}_{row.namespace}"
