"""Fixtures with a simulated runtime.

In a conftest: ``from tests.sim.fixtures import make_sim, sim, sim_directory``. Then ``sim`` is one
that serves; ``make_sim("--no-events", "--real-pids", keep=True)`` starts one more; ``keep`` gives
it a state file, so that ``sim.restart()`` finds everything again. All are ended; nothing is left.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .process import Sim

MakeSim = Callable[..., Sim]


@pytest.fixture
def sim_directory() -> Iterator[Path]:
    """A short directory on a tmpfs: socket addresses have room for 107 bytes."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="sim-", dir=base))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def make_sim(sim_directory: Path) -> Iterator[MakeSim]:
    """A maker of simulators, each started and ready."""
    made: list[Sim] = []

    def make(*arguments: str, keep: bool = False, start: bool = True) -> Sim:
        one = Sim(sim_directory, f"s{len(made)}")
        one.arguments = (*arguments, "--state", str(one.state)) if keep else arguments
        made.append(one)
        return one.start() if start else one

    yield make
    for one in made:
        one.end()
    left = [
        p.name for p in sim_directory.iterdir() if p.name.endswith((".sock", ".control", ".new"))
    ]
    assert not left, f"the simulators left {left}"


@pytest.fixture
def sim(make_sim: MakeSim) -> Sim:
    """A simulator that serves."""
    return make_sim()
