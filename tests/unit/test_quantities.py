"""Quantities are read, compared and printed as Kubernetes does."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet import quantities
from kubelet.quantities import Format, Quantity, parse

_SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_AMOUNTS = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**12),
    st.one_of(st.just(""), st.integers(0, 10**12).map(lambda n: f".{n}")),
    st.one_of(st.sampled_from(_SUFFIXES), st.integers(-20, 20).map(lambda n: f"e{n}")),
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("100m", "100m"),
        ("0.1", "100m"),
        ("1024Mi", "1Gi"),
        ("1000M", "1G"),
        ("1000Ki", "1000Ki"),
        ("1023", "1023"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        (".001Ki", "1024m"),
        (".000001Ki", "1024u"),
        (".000000001Ki", "1024n"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1e4", "10e3"),
        ("1e-3", "1e-3"),
        ("1e0", "1"),
        ("1E", "1E"),
        ("100E", "100E"),
        ("+1", "1"),
        ("-1Ki", "-1Ki"),
        ("1.", "1"),
        (".5", "500m"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("8Ei", "9223372036854775807"),
        ("9223372036854775807", "9223372036854775807"),
        ("512Ki", "512Ki"),
    ],
)
def test_canonical_form(text, canonical):
    """A quantity is printed in its canonical form."""
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "+",
        "-",
        "+.",
        "1.1.1",
        "1K",
        "1ki",
        "1kI",
        "1i",
        "1mi",
        "0.1am",
        "1e",
        "1E+",
        "1e-",
        "1e1e1",
        "1 ",
        " 1",
        "1\n",
        "1 Gi",
        "--1",
        "+-1",
        "1e1000",
        "1e99999999999",
        "1Gi1",
        "0x10",
        "\u0661",
        "1" * 2000,
        "inf",
        "nan",
        "1_000",
        "e3",
        "Ki",
    ],
)
def test_refused(text):
    """What is no quantity is refused."""
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1n", 1, 1),
        ("2Ki", 2048, 2_048_000),
        ("1u", 1, 1),
        ("0", 0, 0),
    ],
)
def test_whole_and_milli_values_round_away_from_zero(text, value, milli):
    """Who asks for a fraction gets the next whole unit."""
    assert (parse(text).value, parse(text).milli) == (value, milli)


@pytest.mark.parametrize(
    ("less", "more"), [("1", "2"), ("1023", "1Ki"), ("-1", "0"), ("999m", "1"), ("1M", "1Mi")]
)
def test_order(less, more):
    """Quantities compare by amount, whatever their notation."""
    assert parse(less) < parse(more)
    assert parse(more) > parse(less)


def test_equality_is_by_amount():
    """The notation does not make a difference."""
    assert parse("1Ki") == parse("1024") == parse("1024e0")
    assert hash(parse("1Ki")) == hash(parse("1024"))


def test_arithmetic():
    """Sums keep the notation of what is there, and zero takes the other's."""
    assert str(parse("1Gi") + parse("512Mi")) == "1536Mi"
    assert str(parse("1Gi") - parse("1Gi")) == "0"
    assert str(parse("0") + parse("1Ki")) == "1Ki"
    assert str(-parse("100m")) == "-100m"
    assert str(parse("100m") * 10) == "1"
    assert str(Quantity.of(4096, Format.BINARY)) == "4Ki"
    assert not parse("0")
    assert parse("1n")


@given(_AMOUNTS)
def test_round_trip(text):
    """The canonical form means the same, and is its own canonical form."""
    quantity = parse(text)
    again = parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(st.text())
def test_parse_never_crashes(text):
    """Any text gives a quantity or a ValueError."""
    with contextlib.suppress(ValueError):
        parse(text)


@given(st.text(alphabet="0123456789.eEKMGinumk+-", max_size=12))
def test_lookalikes_never_crash(text):
    """Texts that nearly are quantities give a quantity or a ValueError."""
    with contextlib.suppress(ValueError):
        assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(("value", "text"), [(1024, "1024"), (0.5, "500m"), ("1Ki", "1Ki")])
def test_json(value, text):
    """In a document a quantity may be a bare number."""
    assert str(quantities.from_json(value)) == text


@pytest.mark.parametrize("value", [None, True, [], {}, float("inf"), float("nan"), "x"])
def test_json_refuses(value):
    """Other types are refused."""
    with pytest.raises(ValueError):
        quantities.from_json(value)
