"""Read the configuration again and put it into effect, as SIGHUP does.

A configuration with an error changes nothing: the running one stays, and the errors are printed.
Otherwise the processes are replaced one by one; this returns when the last successor is up.
"""

from __future__ import annotations

import argparse
import time

from kubeletctl import control
from kubeletctl.context import Context
from kubeletctl.errors import OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.rundir import load_state
from kubeletctl.state import State

PATIENCE = 120.0
POLL = 0.05


def configure(_parser: argparse.ArgumentParser) -> None:
    """Take no arguments but the global ones."""


def run(_options: argparse.Namespace, context: Context) -> int:
    """Ask the supervisor to reload."""
    began = time.monotonic()
    before = _pids(load_state(context.run_dir))
    control.ask(context.run_dir, {"do": "reload"}, PATIENCE)
    _await_end(context, before, began + PATIENCE)
    took = round(time.monotonic() - began, 3)
    if context.output is Format.TEXT:
        print(f"reloaded, in {took:.3f} s")
    else:
        emit({"reloaded": True, "took_seconds": took}, context.output)
    return OK


def _pids(state: State) -> frozenset[int]:
    return frozenset(process.pid for process in state.processes if process.pid)


def _await_end(context: Context, before: frozenset[int], deadline: float) -> None:
    """Wait until the state file says that the tree runs, with new processes only.

    The phase alone does not tell: it is written after the answer.
    """
    while (state := load_state(context.run_dir)).phase != "running" or before & _pids(state):
        if time.monotonic() >= deadline:
            raise CtlError(
                f"The new configuration was accepted, but the reload is not over after "
                f"{PATIENCE:g} s; 'kubeletctl status' shows what it waits for"
            )
        time.sleep(POLL)
