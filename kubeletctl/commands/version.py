"""Show the version of this command, and of the kubelet that runs, if one does.

Both name the version of Kubernetes whose kubelet they stand in for.
"""

from __future__ import annotations

import argparse
from typing import Any

from kubelet import __version__
from kubeletctl.context import Context
from kubeletctl.errors import OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.rundir import load_state


def kubernetes_version() -> str:
    """Return the version of Kubernetes whose kubelet this one stands in for."""
    from kubelet.config import VERSION  # the tables of all fields: slow to import

    return VERSION


def configure(_parser: argparse.ArgumentParser) -> None:
    """Take no arguments but the global ones."""


def run(_options: argparse.Namespace, context: Context) -> int:
    """Print both versions; that no kubelet runs is no error here."""
    running, why_not = _running(context)
    if context.output is Format.TEXT:
        print(f"kubeletctl  {__version__}")
        print(f"kubelet     {running['version'] if running else f'not running ({why_not})'}")
        print(f"kubernetes  {kubernetes_version()}")
        return OK
    emit(
        {"client": __version__, "kubernetes": kubernetes_version(), "running": running},
        context.output,
    )
    return OK


def _running(context: Context) -> tuple[dict[str, Any] | None, str]:
    try:
        state = load_state(context.run_dir)
    except CtlError as problem:
        return None, str(problem)
    return {"version": state.version, "node": state.node, "pid": state.pid}, ""
