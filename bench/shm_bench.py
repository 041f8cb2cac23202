"""How fast tables are: reads, writes, reads under writes, and looking for what has changed.

``run()`` returns the figures; run as a program it prints them. ``--crash N`` also kills N writers
at random instants under the eyes of two readers.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from shm.board import RowWriter, read_row  # noqa: E402
from shm.codec import pack, unpack  # noqa: E402
from shm.recorder import RecorderWriter  # noqa: E402
from shm.table import Reader, Writer  # noqa: E402
from shm.tables import Declaration  # noqa: E402

KEYS = [f"{i:08x}-0000-4000-8000-000000000000" for i in range(100)]
MANY = [f"{i:08x}-1111-4000-8000-000000000000" for i in range(2500)]
SECONDS = 0.5


@contextmanager
def tables() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="kubelet-bench-", dir="/dev/shm"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def declaration(name: str) -> Declaration:
    return Declaration(name, "pleg", ("api",), "pod uid", "benchmark", 1, 512 << 20)


def pod_of_4_kib() -> dict[str, Any]:
    """Return something of a pod's shape that packs to about 4 KiB."""
    container = {
        "name": "container",
        "image": "registry.example/some/image:1.2.3",
        "env": [{"name": f"VARIABLE_{i}", "value": "v" * 24} for i in range(12)],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1"}},
        "state": {"running": {"startedAt": 1_700_000_000_000_000_000}},
    }
    return {"metadata": {"uid": KEYS[0], "name": "pod"}, "containers": [container] * 6}


def rate(work: Callable[[str], object]) -> float:
    """Return how many times a second the work can be done, one key after the other."""
    done, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < SECONDS:
        for key in KEYS:
            work(key)
        done += len(KEYS)
    return done / elapsed


def best(work: Callable[[], object], times: int = 20) -> float:
    """Return the shortest of several runs, in seconds."""
    shortest = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest


def write_at_full_speed(directory: Path) -> int:
    """Fork a process that does nothing but put; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    writer = Writer.attach(directory, declaration("bench"))
    payloads = [bytes([i]) * 4096 for i in range(4)]
    while True:
        for payload in payloads:
            for key in KEYS:
                writer.put(key, payload)


def small_table(directory: Path) -> dict[str, float]:
    table = declaration("bench")
    writer, reader = Writer.attach(directory, table), Reader.attach(directory, table)
    payload, packed = os.urandom(4096), pack(pod_of_4_kib())
    figures = {"writes of 4 KiB per second": rate(lambda key: writer.put(key, payload))}
    figures["reads of 4 KiB per second"] = rate(reader.get)
    for key in KEYS:
        writer.put(key, packed)
    figures["packed pod, bytes"] = len(packed)
    figures["reads with unpack per second"] = rate(lambda key: unpack(reader.get(key).payload))
    writer.close()
    pid = write_at_full_speed(directory)
    try:
        while reader.get(KEYS[0]).payload == packed:
            time.sleep(0.001)
        before = reader.generation
        begin = time.perf_counter()
        figures["reads of 4 KiB per second under full writes"] = rate(reader.get)
        writes = (reader.generation - before) / (time.perf_counter() - begin)
        figures["writes per second meanwhile"] = writes
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        reader.close()
    return figures


def large_table(directory: Path) -> dict[str, float]:
    table = declaration("large")
    writer, reader = Writer.attach(directory, table), Reader.attach(directory, table)
    payload = os.urandom(16384)
    begin = time.perf_counter()
    for key in MANY:
        writer.put(key, payload)
    figures = {"2,500 entries of 16 KiB: first puts, ms": (time.perf_counter() - begin) * 1e3}
    begin = time.perf_counter()
    seen, _ = reader.changed_since(0)
    figures["2,500 entries: reader's first look, ms"] = (time.perf_counter() - begin) * 1e3
    figures["2,500 entries: changed_since, ms"] = best(lambda: reader.changed_since(seen)) * 1e3
    figures["2,500 entries: changed_since after put and delete, ms"] = (
        best(lambda: (writer.delete(MANY[7]), writer.put(MANY[7], b""), reader.changed_since(seen)))
        * 1e3
    )
    writer.close()
    begin = time.perf_counter()
    writer = Writer.attach(directory, table)
    figures["2,500 entries of 16 KiB: writer attaches, ms"] = (time.perf_counter() - begin) * 1e3
    figures["2,500 entries of 16 KiB: file, MiB"] = writer.size / (1 << 20)
    writer.close()
    reader.close()
    return figures


def board_and_recorder(directory: Path) -> dict[str, float]:
    row = RowWriter.create(directory / "row")
    ring = RecorderWriter.create(directory / "ring")
    figures = {
        "board: beat, us": 1e6 / rate(lambda _key: row.beat(1)),
        "board: begin + end, us": 1e6 / rate(lambda key: (row.begin("work", key), row.end())),
        "board: count, us": 1e6 / rate(lambda _key: row.count("things")),
        "board: read_row, us": 1e6 / rate(lambda _key: read_row(directory / "row")),
        "recorder: record, us": 1e6 / rate(lambda key: ring.record("hint", "changed", key)),
    }
    row.close()
    ring.close()
    return figures


def run() -> dict[str, float]:
    """Return every figure by name."""
    with tables() as directory:
        return small_table(directory) | large_table(directory) | board_and_recorder(directory)


def crash(rounds: int) -> dict[str, float]:
    """Kill that many writers under two readers; return what the processes counted."""
    path = ROOT / "tests" / "processes" / "test_shm_crash.py"
    spec = importlib.util.spec_from_file_location("shm_crash", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    begin = time.perf_counter()
    with tables() as directory:
        counts, seen = module.run_processes(directory, rounds)
    figures = {f"kills: {name}": float(number) for name, number in counts.items()}
    for name in ("reads", "values", "mixed", "went back", "lost"):
        figures[f"readers: {name}"] = float(sum(result[name] for result in seen))
    figures["readers: longest read, ms"] = max(result["longest"] for result in seen) * 1e3
    return figures | {"kills": float(rounds), "seconds": time.perf_counter() - begin}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crash", type=int, default=0, metavar="N", help="also kill N writers")
    arguments = parser.parse_args()
    figures = run()
    if arguments.crash:
        figures |= crash(arguments.crash)
    width = max(map(len, figures))
    for name, value in figures.items():
        shown = f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.2f}"
        print(f"{name:<{width}}  {shown:>12}")


if __name__ == "__main__":
    main()
