"""Show in a time line what was done for a pod, step by step, with the milliseconds of each.

It is read from the rings in which every process notes what it does, so that a step of one process
stands between those of the others. AT is the time since the first line, DELTA since the line
before, TOOK the length of what has a beginning and an end. A ring holds the last few thousand
records of its process: what is older is not there any more.

Shown is the newest run: since the pod was last changed, or was last quiet for 5 seconds. --all
shows everything that the rings hold, --since what is not older.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kubeletctl import pods, timeline
from kubeletctl.commands.events import directory, since, stamp
from kubeletctl.context import Context
from kubeletctl.errors import FAILED, OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.pods import UnknownPodError
from kubeletctl.screen import Cell, Column, Style, table
from kubeletctl.timeline import Step
from kubeletctl.words import count, plain
from shm.recorder import Record, merge

COLUMNS = (
    Column("AT ms", right=True),
    Column("DELTA ms", keep=4, right=True),
    Column("TOOK ms", keep=7, right=True),
    Column("", keep=3),
    Column("PROCESS", keep=5),
    Column("WHAT", keep=8),
    Column("TEXT", keep=6, shrinks=True),
)
LONG_NS = 100_000_000  # a step that took so long is the one to look at
BAD = ("failed", "crashed")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add which pod and how far back."""
    parser.add_argument("pod", help="name, namespace/name or uid, or the beginning of one")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="its namespace")
    parser.add_argument("--all", action="store_true", help="all that the rings hold")
    parser.add_argument("--since", metavar="DURATION", help="only what is not older: 30s, 5m, 1h")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the time line."""
    since_ns = since(options.since)
    records = merge(directory(context))
    uid, name = _whose(options, context, records)
    found = [one for one in records if one.pod == uid and one.mono_ns >= since_ns]
    parted = timeline.runs(found)
    shown = found if options.all or options.since else parted[-1] if parted else []
    lines = timeline.steps(shown)
    if context.output is not Format.TEXT:
        emit(
            {
                "pod": uid,
                "name": name,
                "runs": len(parted),
                "total_ms": round(lines[-1].offset_ns / 1e6, 3) if lines else 0,
                "steps": [timeline.as_json(one, _utc) for one in lines],
            },
            context.output,
        )
        return OK
    if not lines:
        print(f"nothing is noted about pod {plain(name)} (uid {plain(uid)})")
        return FAILED
    print("\n".join(_render(context, name, lines, len(parted), whole=len(shown) == len(found))))
    return OK


def _whose(
    options: argparse.Namespace, context: Context, records: Sequence[Record]
) -> tuple[str, str]:
    """Return uid and name of the pod; one that is gone may still be traced by its uid."""
    known = pods.load(context.run_dir)
    try:
        one = pods.resolve(known, options.pod, options.namespace)
    except UnknownPodError as unknown:
        noted = {one.pod for one in records if one.pod and one.pod.startswith(options.pod)}
        if len(noted) == 1:
            uid = noted.pop()
            return uid, uid
        if noted:
            listed = ", ".join(plain(uid) for uid in sorted(noted))
            raise CtlError(f"Several pods are meant by {options.pod!r}: {listed}") from None
        raise unknown from None
    return one.uid, one.full


def _render(
    context: Context, name: str, lines: Sequence[Step], number: int, *, whole: bool
) -> list[str]:
    total = max(step.offset_ns + (step.took_ns or 0) for step in lines)
    began = stamp(lines[0].record.time_ns, "%Y-%m-%d %H:%M:%S", utc=False)
    took = timeline.milliseconds(total)
    head = f"{plain(name)}: {count(len(lines), 'step')} in {took} ms since {began}"
    others = number - 1
    more = [] if whole or not others else [f"({count(others, 'older run')}: --all)"]
    return [
        " ".join([context.screen.paint(head, Style.BOLD), *more]),
        *table(context.screen, COLUMNS, [_cells(step, total) for step in lines]),
    ]


def _cells(step: Step, total_ns: int) -> list[Cell]:
    long = (step.took_ns or 0) >= LONG_NS
    took = "" if step.took_ns is None else timeline.milliseconds(step.took_ns)
    style = Style.BAD if step.record.what in BAD else Style.NONE
    return [
        Cell(timeline.milliseconds(step.offset_ns)),
        Cell(f"+{timeline.milliseconds(step.delta_ns)}", Style.DIM),
        Cell("under way" if step.open else took, Style.WARN if long else Style.NONE),
        Cell(timeline.track(step, total_ns), Style.WARN if long or step.open else Style.INFO),
        Cell(step.record.kind, Style.INFO),
        Cell(step.record.what, style),
        Cell(step.record.text),
    ]


def _utc(record: Record) -> str:
    return stamp(record.time_ns, "%Y-%m-%dT%H:%M:%S", utc=True) + "Z"
