"""Watch what the processes use, live.

Per process over the last interval: CPU in millicores, memory (PSS counts a shared page once over
all processes), threads, open files, context switches a second, the share of time that it was ready
to run and had to wait for a processor (RUNQ), how late its event loop is, and what it is doing.

On a terminal the screen is redrawn each interval; q ends it, c and m sort by CPU or memory. Piped,
each interval prints a block. -o json prints one object a line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubeletctl import procfs, snapshot
from kubeletctl.context import Context
from kubeletctl.errors import NOT_THERE, OK, CtlError
from kubeletctl.output import Format, emit_line
from kubeletctl.screen import Cell, Column, Screen, Style, detect, table
from kubeletctl.snapshot import ProcessView, Snapshot
from kubeletctl.words import age, number, plain, short_age

FIRST_LOOK: Final = 0.25  # seconds until the first picture on a terminal
SORTS: Final = {"c": "cpu", "m": "memory"}
ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the alternate screen, no cursor
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
END_OF_LINE: Final = "\x1b[K"
REST: Final = "\x1b[J"

COLUMNS = (
    Column("PROCESS"),
    Column("PID", keep=6, right=True),
    Column("STATE", keep=7),
    Column("CPU m", right=True),
    Column("PSS MiB", keep=8, right=True),
    Column("RSS MiB", keep=2, right=True),
    Column("THR", keep=3, right=True),
    Column("FDS", keep=3, right=True),
    Column("CTX/s", keep=5, right=True),
    Column("RUNQ %", keep=5, right=True),
    Column("LAG", keep=7, right=True),
    Column("OPERATION", keep=4, shrinks=True),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look, with what only this verb wants to know, by process."""

    taken: Snapshot
    at_ns: dict[str, int]
    cpu_ns: dict[str, int]
    scheduling: dict[str, procfs.Scheduling]


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process used over an interval."""

    view: ProcessView
    switches_per_second: float | None
    run_delay_percent: float | None

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        fields = self.view.as_json()
        names = ("name", "pid", "state", "cpu_millicores", "pss_mib", "rss_mib", "threads", "fds")
        rest = ("loop_lag_ms", "operation", "operation_age_ms")
        return {
            **{name: fields[name] for name in names},
            "context_switches_per_second": self.switches_per_second,
            "run_delay_percent": self.run_delay_percent,
            **{name: fields[name] for name in rest},
        }


def configure(parser: argparse.ArgumentParser) -> None:
    """Add how often, how many times, and the order."""
    parser.add_argument(
        "-n", "--interval", type=float, default=1.0, metavar="SECONDS", help="(default 1)"
    )
    parser.add_argument("--count", type=int, metavar="N", help="end after N pictures")
    parser.add_argument("--sort", choices=("cpu", "memory", "none"), default="none")


def run(options: argparse.Namespace, context: Context) -> int:
    """Show pictures until told to stop."""
    if not 0.1 <= options.interval <= 3600:
        raise CtlError(
            f"--interval is {options.interval:g}, allowed is 0.1 to 3600 seconds", NOT_THERE
        )
    live = context.output is Format.TEXT and context.screen.width is not None
    before = take(context)
    with _terminal() if live else contextlib.nullcontext() as keys:
        pause = min(FIRST_LOOK, options.interval) if live else options.interval
        shown = 0
        while options.count is None or shown < options.count:
            key = _wait(pause, keys)
            if key in {"q", "\x03"}:
                return OK
            options.sort = SORTS.get(key, options.sort)
            now = take(context)
            used = order(compare(before, now), options.sort)
            _show(used, now, options, context, live=live)
            before, pause, shown = now, options.interval, shown + 1
    return OK


def take(context: Context) -> Sample:
    """Look once."""
    taken = snapshot.take(context.run_dir)
    at_ns, cpu_ns, scheduling = {}, {}, {}
    for view in taken.processes:
        cpu = procfs.cpu_ns(view.pid) if view.pid else None
        if cpu is None:
            continue
        at_ns[view.name], cpu_ns[view.name] = time.monotonic_ns(), cpu
        found = procfs.scheduling(view.pid)
        if found:
            scheduling[view.name] = found
    return Sample(taken, at_ns, cpu_ns, scheduling)


def compare(before: Sample, now: Sample) -> list[Usage]:
    """Tell what each process used between two looks. Pure.

    A process that was replaced meanwhile has used nothing yet that could be compared.
    """
    old_pids = {view.name: view.pid for view in before.taken.processes}
    return [
        _usage(view, before, now)
        if view.name in before.cpu_ns
        and view.name in now.cpu_ns
        and old_pids[view.name] == view.pid
        else Usage(view, None, None)
        for view in now.taken.processes
    ]


def _usage(view: ProcessView, before: Sample, now: Sample) -> Usage:
    name = view.name
    passed = max(1, now.at_ns[name] - before.at_ns[name])
    millicores = round(max(0.0, 1000 * (now.cpu_ns[name] - before.cpu_ns[name]) / passed), 1)
    view = view._replace(cpu_millicores=millicores)
    old, new = before.scheduling.get(name), now.scheduling.get(name)
    if old is None or new is None:
        return Usage(view, None, None)
    # A thread that ended takes its counts along, so a difference may be negative.
    switches = max(0, new.switches - old.switches)
    delay = max(0, new.run_delay_ns - old.run_delay_ns)
    return Usage(view, round(switches * 1e9 / passed, 1), round(100 * delay / passed, 2))


def order(used: list[Usage], by: str) -> list[Usage]:
    """Sort, the greatest first; without a choice the order stays that of the tree."""
    if by == "cpu":
        return sorted(used, key=lambda one: -(one.view.cpu_millicores or 0))
    if by == "memory":
        return sorted(used, key=lambda one: -(one.view.pss_mib or one.view.rss_mib or 0))
    return used


def document(used: list[Usage], now: Snapshot, interval: float) -> dict[str, Any]:
    """Return one picture for programs."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now.now_unix)),
        "node": now.state.node,
        "interval_seconds": interval,
        "processes": [one.as_json() for one in used],
        "total": {
            "cpu_millicores": round(sum(one.view.cpu_millicores or 0 for one in used), 1),
            "pss_mib": round(sum(one.view.pss_mib or 0 for one in used), 1),
        },
    }


def render(screen: Screen, used: list[Usage], now: Snapshot, by: str) -> list[str]:
    """Return one picture for people."""
    total = document(used, now, 0)["total"]
    used_text = f"{total['cpu_millicores']:.1f} millicores, {total['pss_mib']:.1f} MiB PSS"
    order_text = f"  sorted by {by}" if by != "none" else ""
    moment = f"{time.strftime('%H:%M:%S')}  up {age(now.uptime_seconds)}"
    return [
        f"{screen.paint(plain(now.state.node), Style.BOLD)}  {moment}  {used_text}{order_text}",
        "",
        *table(screen, COLUMNS, [_row(one) for one in used]),
    ]


def _row(one: Usage) -> list[Cell]:
    view = one.view
    operation = view.operation
    if operation and view.operation_age_ms is not None:
        operation = f"{operation} ({short_age(view.operation_age_ms)})"
    busy = Style.WARN if (view.cpu_millicores or 0) >= 500 else Style.NONE
    return [
        Cell(view.name, Style.BOLD),
        Cell(str(view.pid or "-")),
        Cell(view.state, Style.GOOD if view.state == "running" else Style.BAD),
        Cell(number(view.cpu_millicores, 1), busy),
        Cell(number(view.pss_mib, 1)),
        Cell(number(view.rss_mib, 1)),
        Cell(number(view.threads)),
        Cell(number(view.fds)),
        Cell(number(one.switches_per_second)),
        Cell(number(one.run_delay_percent, 1)),
        Cell(short_age(view.loop_lag_ms)),
        Cell(operation or "-"),
    ]


def _show(
    used: list[Usage], now: Sample, options: argparse.Namespace, context: Context, *, live: bool
) -> None:
    if context.output is not Format.TEXT:
        emit_line(document(used, now.taken, options.interval), context.output)
        return
    if not live:
        print("\n".join(render(context.screen, used, now.taken, options.sort)), end="\n\n")
        sys.stdout.flush()
        return
    screen = detect(no_color=False)._replace(colors=context.screen.colors)  # it may be resized
    lines = render(screen, used, now.taken, options.sort)[: screen.height]
    picture = "\n".join(line + END_OF_LINE for line in lines)
    sys.stdout.write(HOME + picture + REST)
    sys.stdout.flush()


@contextlib.contextmanager
def _terminal() -> Iterator[int | None]:
    """Use the alternate screen and read single keys; put everything back, whatever happens."""
    import termios  # only on a terminal
    import tty

    keys = sys.stdin.fileno() if sys.stdin.isatty() else None
    settings = termios.tcgetattr(keys) if keys is not None else None
    try:
        if keys is not None:
            tty.setcbreak(keys)
        sys.stdout.write(ENTER)
        sys.stdout.flush()
        yield keys
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        if keys is not None and settings is not None:
            termios.tcsetattr(keys, termios.TCSADRAIN, settings)


def _wait(seconds: float, keys: int | None) -> str:
    """Let time pass, or return the key that was pressed."""
    if keys is None:
        time.sleep(seconds)
        return ""
    ready, _, _ = select.select([keys], [], [], seconds)
    return os.read(keys, 1).decode(errors="replace") if ready else ""
