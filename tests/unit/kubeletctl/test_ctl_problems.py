"""What is wrong, in sentences: pure decisions over a snapshot."""

from __future__ import annotations

import pytest

from kubeletctl import problems
from kubeletctl.snapshot import ProcessView, Snapshot
from kubeletctl.state import ProcessState, State

NOW = 1_000 * 10**9
SLOW = "pleg (pid 7) is slow: at its last heartbeat, 0.1s ago, its event loop was 400 ms late"


def view(**changes) -> ProcessView:
    base = ProcessView(
        name="pleg",
        pid=7,
        state="running",
        restarts=0,
        uptime_seconds=42.0,
        last_exit=None,
        heartbeat_age_ms=100.0,
        operation="",
        operation_age_ms=None,
        loop_lag_ms=1.0,
        cpu_millicores=1.0,
        rss_mib=10.0,
        pss_mib=5.0,
        threads=1,
        fds=9,
    )
    return base._replace(**changes)


def snapshot(one: ProcessView, letter: str = "S", **changes) -> Snapshot:
    process = ProcessState(
        one.name, one.pid, one.state, one.restarts, NOW, None, NOW + 4_000_000_000, None
    )
    state = State(
        version="0.1.0",
        node="n",
        pid=1,
        started_ns=NOW - 90 * 10**9,
        started_unix=0.0,
        ready=True,
        phase="running",
        heartbeat_timeout_ms=5000,
        processes=(process,),
        quarantine=(),
        problems=(),
        notes=(),
    )
    state = state._replace(**changes)
    return Snapshot(NOW, 1e9, state, (one,), {}, {one.name: letter})


def texts(*arguments, **changes) -> list[str]:
    return [problem.text for problem in problems.find(snapshot(*arguments, **changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"heartbeat_age_ms": 2500.0}, []),
        (
            {"heartbeat_age_ms": 2600.0},
            ["pleg (pid 7) has had no heartbeat for 2.6s; the time-out is 5.0s"],
        ),
        (
            {"heartbeat_age_ms": 4000.0, "operation": "x", "operation_age_ms": 3900.0},
            ["pleg (pid 7) has had no heartbeat for 4.0s, in x since 3.9s; the time-out is 5.0s"],
        ),
        (
            {"heartbeat_age_ms": None},
            ["pleg (pid 7) has given no sign of life 42s after its start"],
        ),
        (
            {"loop_lag_ms": 400.0},
            [SLOW],
        ),
        (
            {"state": "backoff", "pid": 0, "last_exit": "exit 70 (crashed) 3.0s ago"},
            ["pleg is down: exit 70 (crashed) 3.0s ago; it is started again in 4.0s"],
        ),
        (
            {"state": "starting", "last_exit": "killed by SIGKILL 1.0s ago"},
            ["pleg (pid 7) is starting since 42s; before that: killed by SIGKILL 1.0s ago"],
        ),
        (
            {"state": "hung", "operation": "mount", "operation_age_ms": 9000.0},
            ["pleg (pid 7) hangs and is being replaced, in mount since 9.0s"],
        ),
        ({"state": "stopping"}, ["pleg (pid 7) is being ended"]),
        ({"state": "killed"}, ["pleg (pid 7) is being killed"]),
        ({"state": "stopped", "pid": 0}, ["pleg is stopped"]),
        ({"state": "gone"}, ["pleg: pid 7 is gone, and the supervisor has not noticed"]),
        ({"state": "odd"}, ["pleg is odd"]),
    ],
)
def test_each_state_has_its_sentence(changes, expected):
    """Every state of a process but a sound one gives exactly one sentence."""
    assert texts(view(**changes)) == expected


def test_phases_of_the_whole():
    """A kubelet that starts, stops or is not ready says so, with its age."""
    assert texts(view(), phase="starting") == ["the kubelet is starting (up since 1m30s)"]
    assert texts(view(), ready=False) == ["the kubelet is not ready, 1m30s after its start"]


def test_closed_tables_are_a_note():
    """That a user may not read the tables is not the kubelet's fault."""
    found = problems.find(snapshot(view()), closed=True)
    assert problems.healthy(found)
    assert "only root may read them" in found[0].text


def test_serious_problems_make_it_unhealthy():
    """One sentence about a table is enough."""
    assert not problems.healthy(problems.find(snapshot(view()), ["table pods is unavailable: x"]))
