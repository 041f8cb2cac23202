"""Read the configuration again and put it into effect, as SIGHUP does.

A configuration with an error changes nothing: the running one stays, and the errors are printed.
"""

from __future__ import annotations

import argparse
import time

from kubeletctl import control
from kubeletctl.context import Context
from kubeletctl.errors import OK
from kubeletctl.output import Format, emit

PATIENCE = 120.0


def configure(_parser: argparse.ArgumentParser) -> None:
    """Take no arguments but the global ones."""


def run(_options: argparse.Namespace, context: Context) -> int:
    """Ask the supervisor to reload."""
    began = time.monotonic()
    control.ask(context.run_dir, {"do": "reload"}, PATIENCE)
    took = round(time.monotonic() - began, 3)
    if context.output is Format.TEXT:
        print(f"reloaded, in {took:.3f} s")
    else:
        emit({"reloaded": True, "took_seconds": took}, context.output)
    return OK
