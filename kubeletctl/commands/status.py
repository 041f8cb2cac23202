"""Show on one screen how the kubelet is: processes, pods, and what is wrong.

Everything is read from files and from /proc, so it answers when every process is stuck. CPU is
that of the last 5 to 10 seconds. PSS counts a page shared by n processes as 1/n in each, so the
total is what the whole tree takes.

Exit code 0: healthy. 1: something is wrong with the kubelet. 2: no kubelet there. A runtime that is
down is a problem, but not an illness of the kubelet: who restarted it for that would only add to
the trouble.
"""

from __future__ import annotations

import argparse
from typing import Any

from kubeletctl import cluster, podlines, problems, snapshot, tables, volumes
from kubeletctl.context import Context
from kubeletctl.errors import FAILED, OK
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView, views
from kubeletctl.problems import Problem, Weight
from kubeletctl.screen import Cell, Column, Screen, Style, table, wrap
from kubeletctl.snapshot import ProcessView, Snapshot
from kubeletctl.volumes import SlowVolume
from kubeletctl.words import age, count, local_time, number, plain, short_age

PODS_LISTED = 10  # of those that are not ready

COLUMNS = (
    Column("PROCESS"),
    Column("PID", keep=8, right=True),
    Column("STATE"),
    Column("UP", keep=8, right=True),
    Column("RESTARTS", keep=6, right=True),
    Column("LAST EXIT", keep=3),
    Column("BEAT", keep=7, right=True),
    Column("LAG", keep=5, right=True),
    Column("CPU m", keep=7, right=True),
    Column("RSS MiB", keep=1, right=True),
    Column("PSS MiB", keep=7, right=True),
    Column("THR", keep=2, right=True),
    Column("FDS", keep=2, right=True),
    Column("OPERATION", keep=4, shrinks=True),
)
STYLES = {
    "running": Style.GOOD,
    "starting": Style.WARN,
    "stopping": Style.WARN,
    "stopped": Style.BAD,
    "backoff": Style.BAD,
    "hung": Style.BAD,
    "killed": Style.BAD,
    "gone": Style.BAD,
}


def configure(_parser: argparse.ArgumentParser) -> None:
    """Take no arguments but the global ones."""


def run(_options: argparse.Namespace, context: Context) -> int:
    """Look once, print, and return 0 or 1."""
    seen = snapshot.take(context.run_dir)
    found = tables.look(context.run_dir)
    pods = [one for one in views(found.content) if not one.gone]
    wrong = problems.find(
        seen,
        found.problems,
        closed=found.closed,
        runtime=found.runtime_problem,
        sources=found.sources,
        connection=found.connection,
    )
    slow = _volumes(found, seen)
    if context.output is Format.TEXT:
        lines = (f"runtime: {found.runtime}" if found.runtime else "", _cluster(seen, found))
        print("\n".join(render(context.screen, seen, pods, lines, wrong, slow=slow)))
    else:
        shown = document(seen, [podlines.as_json(one) for one in pods], slow, wrong)
        if isinstance(found.connection, dict):
            shown["api_server"] = found.connection
        emit(shown, context.output)
    return OK if problems.healthy(wrong) else FAILED


def document(
    seen: Snapshot,
    pods: list[dict[str, Any]],
    slow: list[SlowVolume],
    wrong: tuple[Problem, ...],
) -> dict[str, Any]:
    """Return what ``-o json`` prints."""
    return {
        "healthy": problems.healthy(wrong),
        "node": seen.state.node,
        "uptime_seconds": seen.uptime_seconds,
        "processes": [view.as_json() for view in seen.processes],
        "pods": pods,
        "volumes": [one.as_json() for one in slow],
        "problems": [problem.text for problem in wrong if problem.weight is not Weight.NOTE],
    }


def _cluster(seen: Snapshot, found: tables.Tables) -> str:
    line = cluster.line(found.connection, seen.now_unix)
    return f"API server: {line}" if line else ""


def _volumes(found: tables.Tables, seen: Snapshot) -> list[SlowVolume]:
    """Return the volumes that take long or have failed."""
    names = {one.uid: one.full for one in views(found.content)}
    return volumes.find(found.content.get(tables.MOUNTS, {}), names, int(seen.now_unix * 1e9))


def render(  # noqa: PLR0913 - each is a part of the screen
    screen: Screen,
    seen: Snapshot,
    pods: list[PodView],
    lines: tuple[str, ...],
    wrong: tuple[Problem, ...],
    *,
    slow: list[SlowVolume],
) -> list[str]:
    """Lay out the screen; ``lines`` are about what the kubelet depends on."""
    return [
        *_head(screen, seen, problems.healthy(wrong)),
        "",
        *table(screen, COLUMNS, [_row(view) for view in seen.processes]),
        "",
        _totals(seen),
        *(plain(line) for line in lines if line),
        *_pods(screen, pods),
        *_slow_volumes(screen, slow, seen),
        "",
        *_problems(screen, wrong),
    ]


def _head(screen: Screen, seen: Snapshot, fine: bool) -> list[str]:
    state = seen.state
    verdict = ("healthy", Style.GOOD) if fine else ("not healthy", Style.BAD)
    since = f"up {age(seen.uptime_seconds)} since {local_time(state.started_unix)}"
    return [
        f"{screen.paint(plain(state.node), Style.BOLD)}  {screen.paint(*verdict)}",
        f"kubelet {plain(state.version)}, {plain(state.phase)}, {since}",
    ]


def _row(view: ProcessView) -> list[Cell]:
    operation = view.operation
    if operation and view.operation_age_ms is not None:
        operation = f"{operation} ({short_age(view.operation_age_ms)})"
    return [
        Cell(view.name, Style.BOLD),
        Cell(str(view.pid or "-")),
        Cell(view.state, STYLES.get(view.state, Style.WARN)),
        Cell(age(view.uptime_seconds) if view.pid else "-"),
        Cell(str(view.restarts), Style.WARN if view.restarts else Style.NONE),
        Cell(view.last_exit or "-"),
        Cell(short_age(view.heartbeat_age_ms)),
        Cell(short_age(view.loop_lag_ms), _lag_style(view.loop_lag_ms)),
        Cell(number(view.cpu_millicores, 1)),
        Cell(number(view.rss_mib, 1)),
        Cell(number(view.pss_mib, 1)),
        Cell(number(view.threads)),
        Cell(number(view.fds)),
        Cell(operation or "-"),
    ]


def _lag_style(lag_ms: float | None) -> Style:
    return Style.BAD if (lag_ms or 0) >= problems.LAG_HIGH_MS else Style.NONE


def _totals(seen: Snapshot) -> str:
    pss = [view.pss_mib for view in seen.processes if view.pss_mib is not None]
    cpu = sum(view.cpu_millicores or 0 for view in seen.processes)
    memory = f"{sum(pss):.1f} MiB PSS" if pss else "PSS not readable (needs root)"
    return f"total: {memory}, {cpu:.1f} millicores"


def _pods(screen: Screen, pods: list[PodView]) -> list[str]:
    """Count the pods, and list those that are not as they should be."""
    lines = [f"pods: {podlines.counts(pods)}"]
    waiting = [one for one in pods if podlines.group(one) not in {"ready", "completed"}]
    for one in waiting[:PODS_LISTED]:
        cell, why = podlines.word_cell(one.summary), podlines.trouble(one)
        first, *rest = wrap(screen, f"{one.full} {cell.text}: {why}".rstrip(": "), "  ", "    ")
        lines += [first.replace(cell.text, screen.paint(cell.text, cell.style), 1), *rest]
    if len(waiting) > PODS_LISTED:
        more = count(len(waiting) - PODS_LISTED, "pod")
        lines.append(f"  and {more} more that are not ready: 'kubeletctl pods'")
    return lines


def _slow_volumes(screen: Screen, slow: list[SlowVolume], seen: Snapshot) -> list[str]:
    """List what volumes are waited for; nothing where all of them are as they should be."""
    if not slow:
        return []
    texts = volumes.lines(slow, int(seen.now_unix * 1e9))
    return ["volumes:", *(line for text in texts for line in wrap(screen, text, "  ", "    "))]


def _problems(screen: Screen, wrong: tuple[Problem, ...]) -> list[str]:
    serious = [problem.text for problem in wrong if problem.weight is not Weight.NOTE]
    notes = [problem.text for problem in wrong if problem.weight is Weight.NOTE]
    lines = _section(screen, "problems:", serious, Style.BAD) if serious else ["problems: none"]
    return [*lines, *(_section(screen, "notes:", notes, Style.NONE) if notes else [])]


def _section(screen: Screen, title: str, texts: list[str], style: Style) -> list[str]:
    lines = [title]
    for text in texts:
        lines += [screen.paint(line, style) for line in wrap(screen, text, "  * ", "    ")]
    return lines
