"""Durations are read and printed as Go reads and prints them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet import durations

_WORD = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5 * durations.SECOND),
        ("+5s", 5 * durations.SECOND),
        ("-1.5h", -90 * durations.MINUTE),
        (".5s", 500 * durations.MILLISECOND),
        ("5.s", 5 * durations.SECOND),
        ("1h15m30.918273645s", 4_530_918_273_645),
        ("12us", 12_000),
        ("12\u00b5s", 12_000),
        ("12\u03bcs", 12_000),
        ("1ns", 1),
        ("1m1m", 2 * durations.MINUTE),
        ("9223372036854775807ns", (1 << 63) - 1),
        ("-9223372036854775808ns", -(1 << 63)),
        ("0.3333333333333333333h", 20 * durations.MINUTE),
        ("9007199254.740993ms", 9_007_199_254_740_993),
        ("0.100000000000000000000h", 6 * durations.MINUTE),
    ],
)
def test_parse(text, nanoseconds):
    """A duration in any of Go's spellings has Go's number of nanoseconds."""
    assert durations.parse(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "-",
        "s",
        ".",
        "-.",
        ".s",
        "+.s",
        "1d",
        "1 s",
        " 1s",
        "1s ",
        "1e3s",
        "0x1s",
        "\u0661s",
        "9223372036854775808ns",
        "-9223372036854775809ns",
        "3000000h",
        "1" * 400 + "s",
        "1.1.1s",
    ],
)
def test_parse_refuses(text):
    """What Go refuses is refused."""
    with pytest.raises(ValueError):
        durations.parse(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (245 * durations.SECOND, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (8 * durations.MINUTE + 1, "8m0.000000001s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
        (-(1 << 63), "-2562047h47m16.854775808s"),
    ],
)
def test_render(nanoseconds, text):
    """A duration is printed in Go's form."""
    assert durations.render(nanoseconds) == text


@given(_WORD)
def test_round_trip(nanoseconds):
    """Every duration survives being printed and read again."""
    assert durations.parse(durations.render(nanoseconds)) == nanoseconds


@given(st.text())
def test_parse_never_crashes(text):
    """Any text gives a duration or a ValueError."""
    with contextlib.suppress(ValueError):
        assert -(1 << 63) <= durations.parse(text) < 1 << 63


@given(st.text(alphabet="0123456789.hmsnu\u00b5+-", max_size=12))
def test_parse_lookalikes_never_crash(text):
    """Texts that nearly are durations give a duration or a ValueError."""
    try:
        value = durations.parse(text)
    except ValueError:
        return
    assert durations.parse(durations.render(value)) == value


@pytest.mark.parametrize("value", [5, 5.0, None, True, ["5s"], {}])
def test_json_wants_a_string(value):
    """A duration in a document is a string."""
    with pytest.raises(ValueError):
        durations.from_json(value)


def test_json_and_seconds():
    """The JSON form and the seconds of a duration agree."""
    assert durations.from_json("1m30s") == 90 * durations.SECOND
    assert durations.seconds("1m30.5s") == 90.5
