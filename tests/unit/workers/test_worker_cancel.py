"""A worker with a stage that is out of date: calls are awaited, and no event is lost (P-30)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kubelet.api.container import Container
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.pods.rows import WorkerState
from procs.syncloop.workers import state
from procs.syncloop.workers.book import Book
from procs.syncloop.workers.calls import finish
from procs.syncloop.workers.worker import Worker

NOW = 1_700_000_000 * 10**9
FOREVER = 3600.0

Stage = Callable[[Worker], Awaitable[float]]


def pod(image: str = "a", **meta: Any) -> Pod:
    """A pod with half a minute to end."""
    spec = PodSpec(
        containers=(Container(name="c", image=image),), termination_grace_period_seconds=30
    )
    return Pod(metadata=ObjectMeta(uid="u1", name="p", namespace="n", **meta), spec=spec)


def deleted(grace: int) -> state.Desired:
    """The pod's deletion with a grace."""
    meta = {"deletion_timestamp": "2026-01-01T00:00:00Z", "deletion_grace_period_seconds": grace}
    return state.Desired(pod(**meta), "local")


def make_worker(quarantined: frozenset[str] = frozenset()) -> Worker:
    """A worker that writes nowhere."""
    process: Any = SimpleNamespace(
        quarantined=quarantined,
        record=lambda *_: None,
        put=lambda *_: None,
        delete=lambda *_: None,
    )
    kit: Any = SimpleNamespace(process=process, wall=lambda: NOW, started_ns=0)
    peers: Any = SimpleNamespace(moved=lambda: None)
    book = Book(process, kit.wall)
    book.put(state.born(pod(), "local", NOW))
    return Worker(kit, book, "u1", peers)


def run(worker: Worker, stage: Stage) -> asyncio.Task[None]:
    """Have it work."""

    def begin(of: Worker) -> asyncio.Task[float]:
        return asyncio.ensure_future(stage(of))  # type: ignore[arg-type, return-value]

    return asyncio.create_task(worker.run(begin))


async def end(task: asyncio.Task[None]) -> None:
    """End it."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def turns(number: int = 10) -> None:
    """Let everybody else do what they can."""
    for _ in range(number):
        await asyncio.sleep(0)


class Call:
    """A call to the runtime that ends when it is told to, whoever has given it up."""

    def __init__(self) -> None:
        self.began, self.answer, self.over = asyncio.Event(), asyncio.Event(), False

    async def make(self) -> None:
        self.began.set()
        await self.answer.wait()
        self.over = True


def test_a_call_under_way_is_awaited_however_often_its_stage_is_cancelled() -> None:
    """Deleted, then deleted with less grace: the next stage begins when the call has ended."""

    async def main() -> None:
        worker, call = make_worker(), Call()
        seen: list[tuple[WorkerState, bool]] = []

        async def stage(of: Worker) -> float:
            seen.append((of.row.state, call.over))
            if of.row.state is WorkerState.SYNC:
                await finish(call.make())
            return FOREVER

        task = run(worker, stage)
        await call.began.wait()
        worker.deliver(deleted(20))
        await turns()
        worker.deliver(deleted(5))
        await turns()
        assert seen == [(WorkerState.SYNC, False)]
        call.answer.set()
        await turns()
        assert seen[1:] == [(WorkerState.TERMINATING, True)]
        await end(task)

    asyncio.run(main())


def test_the_end_of_the_process_ends_a_worker_whose_stage_is_out_of_date() -> None:
    """A stage that is being cancelled for an event does not swallow the end of its worker."""

    async def main() -> None:
        worker, call = make_worker(), Call()

        async def stage(_of: Worker) -> float:
            await finish(call.make())
            return FOREVER

        task = run(worker, stage)
        await call.began.wait()
        worker.deliver(deleted(5))
        await turns()
        await end(task)

    asyncio.run(main())


def test_what_happens_during_a_stage_is_one_more_run_of_it() -> None:
    """Events between the begin and the end of a stage are never slept over: they are one run."""

    async def main() -> None:
        worker, gate, runs = make_worker(), asyncio.Event(), []

        async def stage(of: Worker) -> float:
            runs.append(of.row.version)
            await gate.wait()
            return FOREVER

        task = run(worker, stage)
        await turns()
        for image in ("b", "c", "d"):
            worker.deliver(state.Desired(pod(image), "local"))
        gate.set()
        await turns()
        assert runs == [1, 4]
        await end(task)

    asyncio.run(main())


def test_a_stage_that_ends_its_pod_is_not_cancelled_by_that() -> None:
    """What a stage delivers to its own worker does not break it off."""

    async def main() -> None:
        worker, seen = make_worker(), []

        async def stage(of: Worker) -> float:
            if of.row.state is WorkerState.SYNC:
                of.deliver(state.Ended())
                await asyncio.sleep(0)
                seen.append("whole")
                return 0.0
            seen.append(str(of.row.state))
            return FOREVER

        task = run(worker, stage)
        await turns()
        assert seen == ["whole", "terminating"]
        await end(task)

    asyncio.run(main())


def test_a_pod_in_quarantine_is_left_alone() -> None:
    """No stage runs for it, and its step says who can release it."""

    async def main() -> None:
        worker, ran = make_worker(frozenset({"u1"})), []

        async def stage(_of: Worker) -> float:
            ran.append(True)
            return FOREVER

        task = run(worker, stage)
        worker.wake()
        await turns()
        assert (ran, worker.work.step) == ([], "quarantined")
        assert worker.work.waits[0].next == "kubeletctl release u1"
        await end(task)

    asyncio.run(main())


def test_an_answer_that_comes_after_the_cancellation_is_not_lost_noise() -> None:
    """A call that fails after its stage was cancelled ends quietly; the cancellation goes on."""

    async def main() -> None:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _l, c: complaints.append(c))
        gate = asyncio.Event()

        async def call() -> None:
            await gate.wait()
            raise ValueError("too late")

        task = asyncio.create_task(finish(call()))
        await turns()
        task.cancel()
        await turns()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert complaints == []

    asyncio.run(main())
