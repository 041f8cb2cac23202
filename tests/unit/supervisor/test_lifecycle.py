"""The life of a child, event by event."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.exits import Exit, ExitCode
from supervisor.lifecycle import (
    Beat,
    Child,
    Event,
    Exited,
    Fork,
    Forked,
    Policy,
    Replace,
    Report,
    Send,
    Silent,
    State,
    Tick,
    Unwanted,
    Wanted,
    transition,
)

POLICY = Policy()
KILLED = Exit(-signal.SIGKILL)


def live(*events: tuple[float, Event], child: Child | None = None) -> tuple[Child, list[object]]:
    """Apply timed events; the child in the end and everything that was to be done."""
    child = child or Child()
    actions: list[object] = []
    for now, event in events:
        step = transition(child, event, now, POLICY)
        child = step.child
        actions += step.actions
    return child, actions


RUNNING = live((0, Wanted()), (0, Forked(7)), (0.1, Beat()))[0]


def test_a_wanted_child_is_forked_and_runs_from_its_first_heartbeat() -> None:
    """Wanted leads to a fork, and the first beat to RUNNING."""
    child, actions = live((0, Wanted()), (0, Forked(7)))
    assert (child.state, child.pid, actions) == (State.STARTING, 7, [Fork()])
    assert live((0.2, Beat()), child=child)[0].state is State.RUNNING


def test_a_first_death_is_followed_by_a_restart_at_once() -> None:
    """However short its first life was, the first restart waits for nothing."""
    child, actions = live((0.2, Exited(KILLED)), child=RUNNING)
    assert actions == [Report("killed by SIGKILL", expected=False, fault=False), Fork()]
    assert child.state is State.BACKOFF
    assert child.last_exit == "killed by SIGKILL"


def test_quick_deaths_double_the_delay_up_to_the_longest() -> None:
    """0, 0.1, 0.2, ... 30, 30 seconds."""
    child, now, delays = RUNNING, 0.2, []
    for _ in range(12):
        child, _ = live((now, Exited(Exit(70))), child=child)
        delays.append(round(child.next_start - now, 3))
        now = child.next_start
        child, _ = live((now, Tick()), (now, Forked(8)), child=child)
        now += 0.05
    assert delays == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_a_long_life_wipes_the_slate() -> None:
    """A life of a second, and of twice the delay before it, is followed by a restart at once."""
    crash = Exited(Exit(ExitCode.CRASHED))
    child, _ = live((0.2, crash), (0.2, Forked(8)), (0.3, crash), child=RUNNING)
    assert child.delay == pytest.approx(0.1)
    child, actions = live((0.4, Forked(9)), (1.5, crash), child=child)
    assert child.delay == 0
    assert Fork() in actions


def test_a_running_child_killed_by_somebody_else_comes_back_ten_times_a_second_at_most() -> None:
    """It did nothing wrong, so no delay doubles; one that crashes by itself is another matter."""
    second = live((0.2, Exited(KILLED)), (0.2, Forked(8)), (0.21, Beat()), child=RUNNING)[0]
    child, actions = live((0.7, Exited(KILLED)), child=second)
    assert Fork() in actions
    child, actions = live((0.23, Exited(KILLED)), child=second)
    assert Fork() not in actions
    assert child.next_start == pytest.approx(0.3)
    assert child.delay == 0
    assert live((0.7, Exited(Exit(ExitCode.CRASHED))), child=second)[0].delay > 0


def test_nothing_is_forked_before_its_time() -> None:
    """A tick in the back-off does nothing until the delay is over."""
    child = Child(wanted=True, state=State.BACKOFF, next_start=10.0, births=3)
    assert live((9.99, Tick()), child=child)[1] == []
    assert live((10.0, Tick()), child=child)[1] == [Fork()]


def test_silence_dumps_the_stacks_and_then_kills() -> None:
    """SIGABRT with SIGCONT first; SIGKILL when the deadline passes; then the reason is kept."""
    child, actions = live((5, Silent("no heartbeat for 5.0s")), child=RUNNING)
    assert actions == [Send((signal.SIGABRT, signal.SIGCONT))]
    assert child.state is State.HUNG
    child, actions = live((5.9, Tick()), (6.0, Tick()), (6.1, Tick()), child=child)
    assert actions == [Send((signal.SIGKILL,))]
    child, actions = live((6.2, Exited(KILLED)), child=child)
    assert actions[0] == Report(
        "no heartbeat for 5.0s; killed by SIGKILL", expected=False, fault=True
    )


def test_silence_of_an_ending_child_is_not_a_second_offence() -> None:
    """Who is stopping, hung or killed already is not aborted again."""
    stopping = live((1, Replace(5.0, "reload")), child=RUNNING)[0]
    assert live((2, Silent("no heartbeat")), child=stopping)[1] == []


def test_a_replaced_child_comes_back_at_once() -> None:
    """SIGTERM, and no back-off for an ending that we asked for."""
    child, actions = live((0.2, Replace(5.0, "reload")), child=RUNNING)
    assert actions == [Send((signal.SIGTERM, signal.SIGCONT))]
    child, actions = live((0.3, Exited(Exit(0))), child=child)
    assert actions == [Report("reload; exit 0 (asked)", expected=True, fault=False), Fork()]
    assert child.delay == 0


def test_a_replace_cuts_a_back_off_short() -> None:
    """An operator who asks for a restart does not wait for the back-off."""
    child = Child(wanted=True, state=State.BACKOFF, next_start=30.0, births=9, delay=25.6)
    assert live((5.0, Replace(1.0, "asked")), child=child)[1] == [Fork()]


def test_an_unwanted_child_ends_and_stays_away() -> None:
    """After the stop nothing brings it back."""
    child, actions = live((1, Unwanted(5.0)), (1.2, Exited(Exit(0))), (99, Tick()), child=RUNNING)
    assert child.state is State.STOPPED
    assert Fork() not in actions


def test_a_child_that_ignores_the_stop_is_killed_at_its_deadline() -> None:
    """SIGKILL after its patience, not before."""
    child, actions = live((1, Unwanted(5.0)), (5.9, Tick()), child=RUNNING)
    assert Send((signal.SIGKILL,)) not in actions
    assert live((6.0, Tick()), child=child)[1] == [Send((signal.SIGKILL,))]


def test_a_stop_ends_a_back_off() -> None:
    """Who waits for its next start does not start during a stop."""
    child = Child(wanted=True, state=State.BACKOFF, next_start=1.0)
    child, actions = live((0.5, Unwanted(5.0)), (2.0, Tick()), child=child)
    assert (child.state, actions) == (State.STOPPED, [])


def test_a_child_that_asks_for_a_successor_is_no_crash_but_may_not_spin() -> None:
    """Exit 75 is expected, and repeated quickly it still backs off."""
    child, actions = live((0.2, Exited(Exit(ExitCode.RESTART))), child=RUNNING)
    assert actions[0] == Report("exit 75 (restart)", expected=True, fault=False)
    child, _ = live((0.2, Forked(8)), (0.3, Exited(Exit(ExitCode.RESTART))), child=child)
    assert child.next_start > 0.3


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        (Exit(-signal.SIGKILL), False),
        (Exit(-signal.SIGKILL, out_of_memory=True), True),
        (Exit(-signal.SIGSEGV), True),
        (Exit(-signal.SIGBUS), True),
        (Exit(-signal.SIGTERM), False),
        (Exit(ExitCode.CRASHED), True),
        (Exit(1), False),
    ],
)
def test_only_what_its_own_work_can_cause_counts_as_a_fault(how: Exit, fault: bool) -> None:
    """A SIGKILL from outside blames no pod."""
    _, actions = live((5, Exited(how)), child=RUNNING)
    assert isinstance(actions[0], Report)
    assert actions[0].fault is fault


EVENTS = st.one_of(
    st.just(Wanted()),
    st.builds(Unwanted, st.floats(0, 10)),
    st.builds(Replace, st.floats(0, 10), st.just("asked")),
    st.just(Beat()),
    st.just(Silent("silent")),
    st.builds(Exited, st.builds(Exit, st.integers(-15, 80))),
    st.just(Tick()),
)


@given(st.lists(st.tuples(st.floats(0, 3), EVENTS), max_size=60))
def test_whatever_happens_there_is_never_a_second_process(steps: list[tuple[float, Event]]) -> None:
    """A fork is asked for only when there is no process, and a wanted child always gets one."""
    child, now, pid = Child(), 0.0, 100
    for wait, event in steps:
        now += wait
        step = transition(child, event, now, POLICY)
        child = step.child
        forks = [a for a in step.actions if isinstance(a, Fork)]
        assert len(forks) <= 1
        if forks:
            assert child.pid == 0
            assert child.wanted
            pid += 1
            child = transition(child, Forked(pid), now, POLICY).child
        assert (child.pid != 0) == child.state.has_process
        assert child.delay <= POLICY.longest_delay
    if child.wanted and child.state is State.BACKOFF:
        later = transition(child, Tick(), child.next_start, POLICY)
        assert Fork() in later.actions
