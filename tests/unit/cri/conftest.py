"""A short directory for sockets, and a runtime that answers on one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def sockets():
    directory = Path(tempfile.mkdtemp(prefix="cri-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)
