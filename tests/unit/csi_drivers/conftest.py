"""Fixtures: a short directory for sockets, and the published mock driver."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.csi.process import MockDriver
from tests.tools.install import Skip


@pytest.fixture
def place():
    """A directory with a path short enough for sockets."""
    directory = Path(tempfile.mkdtemp(prefix="csi-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def mock(place):
    """The published driver that mounts nothing, running."""
    program = MockDriver.program()
    if isinstance(program, Skip):
        pytest.skip(program.reason)
    with MockDriver(place, "-attach-limit", "7") as driver:
        yield driver
