"""What the tests of shared memory have in common."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from shm.tables import Declaration


@pytest.fixture
def declaration():
    """Return a table of no process in particular."""
    return Declaration("example", "pleg", ("api",), "pod uid", "whatever is tested", 1, 64 << 20)


@pytest.fixture
def tables():
    """Yield a directory on tmpfs, as tables have in production."""
    directory = Path(tempfile.mkdtemp(prefix="kubelet-shm-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)
