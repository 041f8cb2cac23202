"""Pods of the API server in the hands of workers: their end, and what others say (P-31, P-41)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kubelet.api import codec
from kubelet.api.container import Container
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.status import PodCondition, PodStatus
from kubelet.pods.rows import API, FILE, PodRow, StatusRow, WorkerState
from procs.syncloop import manager as managing
from procs.syncloop.manager import Manager
from procs.syncloop.sources.changes import Change, Op
from procs.syncloop.status.compute import Context, compute
from procs.syncloop.workers import state
from procs.syncloop.workers.book import Book
from procs.syncloop.workers.state import Desired, Ended, Stopped

NOW = 1_700_000_000 * 10**9
DELETED = {"deletion_timestamp": "2026-01-01T00:00:00Z", "deletion_grace_period_seconds": 5}


def pod(uid: str = "u1", status: PodStatus | None = None, **meta: Any) -> Pod:
    """A pod of the API server."""
    spec = PodSpec(containers=(Container(name="c", image="a"),), restart_policy="Always")
    metadata = ObjectMeta(uid=uid, name="p", namespace="n", **meta)
    return Pod(metadata=metadata, spec=spec, status=status or PodStatus(phase="Pending"))


def row(which: Pod) -> PodRow:
    return state.born(which, API, NOW)


# --- What others say about a pod. ----------------------------------------------------------------


def test_a_condition_of_others_is_looked_at_at_once():
    """P-124: the row has it, the worker wakes, and nothing that depends on the spec is redone."""
    gate = PodStatus(phase="Pending", conditions=(PodCondition(type="gate", status="True"),))
    outcome = state.apply(row(pod()), Desired(pod(status=gate), API, reconcile=True), NOW)
    assert outcome.row.pod.status == gate
    assert outcome.row.version == 1
    assert outcome.wake
    assert not outcome.cancel


def test_the_same_status_again_wakes_nobody():
    """What the row says already is no news."""
    assert not state.apply(row(pod()), Desired(pod(), API, reconcile=True), NOW).wake


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_others_ended_ends(phase):
    """P-31: a terminal phase in the API ends the pod here, whoever wrote it."""
    over = pod(status=PodStatus(phase=phase))
    outcome = state.apply(row(pod()), Desired(over, API, reconcile=True), NOW)
    assert outcome.row.state is WorkerState.TERMINATING
    assert outcome.cancel


def test_the_echo_of_its_own_end_changes_nothing_but_the_row():
    """P-30: what has ended is not ended again."""
    over = state.apply(row(pod()), Ended(), NOW).row
    over = state.apply(over, Stopped(), NOW).row
    echo = Desired(pod(status=PodStatus(phase="Succeeded")), API, reconcile=True)
    outcome = state.apply(over, echo, NOW)
    assert (outcome.row.state, outcome.wake) == (WorkerState.TERMINATED, False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_before_is_not_run(phase):
    """P-40: terminal at first sight, it goes to its end without ever being let in."""
    found = row(pod(status=PodStatus(phase=phase)))
    assert found.state is WorkerState.TERMINATING
    assert not found.admitted


def test_the_status_of_a_pod_that_ended_before_stays_what_it_was():
    """P-115: exit codes, reasons and times of an earlier life are not replaced by "unknown"."""
    document = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "low on memory",
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [
            {
                "name": "c",
                "image": "a",
                "imageID": "sha256:1",
                "containerID": "containerd://1",
                "ready": False,
                "restartCount": 3,
                "started": False,
                "state": {"terminated": {"exitCode": 3, "reason": "Error"}},
            }
        ],
    }
    over = pod(status=codec.read(PodStatus, document), **DELETED)
    found = row(over)
    context = Context(now_ns=NOW, stopped=True, ending=found.ending)
    told = codec.encode(compute(over, None, context))
    assert {key: told[key] for key in document} == document


# --- The end of a pod, and of its rows. ----------------------------------------------------------


class Sources:
    """What sources say."""

    def __init__(self, *uids: str, ready: bool = True) -> None:
        self.uids, self.ready = set(uids), ready
        self.over: list[str] = []

    def wants(self, uid: str) -> bool:
        return not self.ready or uid in self.uids

    def desired(self) -> dict[str, Any]:
        return dict.fromkeys(self.uids)

    def finished(self, uid: str) -> None:
        self.over.append(uid)


class Scene:
    """A manager whose workers end a pod as soon as it is to end."""

    def __init__(self, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        process: Any = SimpleNamespace(
            quarantined=frozenset(),
            record=lambda *_: None,
            put=lambda *_: None,
            delete=lambda *_: None,
            on_hint=lambda _: None,
            spawn=self._spawn,
            row=SimpleNamespace(depth=lambda *_: None),
        )
        cache = SimpleNamespace(full_look_ns=lambda: 1, uids=list, get=lambda _: (None, 0))
        kit: Any = SimpleNamespace(
            process=process,
            wall=lambda: NOW,
            started_ns=0,
            cache=cache,
            site=lambda: None,
        )
        events: Any = SimpleNamespace(forget=lambda _: None)
        self.book = Book(process, kit.wall)
        self.sources: Any = sources
        self.manager = Manager(kit, self.book, events)
        monkeypatch.setattr(managing, "left_on_disk", lambda *_: [])
        monkeypatch.setattr(
            Manager, "_stage", lambda _self, worker: asyncio.ensure_future(_end(worker))
        )

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def change(self, op: Op, which: Pod, source: str = API) -> None:
        self.manager.changed([Change(op, which, source)])

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        for task in list(self.tasks):
            if task.done():
                task.result()

    async def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def _end(worker: Any) -> float:
    if worker.row.state is WorkerState.SYNC:
        return 3600.0
    if worker.row.state is WorkerState.TERMINATING:
        worker.deliver(state.Stopped())
        return 0.0
    text = json.dumps({"phase": "Failed"}).encode()
    worker.book.put_status(StatusRow(worker.uid, "p", "n", 1, text, finished=True))
    worker.deliver(state.Cleaned())
    return 0.0


def story(work: Any) -> None:
    asyncio.run(work())


def test_the_last_word_on_a_pod_stays_until_its_object_is_gone(monkeypatch):
    """P-41: whoever deletes the object may be dead meanwhile; the row waits for it."""

    async def main() -> None:
        s = Scene(Sources("u1"), monkeypatch)
        s.manager.start(s.sources)
        s.change(Op.ADD, pod())
        await s.settle()
        s.change(Op.DELETE, pod(**DELETED))
        await s.settle()
        assert s.book.pods["u1"].state is WorkerState.FINISHED
        assert s.book.statuses["u1"].finished
        s.change(Op.RECONCILE, pod(status=PodStatus(phase="Failed"), **DELETED))
        await s.settle()
        s.manager._look_after()
        assert s.book.pods["u1"].state is WorkerState.FINISHED
        s.sources.uids.clear()
        s.change(Op.REMOVE, pod(**DELETED))
        assert (s.book.pods, s.book.statuses) == ({}, {})
        await s.close()

    story(main)


def test_the_next_pod_of_the_name_does_not_wait_for_the_object(monkeypatch):
    """P-15: when nothing of the first is left here, the second begins."""

    async def main() -> None:
        s = Scene(Sources("u1", "u2"), monkeypatch)
        s.manager.start(s.sources)
        s.change(Op.ADD, pod())
        s.change(Op.ADD, pod("u2"))
        await s.settle()
        second = s.manager._workers["u2"]
        assert s.manager.blocker(second) == "u1"
        s.change(Op.DELETE, pod(**DELETED))
        await s.settle()
        assert s.manager.blocker(second) == ""
        await s.close()

    story(main)


def test_a_pod_that_is_gone_from_the_api_is_forgotten_with_its_end(monkeypatch):
    """A pod that was deleted by force leaves no row."""

    async def main() -> None:
        s = Scene(Sources("u1"), monkeypatch)
        s.manager.start(s.sources)
        s.change(Op.ADD, pod())
        s.sources.uids.clear()
        s.change(Op.REMOVE, pod())
        await s.settle()
        assert (s.book.pods, s.book.statuses) == ({}, {})
        await s.close()

    story(main)


def test_static_pods_leave_no_row(monkeypatch):
    """Nobody waits for the end of a static pod's object."""

    async def main() -> None:
        s = Scene(Sources("u1"), monkeypatch)
        s.manager.start(s.sources)
        s.change(Op.ADD, pod(), FILE)
        await s.settle()
        s.change(Op.REMOVE, pod(), FILE)
        await s.settle()
        assert s.book.pods == {}
        await s.close()

    story(main)


@pytest.mark.parametrize(
    ("ready", "uids", "kept"), [(True, (), 0), (False, (), 1), (True, ("u1",), 1)]
)
def test_a_successor_keeps_the_last_word_for_as_long_as_it_is_needed(
    monkeypatch, ready, uids, kept
):
    """What ended stays known until it is sure that its object is gone."""

    async def main() -> None:
        s = Scene(Sources(*uids, ready=ready), monkeypatch)
        s.book.put(replace(row(pod(**DELETED)), state=WorkerState.FINISHED))
        s.manager.start(s.sources)
        await s.settle()
        assert len(s.book.pods) == kept
        assert s.manager._workers == {}
        s.sources.uids.clear()
        s.sources.ready = True
        s.manager._look_after()
        assert s.book.pods == {}
        await s.close()

    story(main)
