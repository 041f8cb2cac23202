"""A run directory short enough for socket names, removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from supervisor.kinds import NAMES


@pytest.fixture
def run_dir():
    directory = Path(tempfile.mkdtemp(prefix="ch-", dir="/dev/shm"))
    for kind in NAMES:
        (directory / "channels" / kind).mkdir(parents=True)
    yield directory
    shutil.rmtree(directory)
