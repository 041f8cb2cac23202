"""Replace one process by a new one.

The process is asked to end and its successor is started at once. This returns when the successor's
event loop turns (its first heartbeat), and prints both pids and how long it took. No pod notices.
"""

from __future__ import annotations

import argparse
import time

from kubeletctl import control
from kubeletctl.context import Context, process_name
from kubeletctl.errors import OK, CtlError
from kubeletctl.output import Format, emit
from supervisor.kinds import SUPERVISOR

PATIENCE = 60.0  # seconds; a stop has its own, shorter limit


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the name of the process."""
    parser.add_argument("process", help="which process to replace")


def run(options: argparse.Namespace, context: Context) -> int:
    """Ask the supervisor and wait for the new process."""
    name = process_name(options.process)
    if name == SUPERVISOR:
        raise CtlError(
            "The supervisor is not restarted by itself: 'kubeletctl reload' executes it anew, "
            "'systemctl restart kubelet' restarts everything"
        )
    began = time.monotonic()
    answer = control.ask(context.run_dir, {"do": "restart", "kind": name}, PATIENCE)
    took = round(time.monotonic() - began, 3)
    old, new = answer.get("old_pid"), answer.get("new_pid")
    if context.output is Format.TEXT:
        print(f"{name}: pid {old} is now pid {new}, in {took:.3f} s")
    else:
        done = {"process": name, "old_pid": old, "new_pid": new, "took_seconds": took}
        emit(done, context.output)
    return OK
