"""Fixtures: a place for a driver, and the program that checks drivers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.tools.install import Skip, ensure


@pytest.fixture
def place():
    """A directory with a path short enough for sockets."""
    directory = Path(tempfile.mkdtemp(prefix="csi-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def sanity():
    """The published checker of drivers."""
    built = ensure("csi")
    if isinstance(built, Skip):
        pytest.skip(built.reason)
    return str(built / "csi-sanity")
