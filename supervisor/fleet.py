"""The children: forking them, signalling them, hearing of their ends, judging their silence.

All decisions are ``lifecycle.transition`` and ``liveness.judge``; here they are carried out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kubelet import logging as klog
from shm.board import Row, read_row
from supervisor import lifecycle, liveness, quarantine, reports
from supervisor.cgroups import Groups
from supervisor.exits import from_wait_status
from supervisor.kinds import BY_NAME, KINDS, Kind
from supervisor.launch import ALIVE, GO, Launch, run_child
from supervisor.lifecycle import Child, State
from supervisor.limits import set_oom_score
from supervisor.rundir import RunDir
from supervisor.settings import Settings

log = klog.get_logger(__name__)

_BEATING = (State.STARTING, State.RUNNING)


@dataclass(slots=True)
class Handle:
    """What is held open for one child, and what was last seen of it."""

    child: Child = field(default_factory=Child)
    pidfd: int = -1
    link: socket.socket | None = None
    cgroup: str | None = None
    oom_kills: int = 0
    beats: int = -1
    seen: float = 0.0  # the moment from which silence counts
    judged: float = 0.0  # when it was last found starved
    watch_from: float = 0.0  # when its run-queue delay began to be watched
    watch_delay: float = 0.0
    report: str | None = None
    adopted: bool = False  # forked by this supervisor's code before it executed itself again


@dataclass(slots=True)
class Outside:
    """What the fleet needs of the supervisor around it."""

    watch: Callable[[int, Callable[[], None]], None]  # call back when a descriptor is readable
    unwatch: Callable[[int], None]
    changed: Callable[[], None]  # something that the state file shows has changed
    publish: Callable[[], None]  # write the state file now
    record: Callable[[str, str], None]  # into the recorder: what, text
    listeners: Callable[[str], dict[str, int]]


class Fleet:
    """The seven children."""

    def __init__(self, settings: Settings, groups: Groups, outside: Outside) -> None:
        self._settings = settings
        self._run_dir = RunDir(settings.run_dir)
        self._groups = groups
        self._outside = outside
        self._policy = lifecycle.Policy()
        self._last_look = time.monotonic()
        self.handles: dict[str, Handle] = {kind.name: Handle() for kind in KINDS}
        self.cases: tuple[quarantine.Case, ...] = ()
        self.period = min(1.0, settings.heartbeat_timeout / 4)

    # Events in.

    def apply(self, name: str, event: lifecycle.Event) -> None:
        """Let an event happen to a child and carry out what follows."""
        handle = self.handles[name]
        now = time.monotonic()
        step = lifecycle.transition(handle.child, event, now, self._policy)
        if step.child != handle.child:
            handle.child = step.child
            self._outside.changed()
        for action in step.actions:
            self._carry_out(name, action)

    def tick(self) -> None:
        """Let time pass for everyone: back-offs that are over, deadlines that have passed."""
        for name in self.handles:
            self.apply(name, lifecycle.Tick())

    def next_wake(self) -> float:
        """The moment at which ``tick`` or ``look`` has something to do."""
        moments = [self._last_look + self.period]
        for handle in self.handles.values():
            child = handle.child
            if child.state in _BEATING:
                moments.append(self._judgement(handle))
            if child.state is State.BACKOFF:
                moments.append(child.next_start)
            if child.deadline is not None:
                moments.append(child.deadline)
        return min(moments)

    def adopt(self, name: str, pid: int, births: int) -> None:
        """Take over a child that was forked before this program executed itself again."""
        handle = self.handles[name]
        handle.child = Child(wanted=True, state=State.BACKOFF, births=births - 1)
        handle.adopted = True
        self._watch(name, pid)

    # Actions out.

    def _carry_out(self, name: str, action: lifecycle.Action) -> None:
        match action:
            case lifecycle.Fork():
                self._fork(BY_NAME[name])
            case lifecycle.Send(signals):
                self._send(name, signals)
            case lifecycle.Report():
                self._report(name, action)

    def start_all(self, names: Iterable[str]) -> None:
        """Start these side by side, by forks in a row.

        Whatever the supervisor writes between two forks, each child would keep a copy of its own
        of: so everything else comes before the first or after the last.
        """
        kinds = [BY_NAME[name] for name in names]
        for kind in kinds:
            handle = self.handles[kind.name]
            wanted = lifecycle.transition(
                handle.child, lifecycle.Wanted(), time.monotonic(), self._policy
            )
            handle.child = wanted.child
        launches = [self._launch(kind) for kind in kinds]
        pids = [_fork_off(launch) for _, launch in launches]
        for kind, (link, launch), pid in zip(kinds, launches, pids, strict=True):
            self._forked(kind, link, launch, pid)

    def _fork(self, kind: Kind) -> None:
        link, launch = self._launch(kind)
        self._forked(kind, link, launch, _fork_off(launch))

    def _launch(self, kind: Kind) -> tuple[socket.socket, Launch]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        launch = Launch(
            kind=kind,
            settings=self._settings,
            supervisor_pid=os.getpid(),
            link=theirs,
            listeners=self._outside.listeners(kind.name),
            quarantined=quarantine.pods(self.cases, kind.name),
        )
        return ours, launch

    def _forked(self, kind: Kind, link: socket.socket, launch: Launch, pid: int | None) -> None:
        launch.link.close()
        if pid is not None:
            self._settle(kind, pid, link)
            return
        link.close()
        log.error("Could not fork, will try again", kind=kind.name)
        self._retry_later(kind.name)

    def _retry_later(self, name: str) -> None:
        handle = self.handles[name]
        later = time.monotonic() + self._policy.stable_after
        handle.child = lifecycle.postponed(handle.child, later)

    def _settle(self, kind: Kind, pid: int, link: socket.socket) -> None:
        handle = self.handles[kind.name]
        handle.link = link
        link.setblocking(False)
        handle.cgroup = self._groups.place(kind.name, pid, kind.memory_limit)
        handle.oom_kills = self._groups.out_of_memory_kills(kind.name)
        set_oom_score(pid, max(kind.oom_score_adj, self._settings.oom_score_adj))
        handle.adopted = False
        self._watch(kind.name, pid)
        self._outside.watch(link.fileno(), lambda: self._heard(kind.name))
        # The others look into the state file to see who speaks to them, so it comes before the go.
        self._outside.publish()
        with contextlib.suppress(OSError):  # died already: its pidfd tells
            link.send(GO)
        self._outside.record("started", f"{kind.name} pid {pid}")
        log.v(1, "Process started", kind=kind.name, child=pid)

    def _watch(self, name: str, pid: int) -> None:
        handle = self.handles[name]
        handle.pidfd = os.pidfd_open(pid)
        handle.beats = -1
        handle.seen = time.monotonic()
        handle.watch_from = 0.0
        self.apply(name, lifecycle.Forked(pid))
        self._outside.watch(handle.pidfd, lambda: self._gone(name))

    def _send(self, name: str, signals: tuple[signal.Signals, ...]) -> None:
        handle = self.handles[name]
        for number in signals:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle.pidfd, number)

    def _heard(self, name: str) -> None:
        """The child's first heartbeat, or the end of the link."""
        handle = self.handles[name]
        if handle.link is None:
            return
        try:
            word = handle.link.recv(1)
        except OSError:
            word = b""
        self._drop_link(handle)
        if word == ALIVE:
            handle.seen = time.monotonic()
            self.apply(name, lifecycle.Beat())

    def _drop_link(self, handle: Handle) -> None:
        if handle.link is not None:
            self._outside.unwatch(handle.link.fileno())
            handle.link.close()
            handle.link = None

    def _gone(self, name: str) -> None:
        """The kernel says that a child is gone: reap it and let the machine decide."""
        handle = self.handles[name]
        try:
            _, status = os.waitpid(handle.child.pid, os.WNOHANG)
        except ChildProcessError:
            status = 0
        self._outside.unwatch(handle.pidfd)
        os.close(handle.pidfd)
        handle.pidfd = -1
        self._drop_link(handle)
        kills = self._groups.out_of_memory_kills(name)
        how = from_wait_status(status, out_of_memory=kills > handle.oom_kills)
        self.apply(name, lifecycle.Exited(how))

    def _report(self, name: str, report: lifecycle.Report) -> None:
        handle = self.handles[name]
        child = handle.child
        lived = max(0.0, child.last_exit_at - child.started)
        if report.expected:
            log.info("Process ended", kind=name, reason=report.reason, lived=f"{lived:.1f}s")
            self._outside.record("ended", f"{name}: {report.reason}")
            return
        row = self.row(name)
        ending = reports.Ending(
            name, row.pid if row else 0, child.births, report.reason, lived, row
        )
        handle.report = reports.write(self._run_dir, ending, self._settings.identity.gid)
        log.error(
            "Process died",
            kind=name,
            reason=report.reason,
            lived=f"{lived:.1f}s",
            operation=row.operation if row else "",
            restart_in=f"{max(0.0, child.next_start - child.last_exit_at):.1f}s",
            report=handle.report or "",
        )
        self._outside.record("died", f"{name}: {report.reason}")
        if report.fault and row is not None:
            self._blame(name, row.blamed or row.pod)

    def _blame(self, name: str, pod: str) -> None:
        if not pod:
            return
        before = quarantine.pods(self.cases, name)
        self.cases = quarantine.blame(self.cases, pod, name, time.time())
        if pod in quarantine.pods(self.cases, name) and pod not in before:
            log.error("Pod quarantined: handling it kept killing a process", kind=name, pod=pod)
            self._outside.record("quarantined", f"{name}: pod {pod}")
        self._outside.changed()

    # Looking.

    def row(self, name: str) -> Row | None:
        """What a child last wrote about itself."""
        try:
            return read_row(Path(self._run_dir.board(name)))
        except OSError:
            return None

    def look(self) -> None:
        """Judge everyone's silence, if it is time to."""
        now = time.monotonic()
        if now - self._last_look < self.period and not self._overdue(now):
            return
        away = liveness.gap(self._last_look, now, self.period)
        if away:
            gap = f"{now - self._last_look:.1f}s"
            log.warning("The supervisor itself was not running; silence is excused", gap=gap)
            self._outside.record("gap", f"the supervisor was not running for {gap}")
        self._last_look = now
        for name, handle in self.handles.items():
            if away:
                handle.seen = now
            if handle.child.state in _BEATING:
                self._look_at(name, handle, now)

    def _judgement(self, handle: Handle) -> float:
        """When this child's time-out ends; a starved one is judged again a period later."""
        return max(handle.seen + self._settings.heartbeat_timeout, handle.judged + self.period)

    def _overdue(self, now: float) -> bool:
        beating = (h for h in self.handles.values() if h.child.state in _BEATING)
        return any(now >= self._judgement(handle) for handle in beating)

    def _look_at(self, name: str, handle: Handle, now: float) -> None:
        row = self.row(name)
        if row is not None and row.pid == handle.child.pid and row.beats > max(handle.beats, 0):
            handle.beats = row.beats
            handle.seen = max(handle.seen, row.beat_ns / 1e9)
            handle.watch_from = 0.0
            self.apply(name, lifecycle.Beat())
            return
        silent = now - handle.seen
        if silent < self._settings.heartbeat_timeout / 2:
            return
        watched, delay = self._run_delay(handle, now)
        verdict = liveness.judge(
            liveness.Silence(silent, self._settings.heartbeat_timeout, watched, delay)
        )
        if verdict is liveness.Verdict.STUCK:
            self._stuck(name, handle, row, silent)
        elif verdict is liveness.Verdict.STARVED:
            handle.judged = now

    def _run_delay(self, handle: Handle, now: float) -> tuple[float, float]:
        delay = run_queue_delay(handle.child.pid)
        if not handle.watch_from:
            handle.watch_from, handle.watch_delay = now, delay
        return now - handle.watch_from, delay - handle.watch_delay

    def _stuck(self, name: str, handle: Handle, row: Row | None, silent: float) -> None:
        doing = ""
        if row is not None and row.pid == handle.child.pid and row.operation:
            age = time.monotonic() - row.operation_since_ns / 1e9
            doing = f" in {row.operation} for {age:.1f}s"
        where = process_state(handle.child.pid)
        reason = f"no heartbeat for {silent:.1f}s{doing} (process state {where})"
        log.error("Process is stuck", kind=name, child=handle.child.pid, reason=reason)
        self._outside.record("stuck", f"{name}: {reason}")
        self.apply(name, lifecycle.Silent(reason))

    # Ending.

    def kill_all(self) -> None:
        """End everyone at once."""
        for handle in self.handles.values():
            if handle.pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle.pidfd, signal.SIGKILL)
        for handle in self.handles.values():
            if handle.pidfd >= 0:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(handle.child.pid, 0)


def _fork_off(launch: Launch) -> int | None:
    """Fork; the child's pid, or None where memory or pids are short, which is no child's fault."""
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        run_child(launch)
    return pid


def run_queue_delay(pid: int) -> float:
    """Seconds that a process has waited for a CPU in its life."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def process_state(pid: int) -> str:
    """The kernel's letter for what a process is doing, with its waiting place if it is stuck."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            letter = file.read().rpartition(")")[2].split()[0]
        with open(f"/proc/{pid}/wchan", encoding="ascii", errors="replace") as file:
            place = file.read().strip()
    except (OSError, IndexError):
        return "?"
    return f"{letter} at {place}" if place not in ("", "0") else letter
