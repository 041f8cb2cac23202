"""A short directory for sockets."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def sockets():
    directory = Path(tempfile.mkdtemp(prefix="img-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)
