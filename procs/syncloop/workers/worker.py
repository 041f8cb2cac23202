"""The worker of one pod: a task that lives as long as the pod does (P-30).

It takes events at any time, folds them into the row at once (so that a death loses none), and runs
one stage at a time: sync, terminating, terminated. An event that makes the running stage pointless
cancels it; many events while a stage runs are one more run of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.channels.errors import ChannelError
from kubelet.pods.cache import Seen
from kubelet.pods.rows import PodRow, StatusRow, Wait, WorkerState, WorkRow
from kubelet.pods.runtime import RUNTIME_KEY, TABLE, PodRecord
from procs.syncloop.kit import Kit
from procs.syncloop.workers import state
from procs.syncloop.workers.book import Book

log = klog.get_logger(__name__)

_LOOK_SECONDS = 5.0


class Peers(Protocol):
    """The other workers."""

    def blocker(self, worker: Worker) -> str:
        """Return the uid of an older pod with the same name that must end first (P-15), or ""."""

    def kill(self, uid: str, event: state.Kill) -> None:
        """End another pod, to make room."""

    def moved(self) -> None:
        """Take that a pod went on in its life: there may be room for who waits for it."""


class Worker:
    """One pod's worker; the stages are functions of :mod:`sync` and :mod:`ending`."""

    def __init__(self, kit: Kit, book: Book, uid: str, peers: Peers) -> None:
        self.kit = kit
        self.book = book
        self.uid = uid
        self.acted_ns = kit.started_ns  # nothing seen before this moment is acted on
        self.unstarted: set[str] = set()  # containers whose postStart hook still runs
        self.waits_for_network = False
        self.soon_ns = 0  # since when the runtime is giving up a call of a dead predecessor; 0: no
        self.messages: dict[str, str] = {}  # termination messages by container id
        self.told: tuple[StatusRow, PodStatus] | None = None  # the status that was written last
        self.peers = peers
        self._since = {wait.what: wait.since_ns for wait in book.work(uid).waits}
        self._observed: PodRecord | None = None  # as its stages last saw the pod
        self._raw: bytes | None = None  # the entry that this was
        self._woken = asyncio.Event()
        self._called = False  # woken by more than the runtime's news
        self._stage: asyncio.Task[float] | None = None
        self._outdated = False

    # What it knows.

    @property
    def row(self) -> PodRow:
        """The pod's row."""
        return self.book.pods[self.uid]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do for the pod."""
        return self.row.state is WorkerState.FINISHED

    @property
    def syncing(self) -> bool:
        """Whether it is in the middle of a sync."""
        return self._stage is not None and self.row.admitted and self.row.state is WorkerState.SYNC

    @property
    def work(self) -> WorkRow:
        """What it is at."""
        return self.book.work(self.uid)

    @property
    def pod(self) -> Pod:
        """The pod as it is wanted now."""
        return self.row.pod

    # What happens to it.

    def deliver(self, event: state.Event) -> None:
        """Take an event: the row changes now, the work follows."""
        outcome = state.apply(self.row, event, self.kit.wall())
        if outcome.row != self.row:
            before, after = self.row.state, outcome.row.state
            self.book.put(outcome.row)
            if before is not after:
                self.record("state", f"{before} -> {after}")
                self.peers.moved()
        if outcome.cancel:
            self._cancel()
        if outcome.wake:
            self.wake()

    def wake(self) -> None:
        """Have it look, now or after what it is doing."""
        self._called = True
        self._woken.set()

    def calm(self) -> None:
        """Forget that the runtime had news: they have been looked at."""
        if not self._called:
            self._woken.clear()

    def runtime_changed(self) -> bool:
        """Take that the runtime's entry of the pod was written: wake if it says anything new.

        A look that this worker asked for itself is no news. Were it some, whatever fails would be
        tried again at once for ever.
        """
        raw = self.kit.cache.raw(self.uid)
        if raw == self._raw or self.kit.cache.get(self.uid).record == self._observed:
            return False
        self._woken.set()
        return True

    def _cancel(self) -> None:
        stage = self._stage
        if stage is None or stage.done() or stage is asyncio.current_task() or self._outdated:
            return  # one that is being cancelled is not hurried: it awaits a call's outcome
        self._outdated = True
        stage.cancel()

    # Its life.

    async def run(self, stage: Callable[[Worker], asyncio.Task[float]]) -> None:
        """Work until nothing is left to do for the pod."""
        if self.uid in self.kit.process.quarantined:
            await self._left_alone()
        while not self.finished:
            self._called = False
            self._woken.clear()
            seconds = await self._run_stage(stage)
            if seconds > 0 and not self.finished:
                await self._rest(seconds)

    async def _left_alone(self) -> None:
        what = "somebody to release it: handling it has killed syncloop three times"
        how = f"kubeletctl release {self.uid}"
        self.book.step(self.uid, "quarantined", Wait(what, self.kit.wall(), next=how))
        await asyncio.get_running_loop().create_future()  # until this task is cancelled

    async def _run_stage(self, stage: Callable[[Worker], asyncio.Task[float]]) -> float:
        self._stage = stage(self)
        try:
            return await self._stage
        except asyncio.CancelledError:
            if self._outdated and not _is_cancelled():
                return 0.0
            self._stage.cancel()
            raise
        finally:
            self._outdated = False
            self._stage = None

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    # What its stages use.

    async def observe(self) -> Seen:
        """Return the pod as the runtime holds it, seen after the last action of this worker."""
        while (seen := self._look()).stamp_ns <= self.acted_ns:
            try:
                await self.kit.cache.look(self.uid, _LOOK_SECONDS)
                await self.kit.cache.get_newer_than(self.uid, self.acted_ns, _LOOK_SECONDS)
            except (ChannelError, TimeoutError) as err:
                what = "the container runtime to be looked at"
                self.step("waiting for a look", self.waiting(what, str(err), "it is asked again"))
                await self._next_look()
        return seen

    async def surveyed(self) -> None:
        """Wait until the runtime was looked at as a whole: it is known what else is there."""

        def look() -> int | None:
            return self.kit.cache.full_look_ns() or None

        while look() is None:
            what = "the container runtime to be looked at"
            self.step("waiting for a look", self.waiting(what, then="it is looked at each second"))
            with contextlib.suppress(TimeoutError):
                await self.kit.process.waiters.wait(TABLE, RUNTIME_KEY, look, _LOOK_SECONDS)

    async def _next_look(self) -> None:
        """Wait for the next look that pleg makes by itself."""
        with contextlib.suppress(TimeoutError):
            await self.kit.cache.get_newer_than(self.uid, self.acted_ns, 1.0)

    def _look(self) -> Seen:
        self._raw = self.kit.cache.raw(self.uid)  # first: what is newer is news
        seen = self.kit.cache.get(self.uid)
        self._observed = seen.record
        return seen

    def acted(self) -> None:
        """Note that the runtime was changed: what was seen before does not count any more."""
        self.acted_ns = time.monotonic_ns()

    def step(self, step: str, *waits: Wait) -> None:
        """Say what it does."""
        self.book.step(self.uid, step, *waits)

    def waiting(self, what: str, tried: str = "", then: str = "", next_ns: int = 0) -> Wait:
        """Return what is waited for, since the first of all tries that have failed in a row."""
        since_ns = self._since.setdefault(what, self.kit.wall())
        return Wait(what, since_ns, tried, then, next_ns)

    def still_waiting(self, what: Iterable[str] = ()) -> None:
        """Forget since when anything was waited for, but these."""
        kept = frozenset(what)
        self._since = {key: since for key, since in self._since.items() if key in kept}

    def record(self, what: str, text: str = "") -> None:
        """Note something for ``kubeletctl trace``."""
        self.kit.process.record(what, text, self.uid)

    def update_work(self, **changes: object) -> None:
        """Change fields of what it is at."""
        self.book.put_work(replace(self.work, **changes))  # type: ignore[arg-type]


def _is_cancelled() -> bool:
    """Tell whether the task itself is to end, and not only what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
