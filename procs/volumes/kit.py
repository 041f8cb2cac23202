"""What every part of this process is given."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kubelet import logging as klog
from kubelet.pods.rows import MOUNTS, MountsRow
from kubelet.process import Process
from kubelet.process.operations import remember_pod
from procs.volumes.errors import HangingError, VolumeError
from procs.volumes.kinds import Settings
from procs.volumes.known import Known, Work
from procs.volumes.layout import Layout
from procs.volumes.operations.runner import Operations
from procs.volumes.plugin import Plugin
from procs.volumes.progress import SECOND, Failure, Moment, next_failure
from shm.codec import EncodeError
from shm.errors import TableFull

log = klog.get_logger(__name__)

SHOWN_SECONDS: Final = 1.0  # an operation that takes longer is shown
TROUBLE: Final = "\0row"  # no volume has this name: our row cannot be written


Operation = Callable[[], Awaitable[None]]


def now() -> Moment:
    """Return this moment."""
    return Moment(time.monotonic_ns(), time.time_ns())


@dataclass(slots=True)
class Kit:
    """The tools of the parts."""

    process: Process
    layout: Layout
    settings: Settings
    ops: Operations
    plugins: Mapping[str, Plugin[Any]] = field(default_factory=dict)  # by name
    now: Callable[[], Moment] = now
    poke: Callable[[Known], None] = lambda _pod: None  # have a pod looked at again
    released: Callable[[], None] = lambda: None  # told that a pod has let go of its volumes
    told: Callable[[], None] = lambda: None  # told that some pod's volumes are others now
    odd: klog.Throttle = field(default_factory=lambda: klog.every(60))

    def say_odd(self, message: str, uid: str, err: object) -> None:
        """Log something that should not be, now and then."""
        if self.odd.ready():
            log.error(message, pod=uid, err=err, more=self.odd.skipped)

    # Our row.

    def put(self, pod: Known, row: MountsRow) -> None:
        """Write a pod's row, if it says anything else than the one that is there."""
        if row == pod.row:
            pod.ending.pop(TROUBLE, None)
            return
        moment = self.now()
        try:
            self.process.put(MOUNTS, pod.uid, row.to_wire(), moment.mono_ns)
        except (TableFull, EncodeError) as err:
            self.process.row.count("write_errors")
            self.say_odd("The volumes of a pod cannot be written down", pod.uid, err)
            trouble = pod.ending.setdefault(TROUBLE, Work())
            trouble.failure = next_failure(trouble.failure, str(err), moment)
            pod.document = None
            return
        pod.ending.pop(TROUBLE, None)
        pod.row = row
        self.told()

    def delete(self, pod: Known) -> None:
        """Take a pod's row away."""
        self.process.delete(MOUNTS, pod.uid)
        pod.row = None
        self.told()

    # Operations.

    def begin(
        self,
        pod: Known,
        work: Work,
        operation: Callable[[], Any],
        name: str,
        show: Callable[[], None],
    ) -> None:
        """Begin an operation beside; when it has ended, the pod is looked at again."""
        loop = asyncio.get_running_loop()
        work.operation, work.operation_ns = name, self.now().wall_ns
        work.shown = loop.call_later(SHOWN_SECONDS, self._show, work, show)
        work.task = self.process.spawn(self._operate(pod, work, operation), f"{name} of {pod.uid}")

    async def _operate(self, pod: Known, work: Work, operation: Operation) -> None:
        try:
            with blaming(pod.uid):
                await operation()
        finally:
            if work.shown is not None:
                work.shown.cancel()
            work.task, work.shown, work.operation = None, None, ""
        self.poke(pod)

    def _show(self, work: Work, show: Callable[[], None]) -> None:
        work.shown = None
        show()

    def saying(self, work: Work, show: Callable[[], None]) -> Callable[[str], None]:
        """Return how an operation says what it does now; shown at once if it takes long."""

        def say(text: str) -> None:
            if work.task is None or text == work.operation:
                return
            work.operation, work.operation_ns = text, self.now().wall_ns
            if work.shown is None:
                show()

        return say

    def retry_when_free(self, pod: Known, work: Work, error: VolumeError) -> None:
        """Have what could not be begun beside an operation that hangs begun when that is over."""
        if isinstance(error, HangingError) and error.key:
            call = partial(self._free, pod, work, work.failure)
            self.ops.when_free(error.key, work, call)

    def _free(self, pod: Known, work: Work, failure: Failure | None) -> None:
        known = any(work is one for one in (*pod.work.values(), *pod.ending.values()))
        if known and work.failure is failure:
            work.tried, work.failure = None, None
            self.poke(pod)

    def set_timer(self, pod: Known, works: Iterable[Work]) -> None:
        """Look again when the first of what failed or is to be renewed is due.

        Only of what a look would see to: anything else would be due for ever.
        """
        if pod.timer is not None:
            pod.timer.cancel()
            pod.timer = None
        due = [work.next_ns for work in works if work.next_ns]
        if due:
            seconds = max(0.0, (min(due) - self.now().mono_ns) / SECOND)
            pod.timer = asyncio.get_running_loop().call_later(seconds, self._timed, pod)

    def _timed(self, pod: Known) -> None:
        pod.timer = None
        self.poke(pod)


@contextlib.contextmanager
def blaming(uid: str) -> Iterator[None]:
    """Have an error that nobody expected remember the pod that it happened on.

    Unlike ``Process.doing`` it is not what the loop is in: it may wait for as long as it likes.
    """
    try:
        yield
    except Exception as err:
        remember_pod(err, uid)
        raise
