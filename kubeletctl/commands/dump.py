"""Show where a process stands: the stacks of its threads and of its asyncio tasks.

The threads' stacks are written by a signal handler (SIGUSR2) that works while the event loop is
stuck, and the process goes on. The tasks' stacks are asked of the event loop, which has one second
to answer; the supervisor has no event loop of that sort, so it shows threads only.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeletctl import procfs
from kubeletctl.context import Context, process_name
from kubeletctl.errors import FAILED, OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.screen import Style
from kubeletctl.state import State
from kubeletctl.words import plain
from supervisor.kinds import SUPERVISOR

PATIENCE = 1.0  # seconds for the handler, and for the event loop
QUIET = 0.05  # the file has not grown for so long: the dump is complete
POLL = 0.01


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the name of the process."""
    parser.add_argument("process", help="which process to look at")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print both kinds of stacks, or why one of them is not to be had."""
    name = process_name(options.process)
    pid = pid_of(load_state(context.run_dir), name)
    threads = _threads(context.run_dir, name, pid)
    tasks = None if name == SUPERVISOR else _tasks(context.run_dir, name)
    if context.output is not Format.TEXT:
        emit({"process": name, "pid": pid, **document(threads, tasks)}, context.output)
    else:
        _show(f"threads of {name} (pid {pid})", threads, context)
        if tasks is not None:
            print()
            _show(f"asyncio tasks of {name}", tasks, context)
    return FAILED if threads.why_not else OK


@dataclass(frozen=True, slots=True)
class Stacks:
    """One sort of stacks, or why they are not to be had."""

    text: str = ""
    why_not: str = ""


def document(threads: Stacks, tasks: Stacks | None) -> dict[str, Any]:
    """Return both sorts for programs."""
    return {
        "threads": None if threads.why_not else threads.text,
        "threads_missing_because": threads.why_not or None,
        "tasks": None if tasks is None or tasks.why_not else tasks.text,
        "tasks_missing_because": "it has no event loop" if tasks is None else tasks.why_not or None,
    }


def _show(title: str, stacks: Stacks, context: Context) -> None:
    if stacks.why_not:
        print(context.screen.paint(f"no {title}: {stacks.why_not}", Style.WARN))
        return
    print(context.screen.paint(f"{title}:", Style.BOLD))
    print("\n".join(plain(line) for line in stacks.text.rstrip().splitlines()) or "(none)")


def pid_of(state: State, name: str) -> int:
    """Return the pid of a process, or say in which state it has none."""
    if name == SUPERVISOR:
        return state.pid
    found = next((one for one in state.processes if one.name == name), None)
    if found is None or not found.pid:
        raise CtlError(f"{name} has no process: it is {found.state if found else 'unknown'}")
    return found.pid


def _threads(run_dir: RunDir, name: str, pid: int) -> Stacks:
    """Have the process write its threads' stacks, and return them."""
    path = run_dir.path("stacks", name)
    before = _size(path)
    try:
        why_not = _signal(pid)
    except ProcessLookupError:
        raise CtlError(f"{name} (pid {pid}) has just ended") from None
    except PermissionError:
        raise CtlError(f"Not allowed to signal {name} (pid {pid}): run it as root") from None
    text = "" if why_not else _new_part(path, before)
    if why_not or text:
        return Stacks(text, why_not)
    stopped = procfs.usage_state(pid) in {"t", "T"}
    return Stacks(
        why_not=f"nothing was written within {PATIENCE:g} s"
        + (": the process is stopped by a signal or a debugger" if stopped else "")
    )


def _signal(pid: int) -> str:
    """Send SIGUSR2, unless the process is not prepared for it; then say so."""
    pidfd = os.pidfd_open(pid)
    try:
        # Without a handler the signal would end the process.
        if procfs.handles_signal(pid, signal.SIGUSR2) is False:
            return "it has no handler for SIGUSR2 (a process that is just starting has none yet)"
        signal.pidfd_send_signal(pidfd, signal.SIGUSR2)
        return ""
    finally:
        os.close(pidfd)


def _new_part(path: str, before: int) -> str:
    """Wait until the file has grown and is quiet again; return what was added."""
    end = time.monotonic() + PATIENCE
    size, grown = before, 0.0
    while time.monotonic() < end:
        now = _size(path)
        if now != size:
            size, grown = now, time.monotonic()
        elif grown and time.monotonic() - grown >= QUIET:
            break
        time.sleep(POLL)  # faulthandler tells nobody that it is done
    if not grown:
        return ""
    with open(path, "rb") as file:
        file.seek(before if size > before else 0)  # shorter: a new process began the file anew
        return file.read().decode(errors="replace").lstrip("\0")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _tasks(run_dir: RunDir, name: str) -> Stacks:
    """Ask the process's event loop for its tasks' stacks."""
    from kubelet.channels import client, messages  # ZeroMQ is slow to import
    from kubelet.channels.errors import ChannelError, PeerDownError, RequestTimeoutError

    try:
        answer = client.call(Path(run_dir.root), name, messages.Tasks(), PATIENCE)
    except PeerDownError as problem:
        return Stacks(why_not=str(problem))
    except RequestTimeoutError:
        return Stacks(why_not=f"the event loop did not answer within {PATIENCE:g} s")
    except ChannelError as problem:
        return Stacks(why_not=str(problem))
    return Stacks(answer.text)
