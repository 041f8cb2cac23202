"""Show the probes of pods: what each found, what the last one said, when the next one is due.

VERDICT is what counts for the pod: it changes after as many equal results in a row as the probe's
thresholds ask for. STREAK is how many there are now. NEXT in brackets says why a probe is not made.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from kubeletctl import pods, probes, tables
from kubeletctl.context import Context
from kubeletctl.errors import OK, CtlError, NotThereError
from kubeletctl.fields import texts
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView
from kubeletctl.probes import Probe, Rows
from kubeletctl.rundir import RunDir
from kubeletctl.screen import Cell, Column, Style, table
from kubeletctl.words import age, short_age

COLUMNS = (
    Column("POD"),
    Column("CONTAINER"),
    Column("KIND"),
    Column("HANDLER", keep=4, shrinks=True),
    Column("PERIOD", keep=2, right=True),
    Column("VERDICT", keep=8),
    Column("STREAK", keep=7),
    Column("LAST", keep=6, right=True),
    Column("TOOK", keep=3, right=True),
    Column("NEXT", keep=5),
    Column("SAID", keep=5, shrinks=True),
)
_STYLES = {probes.SUCCESS: Style.GOOD, probes.FAILURE: Style.BAD}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.add_argument("pod", nargs="?", help="only of this one: name, namespace/name or uid")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="only of this one's")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print one line for each probe."""
    known = pods.load(context.run_dir)
    if options.pod:
        shown = [pods.resolve(known, options.pod, options.namespace)]
    else:
        shown = [one for one in known if options.namespace in {"", one.namespace}]
    found, now_ns = load(shown, context.run_dir), time.time_ns()
    if context.output is not Format.TEXT:
        emit([one.as_json() for one in found], context.output)
    elif found:
        print("\n".join(table(context.screen, COLUMNS, [cells(one, now_ns) for one in found])))
    else:
        print(f"no probes{f' in pod {shown[0].full}' if options.pod else ''}")
    return OK


def load(shown: list[PodView], run_dir: RunDir) -> list[Probe]:
    """Return the probes of pods with what the tables know of them."""
    rows = Rows(_rows(run_dir, "probes"), _rows(run_dir, "probing"), _hooked(run_dir, shown))
    return probes.of_pods(shown, rows, time.time_ns(), time.monotonic_ns())


def _rows(run_dir: RunDir, name: str) -> dict[str, Any]:
    """Return the rows of a table; one that cannot be read is said, and there is less to show."""
    try:
        return tables.rows(run_dir, name)
    except NotThereError:
        raise
    except CtlError as problem:
        print(f"kubeletctl: {problem}", file=sys.stderr)
        return {}


def _hooked(run_dir: RunDir, shown: list[PodView]) -> frozenset[str]:
    rows = _rows(run_dir, "status") if shown else {}
    return frozenset(id_ for one in shown for id_ in texts(rows.get(one.uid), "hooked"))


def cells(one: Probe, now_ns: int) -> list[Cell]:
    """Return the line of one probe."""
    failing = one.failing and one.streak > 0
    return [
        Cell(one.pod),
        Cell(one.container),
        Cell(one.kind),
        Cell(one.handler),
        Cell(f"{one.period_seconds}s"),
        Cell(one.verdict, _STYLES.get(one.verdict, Style.WARN)),
        Cell(probes.streak(one), Style.WARN if failing else Style.NONE),
        Cell(age((now_ns - one.last_ns) / 1e9) if one.last_ns else "-"),
        Cell(short_age(one.took_ns / 1e6) if one.last_ns else "-"),
        Cell(probes.due(one, now_ns)),
        Cell(" ".join(one.said.split()) or "-"),
    ]
