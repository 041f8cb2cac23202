"""Fixtures: a short place, a driver in it, and no mount left behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.csi.process import CsiDriverProcess
from tests.unit.csi_volumes.scene import story
from tests.unit.volumes.standing import unmount_below


@pytest.fixture
def place():
    """A directory with a path short enough for sockets."""
    directory = Path(tempfile.mkdtemp(prefix="csiv-", dir="/tmp"))
    yield directory
    unmount_below(directory)
    shutil.rmtree(directory)


@pytest.fixture
def play(place):
    """Run a story with a driver that has these flags."""

    def run(act, *flags):
        directory = place / "driver"
        directory.mkdir(exist_ok=True)
        with CsiDriverProcess(directory, "--create-unknown", *flags) as driver:
            return story(place / "root", driver, act)

    return run
