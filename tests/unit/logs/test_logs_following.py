"""Following a log while it is written and rotated, with a real writer (H-61)."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from kubelet import inotify
from kubelet.inotify import Inotify
from kubelet.logs import LogError, LogOptions, LogReader, NoLogError, follow, read, stream
from tests.unit.logs.log_scene import Runtime, joined, line, shown, write

SOON = 0.02  # seconds between two questions whether the container has ended
LIMIT = 30.0  # by when each of these tests is over, however busy the machine


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """A runtime that writes a log."""
    made = Runtime(tmp_path / "0.log")
    yield made
    made.close()


def rotate(runtime: Runtime, stamp: str) -> Path:
    """Move the log away and have it opened anew, as the rotation does."""
    target = runtime.path.with_name(f"0.log.{stamp}")
    os.rename(runtime.path, target)
    runtime.write(line(f"to {stamp} at the last moment"))
    runtime.open()
    return target


class Reading:
    """A reader in a thread; the test waits for what it has seen."""

    def __init__(self, path: Path, **options) -> None:
        self.seen = b""
        self.ended = threading.Event()
        self._changed = threading.Condition()
        self._reader = LogReader(str(path), LogOptions(**options))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._reader as reader:
            for pieces in follow(reader, self.ended.is_set, SOON):
                with self._changed:
                    self.seen += joined([pieces])
                    self._changed.notify_all()

    def until(self, text: bytes) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.seen, LIMIT), self.seen

    def finish(self) -> bytes:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self.seen


def test_follow_over_rotations_until_the_end(runtime: Runtime):
    """Every line is seen once, in order, and the reader ends with the container."""
    runtime.write(line("zero") + line("one"))
    reading = Reading(runtime.path, tail=1)
    reading.until(b"one\n")
    runtime.write(line("two"))
    reading.until(b"two\n")
    rotate(runtime, "20260102-030405")
    runtime.write(line("three"))
    reading.until(b"three\n")
    rotate(runtime, "20260102-030406")
    runtime.write(line("four") + line("fi", tag="P"))
    reading.until(b"fi")  # the beginning of a line is shown when nothing else is there
    runtime.write(line("ve"))
    reading.ended.set()
    assert reading.finish() == (
        b"one\ntwo\nto 20260102-030405 at the last moment\nthree\n"
        b"to 20260102-030406 at the last moment\nfour\nfive\n"
    )


def test_a_busy_writer_loses_nothing(runtime: Runtime):
    """Many lines with rotations among them, written as fast as it goes."""
    number = 4000
    reading = Reading(runtime.path)

    def work() -> None:
        for at in range(number):
            runtime.write(line(str(at)))
            if at % 1000 == 999:
                os.rename(runtime.path, runtime.path.with_name(f"0.log.20260102-03{at:04d}"))
                runtime.open()
        reading.ended.set()

    writer = threading.Thread(target=work)
    writer.start()
    writer.join(LIMIT)
    assert reading.finish().split() == [str(at).encode() for at in range(number)]


def test_reader_that_was_busy_finds_what_was_moved_away(runtime: Runtime):
    """The rest of the file it has open, the part after that, then the current one."""
    runtime.write(line("one"))
    with LogReader(str(runtime.path), LogOptions()) as reader:
        coming = follow(reader, lambda: True, SOON)
        runtime.write(line("two"))
        found = joined([next(coming)])
        first = rotate(runtime, "20260102-030405")
        runtime.write(line("three"))
        rotate(runtime, "20260102-030406")
        first.with_name(f"{first.name}.gz").write_bytes(gzip.compress(first.read_bytes()))
        first.unlink()
        runtime.write(line("four"))
        found += joined(coming)
    assert found.split(b"\n") == [
        b"one",
        b"two",
        b"to 20260102-030405 at the last moment",
        b"three",
        b"to 20260102-030406 at the last moment",
        b"four",
        b"",
    ]


def test_log_that_is_cut_begins_anew(runtime: Runtime):
    """As some rotate by copying."""
    runtime.write(line("one of some length"))
    reading = Reading(runtime.path)
    reading.until(b"length\n")
    os.truncate(runtime.path, 0)
    runtime.write(line("two"))
    reading.until(b"two\n")
    reading.ended.set()
    assert reading.finish() == b"one of some length\ntwo\n"


def test_limit_ends_following(runtime: Runtime):
    """No matter whether the container runs on."""
    runtime.write(line("one"))
    reading = Reading(runtime.path, limit_bytes=6)
    reading.until(b"one\n")
    runtime.write(line("two"))
    assert reading.finish() == b"one\ntw"


def test_log_that_comes_later_is_followed_from_its_beginning(tmp_path: Path):
    """All of it is new, whatever tail was asked for."""
    path = tmp_path / "0.log"
    asked = []

    def ended() -> bool:
        asked.append(path.exists())
        if len(asked) == 2:
            write(path, line("one"))
        return len(asked) == 2

    with LogReader(str(path), LogOptions(tail=0)) as reader:
        assert joined(follow(reader, ended, SOON)) == b"one\n"
    assert asked == [False, False]
    with LogReader(str(path), LogOptions(tail=0)) as reader:
        assert joined(follow(reader, lambda: True, SOON)) == b""


def test_log_that_is_just_being_moved_away_is_read(runtime: Runtime):
    """Until the new file is there, the one that was moved away is the log."""
    runtime.write(line("one"))
    os.rename(runtime.path, runtime.path.with_name("0.log.20260102-030405"))
    assert shown(runtime.path) == b"one\n"


def test_link_to_a_log_is_followed_where_it_leads(tmp_path: Path, runtime: Runtime):
    """The directory of the file itself is watched, not that of the link (P-154)."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "pod_ns_c-1.log"
    link.symlink_to(runtime.path)
    reading = Reading(link)
    runtime.write(line("one"))
    reading.until(b"one\n")
    reading.ended.set()
    assert reading.finish() == b"one\n"


def test_what_is_no_log_is_said(tmp_path: Path):
    """A missing file, a missing directory, and what is no file at all."""
    with (
        LogReader(str(tmp_path / "0.log"), LogOptions()) as reader,
        pytest.raises(NoLogError, match=r"failed to open log file .*/0.log: there is no such file"),
    ):
        list(read(reader))
    with (
        LogReader(str(tmp_path / "no" / "0.log"), LogOptions()) as reader,
        pytest.raises(LogError, match="failed to watch log directory"),
    ):
        list(follow(reader, lambda: True))
    os.mkfifo(tmp_path / "1.log")
    with (
        LogReader(str(tmp_path / "1.log"), LogOptions()) as reader,
        pytest.raises(LogError, match="it is no plain file"),
    ):
        list(read(reader))


def test_broken_lines_are_counted(tmp_path: Path):
    """They are left out; the rest is shown."""
    path = write(tmp_path / "0.log", b"odd\n", line("one"), b"odd\n")
    with LogReader(path, LogOptions()) as reader:
        assert joined(read(reader)) == b"one\n"
        assert reader.broken == 2


# --- on an event loop ---


def test_stream_without_an_end_question_reads_once(tmp_path: Path):
    """The same as reading, without blocking the loop."""
    path = write(tmp_path / "0.log", line("one"), line("two"), line("th")[:-1])

    async def main() -> bytes:
        with LogReader(path, LogOptions(tail=2)) as reader:
            async with aclosing(stream(reader)) as coming:
                return joined([pieces async for pieces in coming])

    assert asyncio.run(main()) == b"two\nth"


def test_stream_follows_over_a_rotation(runtime: Runtime):
    """Each step waits for what the one before has brought; a nudge ends it at once."""

    async def main() -> bytes:
        seen, over, nudge = b"", False, asyncio.Event()
        runtime.write(line("one"))
        with LogReader(str(runtime.path), LogOptions()) as reader:
            async with (
                asyncio.timeout(LIMIT),
                aclosing(stream(reader, lambda: over, nudge, recheck=LIMIT)) as coming,
            ):
                async for pieces in coming:
                    seen += joined([pieces])
                    if seen.endswith(b"one\n"):
                        rotate(runtime, "20260102-030405")
                        runtime.write(line("two"))
                    elif seen.endswith(b"two\n") and not over:
                        over = True
                        nudge.set()
        return seen

    assert asyncio.run(main()) == b"one\nto 20260102-030405 at the last moment\ntwo\n"


def test_stream_that_nobody_wants_any_more_ends(runtime: Runtime):
    """Cancelled while it waits, it leaves no descriptor behind."""

    async def main() -> None:
        seen = asyncio.Event()

        async def consume() -> None:
            with LogReader(str(runtime.path), LogOptions()) as reader:
                async with aclosing(stream(reader, lambda: False)) as coming:
                    async for _pieces in coming:
                        seen.set()

        runtime.write(line("one"))
        task = asyncio.create_task(consume())
        async with asyncio.timeout(LIMIT):
            await seen.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) == before


# --- the kernel's word ---


def test_inotify_tells_what_happens_in_a_directory(tmp_path: Path):
    """Names come with what happened, in order; waiting ends with it, or with its time."""
    with Inotify() as watch:
        number = watch.add(str(tmp_path), inotify.CREATE | inotify.MOVED_TO | inotify.DELETE)
        assert not watch.wait(0)
        assert watch.read() == []
        (tmp_path / "a").touch()
        os.rename(tmp_path / "a", tmp_path / "b")
        (tmp_path / "b").unlink()
        assert watch.wait(LIMIT)
        found = [(one.watch, one.mask, one.name) for one in watch.read()]
        assert found == [
            (number, inotify.CREATE, "a"),
            (number, inotify.MOVED_TO, "b"),
            (number, inotify.DELETE, "b"),
        ]
        watch.remove(number)
        (tmp_path / "c").touch()
        assert [one.mask for one in watch.read()] == [inotify.IGNORED]
        with pytest.raises(OSError, match="inotify_add_watch: No such file"):
            watch.add(str(tmp_path / "none"), inotify.CREATE)
