"""What did not work and is tried again, with the words that tell of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kubelet import durations
from kubelet.pods.rows import Wait

if TYPE_CHECKING:
    from kubelet.pods.runtime import ContainerRecord
    from procs.syncloop.workers.worker import Worker

AGAIN: Final = "it is tried again"


class RetryError(Exception):
    """Something did not work and is tried again; ``until_ns`` (wall clock) says when, 0: later.

    ``wait`` has the words for it. What it leaves open is filled in: the sentence is what was
    tried, and next comes another try.
    """

    def __init__(
        self,
        sentence: str,
        until_ns: int = 0,
        *,
        soon: bool = False,
        wait: Wait | None = None,
    ) -> None:
        super().__init__(sentence)
        self.until_ns = until_ns
        self.soon = soon
        self.wait = wait or Wait("the next try")


@dataclass(slots=True)
class Result:
    """How far a run of the plan came."""

    acted: bool = False
    started: bool = False  # a container: how it goes on there is not known yet
    failures: list[RetryError] = field(default_factory=list)


def show(worker: Worker, failures: list[RetryError], at_ns: int) -> None:
    """Say what a pod waits for after failures; the next try is at a moment of the wall clock."""
    worker.still_waiting(failure.wait.what for failure in failures)
    waits = []
    for failure in failures:
        wait = failure.wait
        first = worker.waiting(wait.what).since_ns
        waits.append(
            replace(
                wait,
                since_ns=wait.since_ns or first,
                tried=wait.tried or str(failure),
                next=wait.next or AGAIN,
                next_ns=wait.next_ns or at_ns,
            )
        )
    worker.step("waiting to try again", *waits)


def crash_wait(name: str, ended: ContainerRecord, delay_ns: int, at_ns: int) -> Wait:
    """Return the words for a container that ended and waits to be started again (P-92)."""
    how = f"its run {ended.attempt + 1} ended with exit code {ended.exit_code}"
    if ended.reason:
        how += f" ({ended.reason})"
    if ended.message:
        how += f", saying {' '.join(ended.message.split())!r}"
    then = f"it is started again, after a back-off of {durations.render(delay_ns)}"
    return Wait(f"container {name} to be started again", ended.finished_at_ns, how, then, at_ns)
