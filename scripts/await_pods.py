#!/usr/bin/env python3
"""Waits until the pods of a node's manifests are ready: the last part of ``make run DETACH=1``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from node import lock_holder

from kubeletctl import podlines, tables
from kubeletctl.errors import CtlError
from kubeletctl.fields import obj, texts
from kubeletctl.pods import views
from kubeletctl.rundir import RunDir

POLL_SECONDS: Final = 0.1  # nobody tells a command outside the tree that a table has changed
SETTLED: Final = frozenset({"ready", "completed"})


def obstacles(run_dir: RunDir) -> list[str]:
    """Return what still keeps the node from having all its pods ready, a sentence for each."""
    try:
        sources = tables.row(run_dir, "events", tables.SOURCES_KEY)
        content, problems = tables.pods(run_dir)
        runtime = tables.runtime_problem(run_dir)
    except CtlError as problem:  # its writer is just making the table
        return [str(problem)]
    delivered = obj(sources, "delivered")
    if not delivered or not all(delivered.values()):
        return ["the manifests have not been read yet"]
    waiting = [one for one in views(content) if not one.gone and podlines.group(one) not in SETTLED]
    problems += texts(sources, "problems")
    problems += [f"container runtime: {runtime}"] if runtime else []
    return [*problems, *(f"{one.full}: {podlines.trouble(one)}" for one in waiting)]


def wait(run_dir: Path, seconds: float) -> str | None:
    """Wait until nothing is in the way any more; return what still is when time is up."""
    deadline = time.monotonic() + seconds
    while found := obstacles(RunDir(str(run_dir))):
        if lock_holder(run_dir) is None:
            return "the kubelet has ended"
        if time.monotonic() > deadline:
            return f"not all pods are ready after {seconds:g} s: {'; '.join(found)}"
        time.sleep(POLL_SECONDS)
    return None


def main(arguments: Sequence[str]) -> int:
    """Wait as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description="Wait until the pods of the manifests are ready.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to wait")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    problem = wait(options.run_dir, options.seconds)
    if problem is not None:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    print(f"==> Its pods are ready after another {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
