"""A prober on real tables: what it makes of pods, of results, of deaths and of time."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.api.handlers import ExecAction, Probe
from kubelet.channels.errors import DeniedError, PeerGoneError
from kubelet.pods.probes import PROBES, PROBING
from kubelet.pods.rows import PODS, STATUS, WorkerState
from procs.prober.events import ROOM
from procs.prober.job import Outcome, ProbeError, Result
from tests.unit.prober.scene import (
    BAD,
    SECOND,
    UID,
    WALL,
    Scene,
    container_of,
    http,
    pod_of,
    running,
    stopped,
    story,
)

TEN = {"period_seconds": 10}


async def begin(scene, *said, **probes):
    """Put a pod with one container and these probes, which runs."""
    scene.put_pod(pod_of(container_of(**probes)))
    scene.put_status(*(said or (running(),)))
    await scene.settle()


@story
async def test_a_new_container_is_probed_at_once_and_then_every_period(tmp_path):
    """B-2, B-5: nothing is waited for where there is no delay; the rhythm is the period's."""
    async with Scene(tmp_path) as scene:
        await begin(scene, readiness=http(**TEN, success_threshold=1))
        scene.results["readiness"] = BAD
        await scene.run(25)
        assert scene.begun == [("readiness", 0.0), ("readiness", 10.0), ("readiness", 20.0)]


@story
async def test_the_initial_delay_is_counted_from_the_start_of_the_container(tmp_path):
    """B-5: no probe before it is over; the status has full seconds, so up to one more."""
    async with Scene(tmp_path) as scene:
        delayed = http(initial_delay_seconds=7, **TEN)
        await begin(scene, running(at=WALL - 3 * SECOND), liveness=delayed)
        await scene.run(9)
        ((kind, moment),) = scene.begun
        assert kind == "liveness"
        assert moment == 5.0


@story
async def test_a_verdict_is_told_once_and_a_probe_never(tmp_path):
    """Readers are woken by news alone: ``probes`` with a hint, ``probing`` without."""
    async with Scene(tmp_path) as scene:
        await begin(scene, readiness=http(**TEN))
        assert scene.told() == []
        await scene.run(31)
        assert scene.verdicts() == {"readiness": "success"}
        assert scene.told() == ["id-1"]
        assert {table for table, _ in scene.process.channels.published} == {PROBES}
        assert scene.tracks()["readiness"].succeeded == len(scene.begun) == 3


@story
async def test_a_failed_liveness_probe_is_held_until_there_is_another_container(tmp_path):
    """B-8, B-9: three failures make a verdict, and nothing more is asked of that container."""
    async with Scene(tmp_path) as scene:
        scene.results["liveness"] = BAD
        await begin(scene, liveness=http(period_seconds=1))
        await scene.run(10)
        assert len(scene.begun) == 3
        assert scene.verdicts() == {"liveness": "failure"}
        scene.put_status(stopped())
        scene.put_status(running(id_="id-2"))
        await scene.run(0)
        assert len(scene.begun) == 4
        assert scene.verdicts() is None
        assert scene.verdicts("id-2") == {"liveness": "success"}
        assert scene.tracks("id-2")["liveness"].failed == 4  # the series goes on (B-17)


@story
async def test_startup_holds_the_others_and_lets_them_go_at_once(tmp_path):
    """B-5, B-11: liveness and readiness begin with the startup probe's success."""
    async with Scene(tmp_path) as scene:
        scene.results["startup"] = BAD
        probes = {"liveness": http(**TEN), "readiness": http(**TEN)}
        await begin(scene, startup=http(period_seconds=2, failure_threshold=30), **probes)
        await scene.run(5)
        assert scene.begun == [("startup", 0.0), ("startup", 2.0), ("startup", 4.0)]
        scene.results.clear()
        scene.clear()
        await scene.run(2)
        assert scene.begun == [("startup", 6.0), ("liveness", 6.0), ("readiness", 6.0)]
        await scene.run(9.5)
        assert [kind for kind, _ in scene.begun].count("startup") == 1
        assert set(scene.verdicts().values()) == {"success"}


@story
async def test_an_error_is_tried_three_times_and_changes_nothing(tmp_path):
    """B-8, B-10: what could not be tried says nothing of the container; it is counted and told."""
    async with Scene(tmp_path) as scene:
        scene.results["liveness"] = ProbeError("port named www is not there")
        await begin(scene, liveness=http(failure_threshold=1, **TEN))
        await scene.run(1)
        assert len(scene.begun) == 3
        assert scene.verdicts() == {"liveness": "success"}
        track = scene.tracks()["liveness"]
        assert (track.unknown, track.failed, sum(track.buckets)) == (1, 0, 1)
        (event,) = scene.process.channels.asked
        assert event.message == (
            "Liveness probe errored and resulted in unknown state: port named www is not there"
        )


@pytest.mark.parametrize(
    ("result", "reason", "text"),
    [
        (Result.FAILURE, "Unhealthy", "Readiness probe failed: no"),
        (Result.WARNING, "ProbeWarning", "Readiness probe warning: no"),
    ],
)
@story
async def test_an_event_tells_of_each_probe_that_was_not_plainly_good(
    tmp_path, result, reason, text
):
    """B-16: in the Go kubelet's words; a warning counts as a success (B-12)."""
    async with Scene(tmp_path) as scene:
        scene.results["readiness"] = Outcome(result, "no")
        await begin(scene, readiness=http(period_seconds=1))
        await scene.run(1.5)
        events = scene.process.channels.asked
        assert len(events) == len(scene.begun) == 2
        event = events[0]
        assert (event.pod, event.container, event.type) == (UID, "c", "Warning")
        assert (event.reason, event.message) == (reason, text)
        failed = result is Result.FAILURE
        assert scene.verdicts() == {"readiness": "failure" if failed else "success"}


@story
async def test_events_wait_for_a_syncloop_that_restarts_and_are_bounded(tmp_path):
    """One that cannot be told now is told later; what will never be taken is counted."""
    async with Scene(tmp_path) as scene:
        scene.results["readiness"] = BAD
        scene.process.channels.answers = [PeerGoneError("gone"), DeniedError("no")]
        await begin(scene, readiness=http(period_seconds=1))
        await scene.run(1.5)
        assert len(scene.process.channels.asked) == 1
        assert scene.process.row.counters["events_dropped"] == 1
        for _ in range(2 * ROOM):
            scene.prober._teller.tell(scene.process.channels.asked[0])
        assert scene.process.row.counters["events_dropped_full"] == ROOM


@story
async def test_a_pod_that_ends_is_asked_only_whether_it_is_ready(tmp_path):
    """B-6: liveness and startup are a success from then on; readiness goes on."""
    async with Scene(tmp_path) as scene:
        scene.results["liveness"] = scene.results["readiness"] = BAD
        await begin(scene, liveness=http(period_seconds=1), readiness=http(period_seconds=1))
        await scene.run(5)
        assert scene.verdicts()["liveness"] == "failure"
        pod = pod_of(container_of(liveness=http(), readiness=http(period_seconds=1)))
        scene.put_pod(pod, state=WorkerState.TERMINATING)
        scene.clear()
        await scene.run(3)
        assert {kind for kind, _ in scene.begun} == {"readiness"}
        assert scene.verdicts() == {"liveness": "success", "readiness": "failure"}
        assert scene.told() == ["id-1", "id-1"]
        scene.put_pod(pod, state=WorkerState.TERMINATED)
        assert scene.verdicts() is scene.tracks() is None


@story
async def test_the_result_of_a_probe_counts_only_for_its_own_container(tmp_path):
    """A container may be replaced while it is being asked."""
    async with Scene(tmp_path) as scene:
        answer = scene.results["readiness"] = asyncio.get_running_loop().create_future()
        await begin(scene, readiness=http(**TEN))
        await scene.run(0)
        scene.results.clear()
        scene.put_status(running(id_="id-2"))
        answer.set_result(BAD)
        await scene.run(1)
        assert scene.tracks() is None
        assert scene.verdicts("id-2") == {"readiness": "success"}
        assert scene.tracks("id-2")["readiness"].failed == 0


@story
async def test_a_probe_that_outlasts_its_period_is_not_begun_twice(tmp_path):
    """The next one follows at its end, and the phase stays (B-2)."""
    async with Scene(tmp_path) as scene:
        answer = scene.results["liveness"] = asyncio.get_running_loop().create_future()
        await begin(scene, liveness=http(period_seconds=2, timeout_seconds=9))
        await scene.run(5)
        assert len(scene.begun) == 1
        scene.results["liveness"] = BAD
        answer.set_result(BAD)
        await scene.run(2)
        assert [moment for _, moment in scene.begun] == [0.0, 5.0, 6.0]
        assert "probes_late_1s" not in scene.process.row.counters


@story
async def test_commands_of_one_container_are_run_one_after_the_other(tmp_path):
    """Pain 32: at most one exec probe is in flight per container; nobody else waits."""
    async with Scene(tmp_path) as scene:
        command = Probe(exec=ExecAction(("true",)), period_seconds=10)
        answer = scene.results["liveness"] = asyncio.get_running_loop().create_future()
        await begin(scene, liveness=command, readiness=command)
        await scene.run(3)
        assert scene.begun == [("liveness", 0.0)]
        assert scene.process.row.depths["exec"] == 1
        answer.set_result(Outcome(Result.SUCCESS))
        await scene.run(0)
        assert scene.begun == [("liveness", 0.0), ("readiness", 3.0)]
        assert scene.process.row.depths["exec"] == 0
        assert "probes_late_1s" not in scene.process.row.counters


@story
async def test_the_phase_the_streak_and_the_verdict_outlive_the_process(tmp_path):
    """Pains 19 to 23: a successor goes on where its predecessor was killed."""
    async with Scene(tmp_path) as scene:
        await begin(scene, startup=http(), liveness=http(**TEN), readiness=http(**TEN))
        await scene.run(1)
        scene.results["liveness"] = BAD
        await scene.run(24)
        before = scene.tracks()["liveness"]
        assert (before.streak, before.failing) == (2, True)
        scene.clear()
        await scene.restart(after=0.05)
        assert scene.verdicts() == dict.fromkeys(("startup", "liveness", "readiness"), "success")
        await scene.run(0)
        assert scene.begun == []
        due = (before.due_ns - scene.times.base) / SECOND
        await scene.run(11)
        assert ("liveness", due) in scene.begun
        assert "startup" not in [kind for kind, _ in scene.begun]
        assert scene.verdicts()["liveness"] == "failure"
        assert scene.told() == ["id-1"]


@story
async def test_what_was_due_during_a_death_is_made_up_for_and_the_phase_stays(tmp_path):
    """Missed at t, made at t + the time away: here at once, for it was the first to be missed."""
    async with Scene(tmp_path) as scene:
        scene.results["readiness"] = BAD
        await begin(scene, readiness=http(**TEN))
        await scene.run(9)
        scene.clear()
        await scene.restart(after=3)
        await scene.run(10)
        assert [moment for _, moment in scene.begun] == [12.0, 20.0]
        assert scene.process.row.counters["probes_late_1s"] == 1


@story
async def test_a_container_that_had_started_is_never_asked_again_whether_it_has(tmp_path):
    """Pain 22, B-7: with all tables lost the status tells who had started and who was ready."""
    async with Scene(tmp_path) as scene:
        said = running(at=WALL - 3600 * SECOND, ready=True, started=True)
        probes = {"startup": http(), "readiness": http(**TEN), "liveness": http(**TEN)}
        await begin(scene, said, **probes)
        assert scene.verdicts() == dict.fromkeys(("startup", "liveness", "readiness"), "success")
        await scene.run(10)
        assert sorted(kind for kind, _ in scene.begun) == ["liveness", "readiness"]
        assert scene.told() == []


@story
async def test_old_containers_without_a_history_are_not_probed_all_at_once(tmp_path):
    """B-4, pain 23: each on its slot within a period; the next process keeps to that."""
    async with Scene(tmp_path) as scene:
        for n in range(50):
            uid = f"{UID[:-2]}{n:02d}"
            scene.put_pod(pod_of(container_of(liveness=http(**TEN)), uid=uid))
            scene.put_status(running(id_=f"id-{n}", at=WALL - 3600 * SECOND), uid=uid)
        await scene.run(2)
        early = len(scene.begun)
        assert 0 < early < 25
        await scene.restart()
        await scene.run(0)
        assert len(scene.begun) == early
        await scene.run(7.9)
        assert len(scene.begun) == 50
        assert len({moment for _, moment in scene.begun}) > 40


@story
async def test_a_process_that_was_stopped_for_a_while_makes_no_burst(tmp_path):
    """What is overdue is begun in its own rhythm, and counted as late because of us."""
    async with Scene(tmp_path) as scene:
        for n in range(50):
            uid = f"{UID[:-2]}{n:02d}"
            scene.put_pod(pod_of(container_of(liveness=http(**TEN)), uid=uid))
            scene.put_status(running(id_=f"id-{n}", at=WALL - 3600 * SECOND), uid=uid)
        await scene.run(10)
        scene.clear()
        await scene.stall(5)
        await scene.run(0)
        assert len(scene.begun) < 4
        await scene.run(5)
        assert 40 <= len(scene.begun) <= 60
        assert scene.process.row.counters["probes_late_1s"] > 10


@story
async def test_a_status_that_is_news_has_an_unready_container_asked_at_once(tmp_path):
    """B-11: not more often than the shortest period, and only while it is not ready."""
    async with Scene(tmp_path) as scene:
        scene.results["readiness"] = BAD
        await begin(scene, readiness=http(**TEN))
        await scene.run(0.2)
        scene.put_status(running(), phase="Running")
        await scene.run(2)
        assert [moment for _, moment in scene.begun] == [0.0, 1.0]
        scene.results.clear()
        scene.put_status(running(), phase="Pending")
        await scene.run(1)
        assert [moment for _, moment in scene.begun] == [0.0, 1.0, 2.2]
        scene.put_status(running(ready=True), phase="Running")
        await scene.run(5)
        assert len(scene.begun) == 3


@story
async def test_rows_outlive_a_table_of_pods_that_is_rebuilt(tmp_path):
    """Pain 20: a pod without a row is not asked; its verdicts are kept for when it is back."""
    async with Scene(tmp_path) as scene:
        await begin(scene, readiness=http(**TEN))
        await scene.run(1)
        scene.syncloop.writers[PODS].delete(UID)
        scene.syncloop.writers[STATUS].delete(UID)
        scene.hint(PODS)
        scene.clear()
        await scene.run(30)
        assert scene.begun == []
        assert scene.verdicts() == {"readiness": "success"}
        scene.put_pod(pod_of(container_of(readiness=http(**TEN))))
        scene.put_status(running())
        await scene.run(11)
        assert len(scene.begun) in (1, 2)
        assert scene.verdicts() == {"readiness": "success"}


@story
async def test_rows_of_pods_that_are_gone_go_away(tmp_path):
    """At once if syncloop says so, after a minute if a table simply has them no more."""
    async with Scene(tmp_path) as scene:
        await begin(scene, readiness=http(**TEN))
        scene.delete(PODS)
        assert scene.verdicts() is None
        await begin(scene, readiness=http(**TEN))
        await scene.kill()
        scene.syncloop.writers[PODS].delete(UID)
        scene.start()
        await scene.run(59)
        assert scene.verdicts() is not None
        await scene.run(2)
        assert scene.verdicts() is scene.tracks() is None


@story
async def test_a_row_of_ours_that_is_no_good_is_left_out(tmp_path):
    """What cannot be read is taken away, and the container begins with what its status says."""
    async with Scene(tmp_path) as scene:
        await begin(scene, running(ready=True), readiness=http(**TEN))
        scene.process.tables.put(PROBING, "id-1", {"id": 3})
        scene.process.tables.put(PROBES, "id-1", ["what"])
        await scene.restart()
        assert scene.verdicts() == {"readiness": "success"}


@story
async def test_a_probe_without_a_handler_is_said_to_lack_it(tmp_path):
    """The Go kubelet's words: pod, container and what is missing."""
    async with Scene(tmp_path) as scene:
        await begin(scene, liveness=Probe())
        await scene.run(0)
        (event,) = scene.process.channels.asked
        assert event.message.endswith(f"missing probe handler for web_shop({UID}):c")


@story
async def test_an_error_that_nobody_expected_remembers_its_pod(tmp_path):
    """So that a pod which kills this process again and again can be left alone."""
    scene = Scene(tmp_path)
    scene.start()
    scene.results["liveness"] = ZeroDivisionError("a bug")
    await begin(scene, liveness=http())
    await scene.run(0)
    (error,) = scene.process.broken
    assert f"pod: {UID}" in error.__notes__
    scene.process.broken.clear()
    await scene.kill()
    scene.syncloop.close()
