"""Payloads: plain values go through, everything else is an error that says so."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shm import codec
from shm.codec import DecodeError, EncodeError, pack, unpack

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_survive(value):
    """What is packed is what is unpacked."""
    assert unpack(pack(value)) == value


@given(st.binary(max_size=200))
def test_noise_is_a_value_or_a_decode_error(data):
    """No bytes lead to any other exception."""
    try:
        unpack(data)
    except DecodeError as err:
        assert str(len(data)) in str(err)  # noqa: PT017 - either way is right


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "incomplete"),
        (b"\xc1", "FormatError"),
        (b"\x01\x02", "extra data"),
        (b"\xa2\xff\xff", "utf-8"),
        (b"\x91" * 5000, "StackError"),
        (b"\xdd\xff\xff\xff\xff", "max_array_len"),
        (b"\xdf\xff\xff\xff\xff", "max_map_len"),
        (b"\x81\x01\x02", "int is not allowed for map key"),
        (msgpack.packb(msgpack.ExtType(5, b"")), "extension type 5"),
        (msgpack.packb(msgpack.ExtType(5, b"abc")), "max_ext_len"),
        (msgpack.packb(msgpack.Timestamp(1, 2)), "max_ext_len"),
    ],
)
def test_what_is_not_a_plain_value_is_named(data, said):
    """Truncated, oversized, nested without end, foreign types: each is told apart."""
    with pytest.raises(DecodeError, match=said):
        unpack(data)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1 << 64, "\ud800", 1j])
def test_what_cannot_be_stored_is_refused(value):
    """Values without a plain form are an error of the writer, not of its readers."""
    with pytest.raises(EncodeError, match="cannot be encoded"):
        pack({"spec": [value]})


def test_a_value_that_contains_itself_is_refused():
    """Endless values end."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(EncodeError, match="recursion"):
        pack(value)


def test_size_limits(monkeypatch):
    """What is larger than allowed is neither written nor read."""
    monkeypatch.setattr(codec, "MAX_BYTES", 100)
    assert unpack(pack("x" * 90)) == "x" * 90
    with pytest.raises(EncodeError, match="allowed are 100"):
        pack("x" * 101)
    with pytest.raises(DecodeError, match="allowed are 100"):
        unpack(bytes(101))
