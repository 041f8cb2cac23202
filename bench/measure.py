"""What the measurements share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must be."""

    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether the figure is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit

    @property
    def text(self) -> str:
        """The bar as it is written."""
        return f"{'>=' if self.at_least else '<='} {number(self.limit)}"


def number(value: float) -> str:
    """A figure with as many digits as are worth reading."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@contextmanager
def directory() -> Iterator[Path]:
    """A short one on a tmpfs, which processes without root get through."""
    made = Path(tempfile.mkdtemp(prefix="kb-", dir="/dev/shm"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def cpu_ns(pid: int) -> int:
    """CPU time of all threads: a process's own schedstat is its main thread's alone."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def percentile(values: list[float], share: float) -> float:
    """A value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
