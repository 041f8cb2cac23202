"""Show the pods of this node in a short table: ready, status, restarts, age, what each waits for.

STATUS is the word that kubectl prints. 'kubeletctl why <pod>' tells the story behind it.
"""

from __future__ import annotations

import argparse
import time

from kubeletctl import podlines, pods
from kubeletctl.context import Context
from kubeletctl.errors import OK
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView
from kubeletctl.screen import Cell, Column, Style, table

COLUMNS = (
    Column("NAMESPACE", keep=3),
    Column("NAME"),
    Column("READY", keep=7, right=True),
    Column("STATUS", keep=8),
    Column("RESTARTS", keep=5),
    Column("AGE", keep=4, right=True),
    Column("WAITS FOR", keep=6, shrinks=True),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.add_argument("name", nargs="?", help="only this one: name, namespace/name or uid")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="only this one's")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print one line for each pod."""
    known = pods.load(context.run_dir)
    if options.name:
        shown = [pods.resolve(known, options.name, options.namespace)]
    else:
        shown = [one for one in known if not one.gone]
        shown = [one for one in shown if options.namespace in {"", one.namespace}]
    if context.output is not Format.TEXT:
        emit([podlines.as_json(one) for one in shown], context.output)
    elif shown:
        now_ns = time.time_ns()
        print("\n".join(table(context.screen, COLUMNS, [cells(one, now_ns) for one in shown])))
    else:
        print(f"no pods{f' in namespace {options.namespace}' if options.namespace else ''}")
    return OK


def cells(one: PodView, now_ns: int) -> list[Cell]:
    """Return the line of one pod."""
    found = one.summary
    return [
        Cell(one.namespace),
        Cell(one.name, Style.BOLD),
        Cell(f"{found.ready}/{found.total}"),
        podlines.word_cell(found),
        Cell(podlines.restarts(found, now_ns), Style.WARN if found.restarts else Style.NONE),
        Cell(podlines.age_of(one, now_ns)),
        Cell(podlines.trouble(one).removeprefix("waits for ") or "-"),
    ]
