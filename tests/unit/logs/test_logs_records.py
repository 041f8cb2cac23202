"""Lines of log files: what they say, in whatever blocks they come (H-60)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.logs import records
from kubelet.logs.records import Decoder, Record, Stream, fixed, parse_line, wall_ns
from tests.unit.logs.log_scene import line, stamp

OUT, ERR = Stream.STDOUT, Stream.STDERR
DOCKER = b'{"log":"a \\u00e4\\n","stream":"stderr","time":"2026-01-02T03:04:05.1Z"}\n'


@pytest.mark.parametrize(
    ("given", "text", "stream"),
    [
        (line("hello"), b"hello\n", OUT),
        (line("hello", stream="stderr"), b"hello\n", ERR),
        (line("", tag="F"), b"\n", OUT),
        (line("  two  spaces "), b"  two  spaces \n", OUT),
        (line("half", tag="P"), b"half", OUT),
        (line("half", tag="P:x:y"), b"half", OUT),  # tags that are yet to come
        (line("whole", tag="F:x"), b"whole\n", OUT),
        (line("whole", tag="x"), b"whole\n", OUT),
        (line("cut off")[:-1], b"cut off", OUT),
        (b"2026-01-02T03:04:05+02:00 stdout F zone\n", b"zone\n", OUT),
        (line("\xff\x00").replace("\xff\x00".encode(), b"\xff\x00"), b"\xff\x00\n", OUT),
        (DOCKER, "a \u00e4\n".encode(), ERR),
        (DOCKER.replace(b"\\n", b""), "a \u00e4".encode(), ERR),  # its way of a part of a line
    ],
)
def test_lines_that_make_sense(given: bytes, text: bytes, stream: Stream):
    """Text, stream, and whether the line ends, of both forms (H-60)."""
    found = parse_line(given)
    assert found is not None
    assert (found.text, found.stream) == (text, stream)
    assert found.ends is text.endswith(b"\n")


@pytest.mark.parametrize(
    "given",
    [
        b"\n",
        b"hello\n",
        b"2026-01-02T03:04:05Z stdout F\n",
        b"2026-01-02T03:04:05Z stdin F x\n",
        b"2026-13-02T03:04:05Z stdout F x\n",
        b"2026-01-02 03:04:05Z stdout F x\n",
        b"2026-01-02T03:04:05 stdout F x\n",
        b"{\n",
        b"{}\n",
        b'{"log":1,"stream":"stdout","time":"2026-01-02T03:04:05Z"}\n',
        b'{"log":"x","stream":"stdout","time":"yesterday"}\n',
        b'{"log":"x","stream":"odd","time":"2026-01-02T03:04:05Z"}\n',
        b"[1]\n",
    ],
)
def test_lines_that_make_no_sense(given: bytes):
    """They are left out and counted, and the next one is read."""
    decoder = Decoder()
    assert [r.text for r in decoder.feed(given + line("next"))] == [b"next\n"]
    assert decoder.broken == 1


@given(st.lists(st.integers(min_value=1, max_value=90), max_size=40))
def test_blocks_do_not_matter(cuts: list[int]):
    """However the file is cut into blocks, the same records come out."""
    data = line("one") + b"broken\n" + line("two", tag="P") + DOCKER + line("three")[:-1]
    whole = Decoder()
    wanted = [*whole.feed(data), *whole.finish()]
    decoder, found, at = Decoder(), [], 0
    for cut in cuts:
        found += decoder.feed(data[at : at + cut])
        at += cut
    found += [*decoder.feed(data[at:]), *decoder.finish()]
    assert found == wanted
    assert decoder.broken == whole.broken == 1


@pytest.mark.parametrize(("tag", "end"), [("F", b"\n"), ("P", b"")])
def test_long_line_goes_on_in_parts(monkeypatch: pytest.MonkeyPatch, tag: str, end: bytes):
    """A line longer than what is held is passed on as it comes, and nothing of it is lost."""
    monkeypatch.setattr(records, "LONGEST", 300)
    data = line("x" * 5000 + "end", tag=tag) + line("next")
    decoder, found, held = Decoder(), [], 0
    for at in range(0, len(data), 100):
        found += decoder.feed(data[at : at + 100])
        held = max(held, decoder.pending)
    assert held <= 300
    assert b"".join(r.text for r in found) == b"x" * 5000 + b"end" + end + b"next\n"
    assert [r.ends for r in found if r.ends] == [True] * (2 if end else 1)


def test_long_line_that_makes_no_sense_is_one(monkeypatch: pytest.MonkeyPatch):
    """It is counted once and not held."""
    monkeypatch.setattr(records, "LONGEST", 300)
    decoder = Decoder()
    found = []
    for block in (b"y" * 400, b"y" * 400, b"y\n" + line("next")):
        found += decoder.feed(block)
    assert found == [Record(stamp().encode(), OUT, b"next\n")]
    assert decoder.broken == 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000000Z"),
        ("2026-01-02T03:04:05.12Z", "2026-01-02T03:04:05.120000000Z"),
        ("2026-01-02T03:04:05.1234567891Z", "2026-01-02T03:04:05.123456789Z"),
        ("2026-01-02T03:04:05.5+02:00", "2026-01-02T03:04:05.500000000+02:00"),
        ("2026-01-02T03:04:05.5+00:00", "2026-01-02T03:04:05.500000000Z"),
    ],
)
def test_stamps_have_one_width(given: str, wanted: str):
    """Nine digits, in the zone that the runtime wrote (H-62)."""
    assert fixed(given.encode()).decode() == wanted


def test_stamps_are_moments_to_the_nanosecond():
    """Zones count, and no digit is lost."""
    assert wall_ns(b"1970-01-01T00:00:01.000000001Z") == 1_000_000_001
    assert wall_ns(b"1970-01-01T02:00:01+02:00") == 1_000_000_000
    with pytest.raises(ValueError, match="'now' is no time such as"):
        wall_ns(b"now")
