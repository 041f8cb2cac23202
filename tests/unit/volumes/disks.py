"""Real devices for tests: files behind loop devices, given back at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

SIZE = 16 << 20


def run(*argv):
    """Run a program; what it says."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _can_loop() -> bool:
    if os.geteuid() != 0 or shutil.which("losetup") is None or shutil.which("mkfs.ext4") is None:
        return False
    return subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode == 0


needs_loops = pytest.mark.skipif(
    not _can_loop(), reason="needs root, losetup, mkfs.ext4 and a free loop device"
)


@contextmanager
def disk(path):
    """A device with nothing on it."""
    with open(path, "wb") as file:
        file.truncate(SIZE)
    device = run("losetup", "-f", "--show", str(path))
    try:
        yield device
    finally:
        run("losetup", "-d", device)
