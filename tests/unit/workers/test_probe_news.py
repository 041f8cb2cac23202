"""From a verdict of prober to the pod's status and its worker (B-6, B-11, B-18, P-78, P-133)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kubelet.channels.probing import NotePodEvent, PodEventNoted
from kubelet.channels.server import Caller
from kubelet.channels.wire import ANY_KEY
from kubelet.pods.probes import PROBES
from kubelet.pods.rows import Call, CallStep, WorkerState
from kubelet.pods.runtime import ContainerState
from procs.node.pods.steps import Wanted
from procs.syncloop.probes.noting import Noting
from procs.syncloop.workers import state, sync
from procs.syncloop.workers.publish import publish, publish_now
from tests.unit.workers.probe_scene import (
    FAILURE,
    LIVENESS,
    READINESS,
    STARTUP,
    SUCCESS,
    UNKNOWN,
    Scene,
    findings,
    pod,
    probed,
    runs,
)

HOOK = {"postStart": {"exec": {"command": ["true"]}}}
UNREADY = ("False", "ContainersNotReady", "containers with unready status: [app]")


@pytest.fixture
def scene(tmp_path):
    """Return a maker of scenes."""
    made = []

    def make(wanted=None, *containers):
        wanted = wanted or pod(probed("app", LIVENESS, READINESS))
        made.append(Scene(tmp_path, wanted, *(containers or (runs("app"),))))
        return made[-1]

    yield make
    for one in made:
        one.close()


def terminate(of: Scene) -> None:
    """Have the pod deleted."""
    of.worker.deliver(state.Removed())
    of.worker._woken.clear()


# --- Readiness. ---


def test_readiness_is_shown_at_once_and_wakes_nobody(scene):
    """B-11: the status is written in the hint itself; the plan does not depend on it."""
    s = scene()
    publish(s.worker, s.seen.record)
    assert (s.container(), s.condition()) == ((True, False), UNREADY)
    s.find(findings("app-0", readiness=SUCCESS))
    assert (s.container(), s.condition()) == ((True, True), ("True", "", ""))
    s.find(findings("app-0", readiness=FAILURE))
    assert (s.container(), s.condition()) == ((True, False), UNREADY)
    assert not s.woken
    assert s.recorded[-1] == "probe readiness of app app-0: failure, connection refused"


def test_a_hint_that_was_lost_is_made_good_by_the_next_about_everything(scene):
    """A lost message costs a tick: the rows are compared, and what changed is shown."""
    s = scene()
    s.find(findings("app-0", readiness=SUCCESS), hint="somebody-else")
    assert s.written == []
    s.hint(PROBES, ANY_KEY)
    assert s.container() == (True, True)


def test_readiness_is_shown_in_the_middle_of_a_long_stage(scene):
    """B-11: whatever the worker waits for, an image or a hook, what is ready is told."""

    async def main():
        s = scene()
        gate = asyncio.Event()

        async def stage():
            await gate.wait()
            return 3600.0

        life = asyncio.create_task(s.worker.run(lambda _: asyncio.create_task(stage())))
        await asyncio.sleep(0)
        assert s.worker.syncing
        s.find(findings("app-0", readiness=SUCCESS))
        assert s.container() == (True, True)
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    asyncio.run(main())


def test_the_same_verdict_again_writes_nothing(scene):
    """What is published already is not published again."""
    s = scene()
    s.find(findings("app-0", readiness=SUCCESS))
    s.find(findings("app-0", readiness=SUCCESS, liveness=SUCCESS))
    s.find(findings("app-0", "nobody", readiness=FAILURE))
    assert len(s.written) == 1


@pytest.mark.parametrize("stamp_ns", [0, 5])
def test_nothing_is_shown_before_the_runtime_was_looked_at(scene, stamp_ns):
    """P-133: what is not known, or only from before this process began, is not shown as gone."""
    s = scene()
    s.kit.started_ns = 5
    s.see(stamp_ns=stamp_ns)
    s.find(findings("app-0", readiness=SUCCESS))
    assert s.written == []


def test_a_pod_that_was_not_let_in_or_is_left_alone_is_not_shown(scene):
    """Before its admission, and in quarantine, a pod's probes have no say."""
    s = scene()
    admitted = s.worker.row
    s.book.put(state.born(admitted.pod, "api", 1))
    s.find(findings("app-0", readiness=SUCCESS))
    s.book.put(admitted)
    s.kit.process.quarantined = frozenset({"u1"})
    s.find(findings("app-0", readiness=FAILURE))
    assert s.written == []


# --- What a restart of ours, or of prober, does to it. ---


def test_a_restart_of_prober_or_syncloop_makes_nothing_unready(scene):
    """P-133: without a row, with an unknown verdict, and after a new start, Ready stays."""
    s = scene(pod(probed("app", STARTUP, READINESS)))
    s.find(findings("app-0", startup=SUCCESS, readiness=SUCCESS))
    assert s.container() == (True, True)
    s.find(findings("app-0", startup=UNKNOWN, readiness=UNKNOWN))
    s.prober.delete("app-0")
    s.hint(PROBES, "app-0")
    publish(s.worker, s.seen.record)
    s.close()
    next_one = scene(s.worker.pod)
    next_one.book.statuses.update(s.book.statuses)
    publish(next_one.worker, next_one.seen.record)
    assert len(s.written) == 1
    assert next_one.written == []
    assert sync._observed(next_one.worker, next_one.seen.record, s.written[-1].status).started == {
        "app-0": True
    }


def test_a_verdict_on_the_container_before_says_nothing_of_the_next(scene):
    """B-7: a verdict is about one id."""
    s = scene()
    s.find(findings("app-0", readiness=SUCCESS))
    s.see(runs("app", 1))
    publish_now(s.worker)
    assert s.container() == (True, False)
    s.find(findings("app-0", readiness=FAILURE, liveness=FAILURE))
    observed = sync._observed(s.worker, s.seen.record, s.written[-1].status)
    assert observed.liveness_failed == frozenset()


# --- Liveness and startup. ---


def test_a_liveness_failure_wakes_the_worker_and_is_in_its_plan(scene):
    """P-78: the container is killed for it, at the hint."""
    s = scene()
    s.find(findings("app-0", liveness=SUCCESS, readiness=SUCCESS))
    assert not s.woken
    s.find(findings("app-0", liveness=FAILURE, readiness=SUCCESS))
    assert s.woken
    status = publish(s.worker, s.seen.record)
    observed = sync._observed(s.worker, s.seen.record, status)
    assert (observed.liveness_failed, observed.startup_failed) == ({"app-0"}, frozenset())
    planned = sync.plan(s.worker.pod, observed)
    assert [(k.id, k.message) for k in planned.kill] == [
        ("app-0", "Container app failed liveness probe, will be restarted")
    ]
    assert [(one.name, one.attempt) for one in planned.start] == [("app", 1)]


def test_the_start_of_a_sidecar_lets_the_next_begin(scene):
    """P-75: its startup probe gates what follows it; success and failure both wake."""
    wanted = pod(
        probed("app"),
        init=(probed("side", STARTUP, restartPolicy="Always"),),
    )
    s = scene(wanted, runs("side"))

    def planned():
        status = publish(s.worker, s.seen.record)
        return sync.plan(s.worker.pod, sync._observed(s.worker, s.seen.record, status))

    assert planned().nothing
    s.find(findings("side-0", startup=SUCCESS))
    assert s.woken
    assert [one.name for one in planned().start] == ["app"]
    s.find(findings("side-0", startup=FAILURE))
    found = planned()
    assert [k.message for k in found.kill] == ["Init container side failed startup probe"]
    assert [one.name for one in found.start] == ["side"]


def test_while_a_pod_ends_readiness_is_shown_and_nothing_is_restarted(scene):
    """B-6: its worker is not woken for a liveness failure, but Ready moves."""
    s = scene()
    s.find(findings("app-0", readiness=SUCCESS, liveness=SUCCESS))
    terminate(s)
    assert s.worker.row.state is WorkerState.TERMINATING
    s.find(findings("app-0", readiness=FAILURE, liveness=FAILURE))
    assert (s.container(), s.condition()) == ((True, False), UNREADY)
    assert not s.woken


def test_a_pod_that_has_stopped_has_no_more_to_show(scene):
    """What comes late about a pod of which nothing runs is not told."""
    s = scene()
    terminate(s)
    s.worker.deliver(state.Stopped())
    s.find(findings("app-0", readiness=FAILURE))
    assert s.written == []


# --- Hooks. ---


def test_a_container_whose_hook_runs_is_named_until_it_is_over(scene):
    """P-144: prober leaves it alone; the end of the hook is told even if nothing else changes."""
    s = scene(pod(probed("app", READINESS, lifecycle=HOOK)))
    s.book.call("u1", "app", Call(CallStep.START, container_id="app-0"))
    publish_now(s.worker)
    assert (s.written[-1].hooked, s.container()) == (("app-0",), (False, False))
    s.worker.unstarted.add("app-0")
    s.book.call("u1", "app", None)
    publish_now(s.worker)
    s.worker.unstarted.clear()
    publish_now(s.worker)
    assert (s.written[-1].hooked, s.container()) == ((), (True, False))
    assert len(s.written) == 2


def test_what_only_prober_wants_to_know_is_not_said_to_the_api_server(scene):
    """A row in which only the hooks differ has the version, and so the mark, of the one before."""
    s = scene(pod(probed("app", lifecycle=HOOK), probed("b")), runs("app"), runs("b"))
    publish_now(s.worker)
    s.book.statuses["u1"] = s.written[-1].__class__(
        "u1", "p", "n", s.written[-1].version, s.written[-1].document, hooked=("gone",)
    )
    before = s.written[-1]
    publish_now(s.worker)
    after = s.written[-1]
    assert (len(s.written), after.hooked, after.version) == (2, (), before.version)
    assert Wanted.of(after).mark == Wanted.of(before).mark


def test_only_what_runs_is_named_as_hooked(scene):
    """A container that was created for it, or has ended, is not probed anyway."""
    s = scene(pod(probed("app", lifecycle=HOOK)))
    s.worker.unstarted.add("app-0")
    running = runs("app")
    s.see(running.__class__("app-0", "app", 0, ContainerState.CREATED, sandbox_id="s"))
    publish_now(s.worker)
    assert s.written[-1].hooked == ()


# --- Events. ---


@pytest.mark.parametrize(
    ("uid", "container", "noted"),
    [("u1", "app", True), ("u2", "app", False), ("u1", "other", False)],
)
def test_an_event_of_a_probe_is_noted_among_the_pod_s(scene, uid, container, noted):
    """B-16: under its container; of a pod or container that is gone nothing is said."""
    s, said = scene(), []
    noting = Noting(s.book, lambda of, *rest: said.append((str(of), *rest)))
    request = NotePodEvent(uid, container, "Warning", "Unhealthy", "Liveness probe failed: x")
    caller = Caller("prober", 0, 1, 0)
    assert asyncio.run(noting.answer(request, caller)) == PodEventNoted()
    event = ("n/p", "Warning", "Unhealthy", "Liveness probe failed: x", "app")
    assert said == ([event] if noted else [])


def test_an_event_of_an_orphan_is_not_noted(scene):
    """Nobody knows which containers it has."""
    s = scene()
    s.book.put(state.orphan("u9", "o", "n", 1))
    noting = Noting(s.book, lambda *_: SimpleNamespace(fail=1 / 0))
    request = NotePodEvent("u9", "app", "Warning", "Unhealthy", "x")
    assert asyncio.run(noting.answer(request, Caller("prober", 0, 1, 0))) == PodEventNoted()
