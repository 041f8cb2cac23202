"""The supervisor: the story of the tree from its first fork to its last.

Purpose: keep seven processes running, know why one is not, and never be the reason itself.
Synchronisation: none. One thread, one loop; signal handlers only enqueue; children are heard
through pidfds, a byte at their first heartbeat, and the board, which is read with ``pread`` so
that no shared memory can hurt the reader.
Clean-up: everything that it makes outside the run directory (cgroups, listeners) goes with it; the
run directory stays, because the next supervisor finds its state there.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kubelet import logging as klog
from shm.board import RowWriter
from shm.recorder import RecorderWriter
from supervisor import cgroups, lifecycle, linux, locks, quarantine, reload, statefile, zygote
from supervisor.control import ControlSocket, Reply
from supervisor.exits import ExitCode
from supervisor.fleet import Fleet, Outside
from supervisor.kinds import BY_NAME, EVERYONE, KINDS, NAMES, SUPERVISOR
from supervisor.lifecycle import State
from supervisor.loop import SIGNALS, Loop
from supervisor.notify import Notifier
from supervisor.ports import Ports
from supervisor.rundir import RunDir, replace_file
from supervisor.settings import Settings
from supervisor.statefile import Phase

log = klog.get_logger(__name__)

_REPLACE_LIMIT = 10.0  # seconds until a rolling replacement goes on without waiting any longer


class Supervisor:
    """One node's tree."""

    def __init__(
        self,
        settings: Settings,
        notifier: Notifier,
        watchdog: float | None,
        legacy: reload.Legacy | None,
        held: dict[str, int],
    ) -> None:
        self._settings = settings
        self._run_dir = RunDir(settings.run_dir)
        self._notifier = notifier
        self._watchdog = watchdog
        self._locks = held
        self._phase = Phase.STARTING
        self._started_ns = legacy.started_ns if legacy else time.monotonic_ns()
        self._started_unix = legacy.started_unix if legacy else time.time()
        self._ready = False
        self._dirty = False
        self._beat_at = 0.0
        self._watchdog_at = 0.0
        self._stage = 0
        self._exit: int | None = None
        self._trial: reload.Trial | None = None
        self._trial_replies: list[Reply] = []
        self._rolling: deque[str] = deque()
        self._rolled: tuple[str, int, float] | None = None  # name, births before, time limit
        self._awaited: list[tuple[str, int, int, Reply]] = []  # name, births, old pid, reply
        self._loop = Loop()
        self._row = RowWriter.create(Path(self._run_dir.board(SUPERVISOR)))
        self._recorder = RecorderWriter.create(Path(self._run_dir.recorder(SUPERVISOR)))
        self._groups = cgroups.discover(settings.run_dir)
        self._ports = Ports(settings.listeners, notifier, legacy)
        self._fleet = Fleet(settings, self._groups, self._outside())
        self._control = ControlSocket(
            self._run_dir.socket, self._loop.watch, self._loop.unwatch, self._command
        )
        self._legacy = legacy

    def _outside(self) -> Outside:
        return Outside(
            watch=self._loop.watch,
            unwatch=self._loop.unwatch,
            changed=self._changed,
            publish=self._publish,
            record=self._record,
            listeners=self._ports.for_kind,
        )

    # The story.

    def run(self) -> int:
        """Live until asked to stop; the exit code."""
        self._begin()
        while self._exit is None:
            for caught in self._loop.turn(self._next_wake()):
                self._signalled(caught)
            self._fleet.tick()
            self._fleet.look()
            self._progress()
            self._beat()
            if self._dirty:
                self._publish()
        return self._end()

    def _begin(self) -> None:
        self._row.set_phase(self._phase.value)
        self._row.beat(0)
        linux.set_title("kubelet: supervisor")
        stacks = open(self._run_dir.stacks(SUPERVISOR), "w", encoding="utf-8")  # noqa: SIM115
        faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
        if self._settings.exit_on_lock_contention:
            fd = locks.contention(self._settings.lock_file)
            self._loop.watch(fd, self._contended)
        zygote.settle((*self._settings.preload, *(m for kind in KINDS for m in kind.preload)))
        if self._legacy is not None:
            self._inherit(self._legacy)
        handles = self._fleet.handles
        self._fleet.start_all(name for name in NAMES if handles[name].child.state is State.STOPPED)

    def _inherit(self, legacy: reload.Legacy) -> None:
        self._fleet.cases = tuple(quarantine.Case(**case) for case in legacy.quarantine)  # type: ignore[arg-type]
        for heir in legacy.children:
            if heir.name in BY_NAME:
                self._fleet.adopt(heir.name, heir.pid, heir.births)
        self._phase = Phase.RELOADING
        self._rolling.extend(heir.name for heir in legacy.children if heir.name in BY_NAME)
        self._record("reload", "executed itself again; replacing the processes one by one")

    def _end(self) -> int:
        self._fleet.kill_all()
        self._control.close()
        self._ports.close()
        self._groups.remove((*NAMES,))
        self._record("stopped", "the tree is down")
        self._row.set_phase("stopped")
        Path(self._run_dir.state).unlink(missing_ok=True)
        self._loop.close()
        log.info("Stopped", code=self._exit)
        return self._exit if self._exit is not None else ExitCode.FAILED

    # Time.

    def _next_wake(self) -> float:
        moments = [self._fleet.next_wake(), self._ports.retry_at]
        if self._watchdog:
            moments.append(self._watchdog_at)
        if self._rolled is not None:
            moments.append(self._rolled[2])
        return min(moments)

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beat_at >= self._fleet.period:
            self._beat_at = now
            self._row.beat(0)
            klog.flush()
        if self._watchdog and now >= self._watchdog_at:
            self._watchdog_at = now + self._watchdog
            self._notifier.watchdog()

    def _progress(self) -> None:
        for kind in self._ports.retry():
            self._fleet.apply(kind, lifecycle.Replace(1.0, "its listening socket is there now"))
        if self._phase is Phase.STOPPING:
            self._stop_stage()
            return
        self._answer_awaited()
        self._roll()
        self._become_ready()
        self._notifier.status(self._status_line())

    def _become_ready(self) -> None:
        running = all(h.child.state is State.RUNNING for h in self._fleet.handles.values())
        if self._phase in (Phase.STARTING, Phase.RELOADING) and running and not self._rolling:
            if self._rolled is not None:
                return
            took = (time.monotonic_ns() - self._started_ns) / 1e9
            if self._phase is Phase.STARTING:
                log.info("Ready", took=f"{took:.3f}s", processes=len(EVERYONE))
            else:
                log.info("Reloaded", processes=len(EVERYONE))
            self._record("ready", self._phase.value)
            self._set_phase(Phase.RUNNING)
            self._ready = True
            self._notifier.ready()
            zygote.give_back()

    def _status_line(self) -> str:
        off = [
            f"{name} {handle.child.state.value}"
            + (f" ({handle.child.last_exit})" if handle.child.last_exit else "")
            for name, handle in self._fleet.handles.items()
            if handle.child.state is not State.RUNNING
        ]
        if not off:
            return f"{len(EVERYONE)} processes running"
        return "; ".join(off)

    # Signals and commands.

    def _signalled(self, number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            self._start_reload(None)
        elif self._phase is Phase.STOPPING:
            log.warning("Second signal: ending at once", signal=number.name)
            self._exit = ExitCode.FAILED
        else:
            self._start_stop(f"got {number.name}")

    def _contended(self) -> None:
        log.info("Lock file contended, exiting", path=self._settings.lock_file)
        self._start_stop("the lock file was opened or deleted by somebody else")

    def _command(self, request: dict[str, Any], reply: Reply) -> None:
        match request["do"]:
            case "ping":
                reply({"ok": True})
            case "restart":
                self._restart(str(request.get("kind", "")), reply)
            case "reload":
                self._start_reload(reply)
            case "release":
                self._release(str(request.get("pod", "")), reply)
            case other:
                known = "ping, restart, reload, release"
                reply({"ok": False, "error": f"unknown command {other!r}; known: {known}"})

    def _restart(self, name: str, reply: Reply) -> None:
        if name not in BY_NAME:
            error = f"unknown process {name!r}; known: {', '.join(NAMES)}"
            reply({"ok": False, "error": error})
            return
        if self._phase is Phase.STOPPING:
            reply({"ok": False, "error": "the kubelet is stopping"})
            return
        child = self._fleet.handles[name].child
        self._awaited.append((name, child.births, child.pid, reply))
        self._record("restart", f"{name}: asked by an operator")
        stop = lifecycle.Replace(BY_NAME[name].stop_timeout, "restart asked by an operator")
        self._fleet.apply(name, stop)

    def _answer_awaited(self) -> None:
        waiting = []
        for name, births, old_pid, reply in self._awaited:
            child = self._fleet.handles[name].child
            if child.births > births and child.state is State.RUNNING:
                reply({"ok": True, "old_pid": old_pid, "new_pid": child.pid})
            else:
                waiting.append((name, births, old_pid, reply))
        self._awaited = waiting

    def _release(self, pod: str, reply: Reply) -> None:
        kinds = {case.kind for case in self._fleet.cases if case.pod == pod and case.quarantined}
        if not kinds:
            reply({"ok": False, "error": f"pod {pod!r} is not quarantined"})
            return
        self._fleet.cases = quarantine.release(self._fleet.cases, pod)
        self._record("released", f"pod {pod}")
        self._changed()
        for name in sorted(kinds):  # a process learns of its quarantined pods when it starts
            stop = lifecycle.Replace(BY_NAME[name].stop_timeout, f"pod {pod} was released")
            self._fleet.apply(name, stop)
        reply({"ok": True})

    # Reload.

    def _start_reload(self, reply: Reply | None) -> None:
        if reply is not None:
            self._trial_replies.append(reply)
        if self._trial is not None:
            return
        if self._phase is not Phase.RUNNING:
            self._refuse_reload(f"the kubelet is {self._phase.value}")
            return
        try:
            self._trial = reload.start_trial(self._settings.command)
        except OSError as err:
            self._refuse_reload(f"{self._settings.command[0]}: {err.strerror}")
            return
        log.info("Reload: trying the new configuration")
        self._loop.watch(self._trial.pidfd, self._trial_over)

    def _trial_over(self) -> None:
        if self._trial is None:
            return
        self._loop.unwatch(self._trial.pidfd)
        problem, self._trial = reload.end_trial(self._trial), None
        if problem is not None:
            self._refuse_reload(problem)
            return
        self._notifier.reloading()
        self._set_phase(Phase.RELOADING)
        self._publish()
        for reply in self._trial_replies:
            reply({"ok": True})
        log.info("Reload: executing the kubelet again", command=self._settings.command[0])
        self._control.close()
        # Held back until the new program has its handlers: their default would end it.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        reload.execute_again(self._settings.command, self._legacy_now())

    def _refuse_reload(self, problem: str) -> None:
        log.error("Reload refused, nothing was changed", reason=problem)
        self._record("reload refused", problem)
        for reply in self._trial_replies:
            reply({"ok": False, "error": problem})
        self._trial_replies = []

    def _legacy_now(self) -> reload.Legacy:
        heirs = [
            reload.Heir(name, handle.child.pid, handle.child.births)
            for name, handle in self._fleet.handles.items()
            if handle.child.state.has_process
        ]
        return reload.Legacy(
            pid=os.getpid(),
            children=tuple(heirs),
            listeners=self._ports.descriptors(),
            locks=self._locks,
            started_ns=self._started_ns,
            started_unix=self._started_unix,
            quarantine=tuple(asdict(case) for case in self._fleet.cases),
        )

    def _roll(self) -> None:
        """Replace the adopted children one at a time, each when the one before it is up."""
        now = time.monotonic()
        if self._rolled is not None:
            name, births, limit = self._rolled
            child = self._fleet.handles[name].child
            if (child.births > births and child.state is State.RUNNING) or now >= limit:
                self._rolled = None
        if self._rolled is None and self._rolling:
            name = self._rolling.popleft()
            births = self._fleet.handles[name].child.births
            patience = BY_NAME[name].stop_timeout
            self._rolled = (name, births, now + patience + _REPLACE_LIMIT)
            self._fleet.apply(name, lifecycle.Replace(patience, "reload"))

    # Stop.

    def _start_stop(self, why: str) -> None:
        if self._phase is Phase.STOPPING:
            return
        log.info("Stopping", reason=why)
        self._record("stopping", why)
        self._notifier.stopping()
        self._set_phase(Phase.STOPPING)
        self._rolling.clear()
        self._rolled = None
        # Nobody may come back from a back-off during the stop.
        for name, handle in self._fleet.handles.items():
            if not handle.child.state.has_process:
                self._fleet.apply(name, lifecycle.Unwanted(0.0))

    def _stop_stage(self) -> None:
        """Go on to the next stage when all of the current one is gone."""
        stages = sorted({kind.stop_stage for kind in KINDS})
        while True:
            due = [k for k in KINDS if k.stop_stage <= self._stage]
            handles = self._fleet.handles
            if any(handles[k.name].child.state is not State.STOPPED for k in due):
                return
            later = [stage for stage in stages if stage > self._stage]
            if not later:
                # Every kind is in some stage, so all are accounted for here.
                assert all(h.child.state is State.STOPPED for h in handles.values())
                self._exit = ExitCode.ASKED
                return
            self._stage = later[0]
            for kind in KINDS:
                if kind.stop_stage == self._stage:
                    self._fleet.apply(kind.name, lifecycle.Unwanted(kind.stop_timeout))

    # Publishing.

    def _set_phase(self, phase: Phase) -> None:
        self._phase = phase
        self._row.set_phase(phase.value)
        self._changed()

    def _changed(self) -> None:
        self._dirty = True

    def _record(self, what: str, text: str) -> None:
        self._recorder.record(what, text)

    def _publish(self) -> None:
        self._dirty = False
        notes = list(self._settings.notes)
        if self._groups.problem:
            notes.append(f"no memory limits for the processes: {self._groups.problem}")
        tree = statefile.Tree(
            version=self._settings.version,
            node=self._settings.node,
            pid=os.getpid(),
            started_ns=self._started_ns,
            started_unix=self._started_unix,
            ready=self._ready,
            phase=self._phase,
            heartbeat_timeout_ms=int(self._settings.heartbeat_timeout * 1000),
            unprivileged_uid=self._settings.identity.uid,
            problems=tuple(self._ports.problems()),
            notes=tuple(notes),
        )
        data = statefile.render(tree, self._fleet.handles, self._fleet.cases)
        try:
            replace_file(self._run_dir.state, data, gid=self._settings.identity.gid)
        except OSError as err:  # a full or vanished run directory must not end the tree
            log.error("Could not write the state file", path=self._run_dir.state, err=err)
