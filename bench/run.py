"""``make bench``: every figure in one table, next to its bar, written to bench/RESULTS.md too."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time
from pathlib import Path

from bench.measure import Bar, number

RESULTS = Path(__file__).with_name("RESULTS.md")


BARS = {
    "exec to READY, s (median)": Bar(2.0),
    "PSS of the tree, MiB": Bar(90),
    "idle CPU of the tree, millicores": Bar(15),
    "kubeletctl status, s (median)": Bar(0.3),
    "killed process back, ms p50": Bar(500),
    "reads of 4 KiB per second": Bar(100_000, at_least=True),
    "pleg at rest, 500 pods, millicores": Bar(50),
    "full look, 2500 pods, ms p50": Bar(300),
    "manifest written to process running, x floor": Bar(1.5),
    "crash to new process, x floor": Bar(1.6),
    "manifest removed to all gone, x floor": Bar(2.5),
    "30 pods at once, all running, x floor": Bar(1.3),
}
# Imported when their turn comes: what this process has loaded it shares with the tree, and makes
# that look smaller than it is.
SECTIONS = (
    ("The tree", "bench.tree_bench"),
    ("Shared memory", "bench.shm_bench"),
    ("Channels, microseconds", "bench.channel_bench"),
    ("PLEG", "bench.pleg_bench"),
    ("Pods", "bench.pods_bench"),
    ("In a cluster, beside the Go kubelet", "bench.cluster_bench"),
    ("Probes", "bench.probes_bench"),
)


def main() -> int:
    """Measure; 1 if a bar was missed."""
    lines = ["# Figures", "", *_machine(), ""]
    missed = []
    for title, module in SECTIONS:
        print(f"==> {title} ...", flush=True)
        measured = importlib.import_module(module)
        rows = measured.run()
        bars = measured.bars() if hasattr(measured, "bars") else BARS
        missed += [name for name in rows.keys() & bars.keys() if not bars[name].met(rows[name])]
        section = _table(title, rows, bars)
        print("\n".join(section), flush=True)
        lines += section
    RESULTS.write_text("\n".join(lines))
    print(f"written: {RESULTS}")
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def _machine() -> list[str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    text = (
        f"`make bench` on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}."
    )
    return [text]


def _table(title: str, rows: dict[str, float], bars: dict[str, Bar]) -> list[str]:
    lines = [f"## {title}", "", "| figure | measured | bar | |", "|---|---:|---:|---|"]
    for name, value in rows.items():
        bar = bars.get(name)
        verdict = "" if bar is None else "met" if bar.met(value) else "**missed**"
        lines.append(f"| {name} | {number(value)} | {bar.text if bar else ''} | {verdict} |")
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
