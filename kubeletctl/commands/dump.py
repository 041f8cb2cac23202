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
from pathlib import Path

from kubeletctl import procfs
from kubeletctl.context import Context, process_name
from kubeletctl.errors import OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.screen import Style
from kubeletctl.state import State
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
    threads = thread_stacks(context.run_dir, name, pid)
    tasks, silence = (None, None) if name == SUPERVISOR else _task_stacks(context.run_dir, name)
    if context.output is not Format.TEXT:
        parts = {"threads": threads, "tasks": tasks, "tasks_missing_because": silence}
        emit({"process": name, "pid": pid, **parts}, context.output)
        return OK
    print(context.screen.paint(f"threads of {name} (pid {pid}):", Style.BOLD))
    print(threads.rstrip())
    if tasks is not None:
        print(context.screen.paint(f"\nasyncio tasks of {name}:", Style.BOLD))
        print(tasks.rstrip() or "(none)")
    elif silence is not None:
        print(context.screen.paint(f"\nno asyncio tasks: {silence}", Style.WARN))
    return OK


def pid_of(state: State, name: str) -> int:
    """Return the pid of a process, or say in which state it has none."""
    if name == SUPERVISOR:
        return state.pid
    found = next((one for one in state.processes if one.name == name), None)
    if found is None or not found.pid:
        raise CtlError(f"{name} has no process: it is {found.state if found else 'unknown'}")
    return found.pid


def thread_stacks(run_dir: RunDir, name: str, pid: int) -> str:
    """Have the process write its stacks, and return them."""
    path = run_dir.path("stacks", name)
    before = _size(path)
    _signal(name, pid)
    text = _new_part(path, before)
    if text:
        return text
    letter = procfs.usage_state(pid)
    if letter is None:
        raise CtlError(f"{name} (pid {pid}) has just ended")
    stopped = ": it is stopped by a signal or a debugger" if letter in "tT" else ""
    raise CtlError(f"{name} (pid {pid}) wrote no stacks within {PATIENCE:g} s{stopped}")


def _signal(name: str, pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise CtlError(f"{name} (pid {pid}) has just ended") from None
    try:
        # Without a handler the signal would end the process: one that has only just been forked.
        if procfs.handles_signal(pid, signal.SIGUSR2) is False:
            raise CtlError(f"{name} (pid {pid}) cannot dump its stacks yet: it is just starting")
        signal.pidfd_send_signal(pidfd, signal.SIGUSR2)
    except ProcessLookupError:
        raise CtlError(f"{name} (pid {pid}) has just ended") from None
    except PermissionError:
        raise CtlError(f"Not allowed to signal {name} (pid {pid}): run it as root") from None
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


def _task_stacks(run_dir: RunDir, name: str) -> tuple[str | None, str | None]:
    """Return the tasks' stacks, or the reason why there are none."""
    from kubelet.channels import client, messages  # noqa: PLC0415 - ZeroMQ is slow to import
    from kubelet.channels.errors import ChannelError, RequestTimeoutError  # noqa: PLC0415

    try:
        answer = client.call(Path(run_dir.root), name, messages.Tasks(), PATIENCE)
    except RequestTimeoutError:
        return None, f"the event loop of {name} did not answer within {PATIENCE:g} s"
    except ChannelError as problem:
        return None, str(problem)
    return answer.text, None
