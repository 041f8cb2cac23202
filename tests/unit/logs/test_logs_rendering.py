"""What of a log is shown, and how (H-62)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet.logs import LogOptions, Stream, problems, since
from kubelet.logs.records import wall_ns
from kubelet.logs.rendering import HELD
from kubelet.logs.tail import find_tail
from tests.unit.logs.log_scene import line, shown, stamp, write

LOG = (
    line("one", 1),
    line("two", 2, "stderr"),
    line("long ", 3, tag="P"),
    line("line", 4),
    line("last", 5, "stderr"),
)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, b"one\ntwo\nlong line\nlast\n"),
        ({"tail": 0}, b""),
        ({"tail": 1}, b"last\n"),
        ({"tail": 2}, b"long line\nlast\n"),  # the parts of a line are one line
        ({"tail": 4}, b"one\ntwo\nlong line\nlast\n"),
        ({"tail": 99}, b"one\ntwo\nlong line\nlast\n"),
        ({"tail": 1, "stream": Stream.STDOUT}, b"long line\n"),
        ({"stream": Stream.STDERR}, b"two\nlast\n"),
        ({"since_ns": wall_ns(stamp(2).encode())}, b"two\nlong line\nlast\n"),
        ({"since_ns": wall_ns(stamp(2).encode()) + 1}, b"long line\nlast\n"),
        ({"since_ns": wall_ns(stamp(4).encode())}, b"last\n"),  # the first part of a line counts
        ({"since_ns": wall_ns(stamp(1).encode()), "tail": 1}, b"last\n"),
        ({"limit_bytes": 6}, b"one\ntw"),  # within a line
        ({"limit_bytes": 4, "tail": 2}, b"long"),
        ({"limit_bytes": 1000}, b"one\ntwo\nlong line\nlast\n"),
        (
            {"timestamps": True, "tail": 2},
            f"{stamp(3)} long line\n{stamp(5)} last\n".encode(),
        ),
        ({"timestamps": True, "limit_bytes": 8}, b"2026-01-"),
    ],
)
def test_options_choose(tmp_path: Path, options: dict, wanted: bytes):
    """Tail, since, limit, time stamps and stream, alone and together."""
    path = write(tmp_path / "0.log", *LOG)
    assert shown(path, **options) == wanted


def test_parts_of_a_line_are_put_together(tmp_path: Path):
    """What the other stream says in between comes after the line, in its order."""
    path = write(
        tmp_path / "0.log",
        line("a", tag="P"),
        line("x", stream="stderr"),
        line("y", stream="stderr", tag="P"),
        line("b"),
        line("c"),
        line("z", stream="stderr"),
    )
    assert shown(path) == b"ab\nx\nyz\nc\n"


def test_too_much_does_not_wait(tmp_path: Path):
    """A line without an end holds back a bounded part of the other stream."""
    many = [line("e" * 1000, stream="stderr") for _ in range(HELD // 500)]
    found = shown(write(tmp_path / "0.log", line("a", tag="P"), *many, line("b")))
    assert found.startswith(b"aeee")
    assert len(found) == len(b"ab\n") + 1001 * len(many)


def test_last_line_without_an_end_is_shown(tmp_path: Path):
    """The runtime may be writing it just now."""
    assert shown(write(tmp_path / "0.log", line("one"), line("tw")[:-1])) == b"one\ntw"
    assert shown(write(tmp_path / "1.log", line("one"), line("tw")[:-1]), tail=1) == b"tw"
    assert shown(write(tmp_path / "2.log", line("one"), line("tw", tag="P")), tail=1) == b"tw"
    assert shown(write(tmp_path / "3.log")) == b""


_KINDS = st.sampled_from(["F", "P", "broken", "stderr"])


@settings(deadline=None)
@given(st.lists(_KINDS, max_size=12), st.integers(0, 6), st.integers(1, 70))
def test_tail_is_found_in_blocks_of_any_size(kinds: list[str], wanted: int, block: int):
    """Where it begins does not depend on how the file is read."""
    made = {"broken": b"broken\n", "stderr": line("e", stream="stderr")}
    data = [made.get(kind) or line("t" * (at * 9), tag=kind) for at, kind in enumerate(kinds)]
    fd = os.memfd_create("log")
    try:
        os.write(fd, b"".join(data))
        assert find_tail(fd, wanted, None, block) == _naive(kinds, data, wanted)
    finally:
        os.close(fd)


def _naive(kinds: list[str], data: list[bytes], wanted: int) -> int:
    """Count line ends over the whole list, from the last."""
    sense = [at for at, kind in enumerate(kinds) if kind != "broken"]
    ends = [at for at in sense if kinds[at] != "P" or at == sense[-1]]
    if wanted == 0:
        return sum(map(len, data))
    if len(ends) <= wanted:
        return 0
    return sum(map(len, data[: ends[-wanted - 1] + 1]))


def test_options_that_make_no_sense_are_named():
    """Field, value, and what is allowed."""
    assert problems(LogOptions()) == []
    assert problems(LogOptions(tail=-1, limit_bytes=0)) == [
        "tailLines: Invalid value: -1: must be greater than or equal to 0",
        "limitBytes: Invalid value: 0: must be greater than 0",
    ]


def test_later_of_age_and_moment_counts():
    """As where both are given in a request."""
    second = 10**9
    assert since(10 * second) is None
    assert since(10 * second, 3) == 7 * second
    assert since(10 * second, 3, 8 * second) == 8 * second
    assert since(10 * second, 3, 2 * second) == 7 * second
