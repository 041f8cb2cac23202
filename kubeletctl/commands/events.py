"""Show what the processes did lately, in the order in which it happened.

Each process keeps its last few thousand actions in a ring of its own; they are still there after
the kubelet has ended. With -f, new ones are shown as they come. -o json prints one object a line.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubelet import durations
from kubeletctl.context import Context, process_name
from kubeletctl.errors import NOT_THERE, OK, CtlError, NotThereError
from kubeletctl.output import Format, emit_line
from kubeletctl.rundir import denied
from kubeletctl.screen import Screen, Style
from kubeletctl.words import plain
from shm.recorder import Record, merge

POLL_SECONDS = 0.15  # this is a viewer: nothing waits for it
BAD_WORDS = frozenset({"died", "crashed", "stuck", "quarantined", "failed", "error"})
GOOD_WORDS = frozenset({"started", "ready", "running"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on with new events")
    parser.add_argument("--process", metavar="NAME", help="only those of one process")
    parser.add_argument("--pod", metavar="UID", help="only those about one pod")
    parser.add_argument("--since", metavar="DURATION", help="only those of the last 30s, 5m, 1h")
    parser.add_argument("--tail", metavar="N", type=_count, help="only the last N of those")


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the events, and go on if asked to."""
    process = process_name(options.process) if options.process else None
    since_ns = since(options.since)
    rings = directory(context)
    seen: dict[str, int] = {}
    while True:
        records = merge(rings, seen)
        for record in records:
            seen[record.kind] = record.seq
        wanted = [r for r in records if matches(r, process, options.pod, since_ns)]
        tail, options.tail = options.tail, None  # only what was there at the beginning
        _show(wanted if tail is None else wanted[len(wanted) - min(tail, len(wanted)) :], context)
        if not options.follow:
            return OK
        time.sleep(POLL_SECONDS)


def since(text: str | None) -> int:
    """Return the moment on the monotonic clock from which on events are wanted."""
    if text is None:
        return 0
    try:
        return time.monotonic_ns() - durations.parse(text)
    except ValueError as problem:
        raise CtlError(f"--since: {text!r} {problem}", NOT_THERE) from None


def directory(context: Context) -> Path:
    """Return where the rings are, or say that there are none."""
    path = context.run_dir.path("recorder")
    if not os.path.isdir(path):
        raise NotThereError(f"No kubelet has run with run directory {context.run_dir.root}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise NotThereError(denied(path))
    return Path(path)


def matches(record: Record, process: str | None, pod: str | None, since_ns: int) -> bool:
    """Whether a record passes the filters. Pure."""
    return (
        (process is None or record.kind == process)
        and (pod is None or record.pod == pod)
        and record.mono_ns >= since_ns
    )


def _show(records: Sequence[Record], context: Context) -> None:
    for record in records:
        if context.output is Format.TEXT:
            print(line(context.screen, record, time.time()))
        else:
            emit_line(document(record), context.output)
    if records and context.output is Format.TEXT:
        print(end="", flush=True)


def document(record: Record) -> dict[str, Any]:
    """Return an event for programs."""
    return {
        "time": stamp(record.time_ns, "%Y-%m-%dT%H:%M:%S", utc=True) + "Z",
        "process": record.kind,
        "seq": record.seq,
        "what": record.what,
        "pod": record.pod,
        "text": record.text,
    }


def line(screen: Screen, record: Record, now_unix: float) -> str:
    """Return an event for people: the date only where it is not today's."""
    today = now_unix - record.time_ns / 1e9 < 86400
    moment = stamp(record.time_ns, "%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", utc=False)
    pod = f"  pod={plain(record.pod)}" if record.pod else ""
    return (
        f"{screen.paint(moment, Style.DIM)}  {screen.paint(f'{record.kind:10}', Style.INFO)}  "
        f"{screen.paint(f'{plain(record.what):11}', _style(record.what))}  "
        f"{plain(record.text)}{screen.paint(pod, Style.DIM)}"
    ).rstrip()


def _style(what: str) -> Style:
    if what in BAD_WORDS:
        return Style.BAD
    return Style.GOOD if what in GOOD_WORDS else Style.NONE


def stamp(time_ns: int, form: str, *, utc: bool) -> str:
    """Print a moment with its milliseconds."""
    seconds, below = divmod(time_ns, 1_000_000_000)
    parts = time.gmtime(seconds) if utc else time.localtime(seconds)
    return f"{time.strftime(form, parts)}.{below // 1_000_000:03d}"
