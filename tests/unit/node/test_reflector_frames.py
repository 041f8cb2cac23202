"""Cutting a watch into its frames."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procs.node.apiserver.frames import BAD_FRAME, Frames
from procs.node.apiserver.types import ApiError

OBJECTS = [{"type": "ADDED", "object": {"n": n, "s": "é\n" * n}} for n in range(4)]
STREAM = b"".join(json.dumps(o, ensure_ascii=False).encode() + b"\n" for o in OBJECTS)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_cuts_do_not_matter(cuts):
    """The objects are the same wherever the bytes were cut, within a character too."""
    frames = Frames()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [o for a, b in itertools.pairwise(edges) for o in frames.feed(STREAM[a:b])]
    assert found == OBJECTS
    assert frames.pending == 0


def test_half_a_frame_is_pending():
    """What has no end yet is kept, and not given out."""
    frames = Frames()
    assert list(frames.feed(STREAM + b'{"a":')) == OBJECTS
    assert frames.pending == 5
    assert list(frames.feed(b"1}\n")) == [{"a": 1}]


def test_empty_lines_are_nothing():
    """A server may send empty lines to keep a connection alive."""
    assert list(Frames().feed(b'\n\r\n  \n{"a":1}\r\n\n')) == [{"a": 1}]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"<html>\n", "the watch sent 6 bytes that are not JSON"),
        (b'{"a":\n', "the watch sent 5 bytes that are not JSON"),
        (b"\xff\xfe\n", "the watch sent 2 bytes that are not JSON"),
        (b"[" * 5000 + b"\n", "the watch sent 5000 bytes that are not JSON"),
        (b"[1]\n", "the watch sent a list where an object belongs"),
        (b"null\n", "the watch sent a NoneType where an object belongs"),
    ],
)
def test_garbage_is_an_error_after_what_was_good(bad, said):
    """What came before garbage is given out first."""
    found = Frames().feed(STREAM + bad + STREAM)
    assert [next(found) for _ in OBJECTS] == OBJECTS
    with pytest.raises(ApiError, match=said) as error:
        next(found)
    assert error.value.reason == BAD_FRAME


def test_a_frame_has_a_limit():
    """A frame without an end does not fill the memory."""
    frames = Frames(limit=1000)
    for _ in range(10):
        assert list(frames.feed(b"x" * 100)) == []
    with pytest.raises(ApiError, match="more than 1000 bytes"):
        list(frames.feed(b"x"))
