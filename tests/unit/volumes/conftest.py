"""Fixtures: a process to stand on, a root directory, and no mount left behind."""

from __future__ import annotations

import pytest

from procs.volumes.kit import Kit
from procs.volumes.layout import Layout
from procs.volumes.manager import Volumes
from procs.volumes.operations.runner import Operations
from tests.unit.volumes.standing import CLUSTER, Standing, unmount_below


@pytest.fixture
def layout(tmp_path):
    """The kubelet's root directory."""
    yield Layout(str(tmp_path / "kubelet"))
    unmount_below(tmp_path)


@pytest.fixture
def process(tmp_path):
    """A process with tables of its own."""
    directory = tmp_path / "tables"
    directory.mkdir()
    standing = Standing(directory)
    yield standing
    standing.close()


@pytest.fixture
def started(process, layout, tmp_path):
    """Start a volumes process of these settings; again, as its successor."""
    made = []

    def start(settings, **plugins):
        if made:
            process.restart()
        ops = Operations(str(tmp_path / "operations"))
        made.append(Volumes(Kit(process, layout, settings, ops, plugins)))
        made[-1].start()
        return made[-1]

    yield start
    for volumes in made:
        volumes.close()


@pytest.fixture
def cluster(started):
    """Start a volumes process of a node with an API server; again, as its successor."""
    return lambda **plugins: started(CLUSTER, **plugins)
