"""The frames: what is written can be read, and anything else is garbage, never an accident."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubelet.channels import wire
from kubelet.channels.errors import ErrorKind
from kubelet.channels.wire import Envelope, GarbageError, Hint, NumberedHint


def test_an_envelope_survives():
    """A request reads as it was written."""
    envelope = Envelope(1, wire.REQUEST, "ping", 2**63, 10**18, {"a": [1, "x", b"y", None]})
    assert wire.decode(wire.encode(envelope)) == envelope


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_an_error_survives(kind):
    """Each kind of error reads as it was written."""
    envelope = wire.decode(wire.encode_error("ping", 5, kind, "why"))
    assert (envelope.sort, envelope.name, envelope.id) == (wire.ERROR, "ping", 5)
    assert wire.decode_error(envelope.body) == (kind, "why")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"kind": "failed"},
        {"text": "x"},
        {"kind": [], "text": "x"},
        {"kind": "nonsense", "text": "x"},
        {"kind": "failed", "text": 1},
    ],
)
def test_an_error_without_its_fields_is_garbage(body):
    """An error's body is checked like any other."""
    with pytest.raises(GarbageError):
        wire.decode_error(body)


@pytest.mark.parametrize(
    ("fields", "id_"),
    [
        ([], None),
        ({}, None),
        ("text", None),
        ([1, "request", "ping", 7, 0], 7),
        ([1, "request", "ping", 7, 0, {}, 8], 7),
        ([1, "request", "ping", "7", 0, {}], None),
        ([1, "request", "ping", True, 0, {}], None),
        (["1", "request", "ping", 7, 0, {}], 7),
        ([1, "request", "ping", 7, 0.5, {}], 7),
        ([1, "order", "ping", 7, 0, {}], 7),
        ([1, [], "ping", 7, 0, {}], 7),
        ([1, "request", b"ping", 7, 0, {}], 7),
    ],
)
def test_a_wrong_envelope_is_garbage_with_its_id_if_there_is_one(fields, id_):
    """The id is kept where it can be, so that the sender can be told."""
    with pytest.raises(GarbageError) as caught:
        wire.decode(msgpack.packb(fields))
    assert caught.value.id == id_


def test_truncated_frames_are_garbage():
    """Every proper prefix of a frame is refused, and so is a frame with something after it."""
    frame = wire.encode(Envelope(1, wire.REQUEST, "profile", 5, 9, {"seconds": 1.5}))
    for size in range(len(frame)):
        with pytest.raises(GarbageError):
            wire.decode(frame[:size])
    with pytest.raises(GarbageError):
        wire.decode(frame + b"\0")


@pytest.mark.parametrize(
    "frame",
    [
        b"\x91" * 100_000,  # arrays in arrays
        b"\xdd\xff\xff\xff\xff",  # an array of four milliards
        b"\xc6\xff\xff\xff\xff",  # a blob of four gigabytes
        b"\x81\x90\x01",  # a map with a list for a key
        b"\xa2\xff\xfe",  # text that is not UTF-8
        b"\xc7\x01\x05a",  # an extension type
        b"\xc1",  # never used
    ],
)
def test_hostile_messagepack_is_garbage(frame):
    """Depth, announced sizes, odd keys and bad text are refused without cost."""
    with pytest.raises(GarbageError):
        wire.decode(frame)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_random_bytes_are_garbage(frame):
    """No bytes raise anything but GarbageError."""
    for read in (wire.decode, wire.decode_hint):
        try:
            read(frame)
        except GarbageError:
            continue


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")), st.text())
def test_a_hint_survives(table, key):
    """A hint reads as it was written, and starts with the topic of its table."""
    numbered = NumberedHint(Hint(table, key, 2**40), 17, 3)
    try:
        frame = wire.encode_hint(numbered)
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    assert frame.startswith(wire.topic(table))
    assert wire.decode_hint(frame) == numbered


def test_a_table_is_not_followed_by_its_prefix():
    """Who reads ``pod`` hears nothing of ``pods``."""
    frame = wire.encode_hint(NumberedHint(Hint("pods", "k", 1), 1, 1))
    assert not frame.startswith(wire.topic("pod"))


@pytest.mark.parametrize(
    "fields",
    [
        [1, "other", "k", 1, 1, 1],
        [2, "t", "k", 1, 1, 1],
        [1, "t", "k", "1", 1, 1],
        [1, "t", "k", 1, None, 1],
        [1, "t", "k", 1, 1, 1.0],
        [1, "t", 5, 1, 1, 1],
        [1, "t", "k", 1, 1],
    ],
)
def test_a_wrong_hint_is_garbage(fields):
    """Table, version, types and number of fields are checked."""
    with pytest.raises(GarbageError):
        wire.decode_hint(b"t\0" + msgpack.packb(fields))
    with pytest.raises(GarbageError):
        wire.decode_hint(msgpack.packb(fields))
