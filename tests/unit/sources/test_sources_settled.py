"""Files are read whole or not at all, whoever writes them."""

from __future__ import annotations

import os
import threading
import time

import pytest

from procs.syncloop.sources import settled
from procs.syncloop.sources.settled import BusyError, RefusedError
from tests.unit.sources.sources_scene import writing


def test_what_is_read_is_whole_whatever_a_writer_does(tmp_path):
    """Read again and again while it is written over in pieces: never a part of a version."""
    path = tmp_path / "file"
    path.write_bytes(b"0" * 4096)
    done = threading.Event()

    def write():
        for n in range(4000):
            with writing(path) as file:
                file.writelines([b"%d" % (n % 10) * 1024] * 4)
            if n >= 400:
                if whole:
                    break
                time.sleep(0.001)  # the reader had no chance so far
        done.set()

    whole = 0
    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        try:
            data = settled.read(str(path), closed=False).data
        except BusyError:
            continue
        whole += 1
        assert len(data) == 4096
        assert len(set(data)) == 1
    writer.join()
    assert whole


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_without_a_lease_a_file_must_be_quiet(tmp_path, monkeypatch):
    """Of a file of another user only one that rests, or was seen closed, is read."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    os.chmod(path, 0o644)
    os.chmod(tmp_path, 0o711)
    monkeypatch.chdir(tmp_path)  # what is above may be closed to others
    changed = os.stat(path).st_mtime_ns
    os.seteuid(65534)
    try:
        with pytest.raises(BusyError) as caught:
            settled.read("file", closed=False, wall=lambda: changed + 10**8)
        assert caught.value.again == 1.0
        assert settled.read("file", closed=True).data == b"x"
        assert settled.read("file", closed=False, wall=lambda: changed + 2 * 10**9).data == b"x"
    finally:
        os.seteuid(0)


def test_what_is_no_file_is_refused(tmp_path):
    """A directory or a device is never opened."""
    with pytest.raises(RefusedError, match="is not a regular file"):
        settled.read(str(tmp_path), closed=False)
    with pytest.raises(FileNotFoundError):
        settled.read(str(tmp_path / "gone"), closed=False)
