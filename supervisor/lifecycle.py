"""The life of one child, as a pure state machine.

A child is born STARTING and is RUNNING from its first heartbeat on. Silence makes it HUNG: it got
SIGABRT, which dumps its stacks and ends it, and SIGCONT, because a stopped process takes no signal
but SIGKILL. If it is still there when its deadline passes it is KILLED. A child asked to end is
STOPPING, and KILLED when it does not listen. When the kernel says that it is gone, what happens
next depends on one thing alone: whether it is still wanted. Wanted, it is in BACKOFF until its next
start (at once, the first time); not wanted, it is STOPPED.

What the state does not say: why it is being replaced. That is in ``reason``, set when SIGABRT or
SIGTERM is sent, and it is what the report and ``kubeletctl status`` show.

Back-off: a life that lasted long enough (a second, and twice the delay that preceded it) wipes
the slate; a shorter one doubles the delay, from 0.1 s up to 30 s. Nothing ever gives up. A running
child that somebody else killed did nothing wrong: it comes back at once, ten times a second at
most.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from enum import Enum

from supervisor.exits import Exit, ExitCode


class State(Enum):
    """Where a child is in its life."""

    STARTING = "starting"  # forked; no heartbeat yet
    RUNNING = "running"
    HUNG = "hung"  # SIGABRT sent, its stacks are being dumped
    STOPPING = "stopping"  # SIGTERM sent
    KILLED = "killed"  # SIGKILL sent; only the kernel's word is awaited
    BACKOFF = "backoff"  # no process; the next start is set
    STOPPED = "stopped"  # no process, and none wanted

    @property
    def has_process(self) -> bool:
        """Whether there is a process to wait for."""
        return self not in (State.BACKOFF, State.STOPPED)


@dataclass(frozen=True, slots=True)
class Policy:
    """Times, in seconds."""

    first_delay: float = 0.1
    longest_delay: float = 30.0
    stable_after: float = 1.0
    killed_spacing: float = 0.1  # between two births, when somebody else keeps killing it
    abort_patience: float = 1.0  # between SIGABRT and SIGKILL


@dataclass(frozen=True, slots=True)
class Child:
    """All that is known of one child; times are monotonic seconds."""

    state: State = State.STOPPED
    wanted: bool = False
    pid: int = 0
    started: float = 0.0
    deadline: float | None = None  # when the current state has lasted too long
    delay: float = 0.0  # the back-off that preceded this life
    next_start: float = 0.0
    births: int = 0
    reason: str | None = None  # why it is being replaced, when that was our decision
    last_exit: str | None = None
    last_exit_at: float = 0.0

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return max(0, self.births - 1)


# Events.


@dataclass(frozen=True, slots=True)
class Wanted:
    """It should run."""


@dataclass(frozen=True, slots=True)
class Unwanted:
    """It should end and stay away (a stage of the stop has come)."""

    patience: float


@dataclass(frozen=True, slots=True)
class Replace:
    """It should end and come back."""

    patience: float
    reason: str


@dataclass(frozen=True, slots=True)
class Forked:
    """The fork that was asked for has happened, or an earlier supervisor's child was adopted."""

    pid: int


@dataclass(frozen=True, slots=True)
class Beat:
    """Its heartbeat moved."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Its heartbeat has not moved for the time-out."""

    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The kernel says that it is gone."""

    how: Exit


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Wanted | Unwanted | Replace | Forked | Beat | Silent | Exited | Tick


# Actions.


@dataclass(frozen=True, slots=True)
class Fork:
    """Start the process, then report ``Forked``."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send these signals, in order."""

    signals: tuple[signal.Signals, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Say that it ended, and why."""

    reason: str
    expected: bool
    fault: bool  # its own work ended it: counts against the pod that it was handling


Action = Fork | Send | Report


@dataclass(frozen=True, slots=True)
class Step:
    """What an event made of the child, and what is to be done."""

    child: Child
    actions: tuple[Action, ...] = field(default=())


def transition(child: Child, event: Event, now: float, policy: Policy) -> Step:
    """Apply one event. The only place that changes a child's state."""
    match event:
        case Wanted():
            step = _wanted(child, now)
        case Unwanted(patience):
            step = _unwanted(child, now, patience)
        case Replace(patience, reason):
            step = _replace(child, now, patience, reason)
        case Forked(pid):
            step = _forked(child, now, pid)
        case Beat():
            step = _beat(child)
        case Silent(reason):
            step = _silent(child, now, reason, policy)
        case Exited(how):
            step = _exited(child, now, how, policy)
        case Tick():
            step = _tick(child, now)
    return step


def postponed(child: Child, until: float) -> Child:
    """A child whose fork failed for want of resources: tried again later, blamed for nothing."""
    return replace(child, state=State.BACKOFF, next_start=until)


def _wanted(child: Child, now: float) -> Step:
    if child.state is State.STOPPED:
        return Step(replace(child, wanted=True, state=State.BACKOFF, next_start=now), (Fork(),))
    return Step(replace(child, wanted=True))


def _unwanted(child: Child, now: float, patience: float) -> Step:
    child = replace(child, wanted=False)
    if not child.state.has_process:
        return Step(replace(child, state=State.STOPPED))
    if child.state in (State.STARTING, State.RUNNING):
        return _terminate(child, now, patience, "asked to stop")
    return Step(child)  # already ending; Exited will find it unwanted


def _replace(child: Child, now: float, patience: float, reason: str) -> Step:
    if child.state is State.BACKOFF:
        return Step(replace(child, next_start=now), (Fork(),))
    if child.state in (State.STARTING, State.RUNNING):
        return _terminate(child, now, patience, reason)
    return Step(child)


def _terminate(child: Child, now: float, patience: float, reason: str) -> Step:
    ending = replace(child, state=State.STOPPING, deadline=now + patience, reason=reason)
    # SIGCONT, so that a stopped process hears SIGTERM too.
    return Step(ending, (Send((signal.SIGTERM, signal.SIGCONT)),))


def _forked(child: Child, now: float, pid: int) -> Step:
    born = replace(
        child,
        state=State.STARTING,
        pid=pid,
        started=now,
        deadline=None,
        births=child.births + 1,
        reason=None,
    )
    return Step(born)


def _beat(child: Child) -> Step:
    if child.state is State.STARTING:
        return Step(replace(child, state=State.RUNNING))
    return Step(child)


def _silent(child: Child, now: float, reason: str, policy: Policy) -> Step:
    if child.state not in (State.STARTING, State.RUNNING):
        return Step(child)
    hung = replace(child, state=State.HUNG, deadline=now + policy.abort_patience, reason=reason)
    return Step(hung, (Send((signal.SIGABRT, signal.SIGCONT)),))


def _exited(child: Child, now: float, how: Exit, policy: Policy) -> Step:
    if not child.state.has_process:
        return Step(child)
    why = child.reason
    text = f"{why}; {how.text}" if why else how.text
    asked = child.state is State.STOPPING or not child.wanted
    expected = asked or how.code == ExitCode.RESTART
    was_hung = child.reason is not None and not asked
    report = Report(text, expected=expected, fault=was_hung or (not expected and how.is_fault))
    gone = replace(child, pid=0, deadline=None, reason=None, last_exit=text, last_exit_at=now)
    if not child.wanted:
        return Step(replace(gone, state=State.STOPPED), (report,))
    pause, delay = (0.0, 0.0) if asked else _pause(child, now, how, policy)
    waiting = replace(gone, state=State.BACKOFF, delay=delay, next_start=now + pause)
    return Step(waiting, (report,) if pause else (report, Fork()))


def _pause(child: Child, now: float, how: Exit, policy: Policy) -> tuple[float, float]:
    """How long to wait for the next start, and the delay to double from at the one after it."""
    lived = now - child.started
    if how.is_foreign and child.reason is None and child.state is State.RUNNING:
        return max(0.0, policy.killed_spacing - lived), 0.0
    first = child.births <= 1 and child.delay == 0.0  # at once, the first time
    if first or lived >= max(policy.stable_after, 2 * child.delay):
        return 0.0, 0.0
    delay = min(policy.longest_delay, max(policy.first_delay, child.delay * 2))
    return delay, delay


def _tick(child: Child, now: float) -> Step:
    if child.state is State.BACKOFF and now >= child.next_start:
        return Step(child, (Fork(),))
    overdue = child.deadline is not None and now >= child.deadline
    if overdue and child.state in (State.HUNG, State.STOPPING):
        return Step(replace(child, state=State.KILLED, deadline=None), (Send((signal.SIGKILL,)),))
    return Step(child)
