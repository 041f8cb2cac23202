"""The simulator's own tests use its fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .client import Client
from .fixtures import make_sim, sim, sim_directory
from .process import Sim

__all__ = ["make_sim", "sim", "sim_directory"]


@pytest.fixture
def connect() -> Iterator[Callable[[Sim], Client]]:
    """A maker of clients; each hangs up at the end."""
    made: list[Client] = []

    def make(one: Sim) -> Client:
        made.append(Client(one.endpoint))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def cri(sim: Sim, connect: Callable[[Sim], Client]) -> Client:
    """A client of a simulator that serves."""
    return connect(sim)
