"""The typed side of messages: what fits, what does not, and what is said about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubelet.channels.schema import MismatchError, as_map, decode


class Colour(enum.Enum):
    RED = "red"
    BLUE = 7


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Outer:
    text: str
    number: int
    ratio: float
    flag: bool
    maybe: str | None
    choice: Literal["a", "b", 3]
    colour: Colour
    inners: tuple[Inner, ...]
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if self.number < 0:
            raise ValueError(f"number is {self.number}, allowed is 0 and more")


def good() -> dict:
    return {
        "text": "t",
        "number": 1,
        "ratio": 0.5,
        "flag": True,
        "maybe": None,
        "choice": "a",
        "colour": "red",
        "inners": [{"name": "n", "data": b"\0"}],
        "counts": {"x": 1},
    }


def test_a_value_survives_the_wire():
    """What is encoded with ``as_map`` decodes to an equal value."""
    value = Outer("t", 1, 0.5, True, "m", 3, Colour.BLUE, (Inner("n", b"\xff"),), {"x": 1})
    assert decode(Outer, msgpack.unpackb(msgpack.packb(value, default=as_map))) == value


def test_defaults_may_be_left_out_and_an_integer_is_a_float():
    """A missing field with a default is filled in, and 1 is accepted for 1.0."""
    body = good() | {"ratio": 2}
    del body["counts"]
    value = decode(Outer, body)
    assert value.counts == {}
    assert type(value.ratio) is float


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"text": 1}, "Outer.text is 1, not str"),
        ({"text": b"t"}, "Outer.text is b't', not str"),
        ({"number": True}, "Outer.number is True, not int"),
        ({"number": 1.0}, "Outer.number is 1.0, not int"),
        ({"number": -1}, "Outer: number is -1, allowed is 0 and more"),
        ({"ratio": "x"}, "Outer.ratio is 'x', not float"),
        ({"flag": 1}, "Outer.flag is 1, not bool"),
        ({"maybe": 5}, "Outer.maybe is 5, not str and Outer.maybe is 5, not nil"),
        ({"choice": "c"}, "Outer.choice is 'c', not one of 'a', 'b', 3"),
        ({"choice": True}, "Outer.choice is True, not one of 'a', 'b', 3"),
        ({"colour": "green"}, "Outer.colour is 'green', not one of 'red', 7"),
        ({"colour": []}, "Outer.colour is a list, not one of 'red', 7"),
        ({"inners": {}}, "Outer.inners is a dict, not a list"),
        ({"inners": [{"name": "n"}, 5]}, "Outer.inners[1] is 5, not a map"),
        ({"inners": [{}]}, "Outer.inners[0].name is missing"),
        ({"counts": {"x": "y"}}, "Outer.counts['x'] is 'y', not int"),
        ({"counts": {b"x": 1}}, "Outer.counts is a dict, not a map with text keys"),
        ({"more": 1}, "Outer has no field 'more'"),
    ],
)
def test_what_does_not_fit_is_named(change, says):
    """The error names the field, the value and what is wanted."""
    with pytest.raises(MismatchError) as caught:
        decode(Outer, good() | change)
    assert caught.value.problems == [says]


def test_all_problems_are_told_at_once():
    """Three mistakes make three sentences."""
    body = good() | {"text": 1, "extra": 2}
    del body["number"]
    with pytest.raises(MismatchError) as caught:
        decode(Outer, body)
    assert len(caught.value.problems) == 3


def test_a_long_value_is_cut():
    """An error does not repeat a megabyte."""
    with pytest.raises(MismatchError) as caught:
        decode(Outer, good() | {"number": "x" * 1_000_000})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("body", [None, 1, "x", [], [1, 2]])
def test_a_body_must_be_a_map(body):
    """Anything but a map is refused."""
    with pytest.raises(MismatchError, match="not a map"):
        decode(Outer, body)


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
anything = st.recursive(
    plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*good(), "more"]), anything))
def test_whatever_comes_is_a_value_or_a_mismatch(body):
    """No decoded map raises anything but MismatchError."""
    try:
        assert isinstance(decode(Outer, good() | body), Outer)
    except MismatchError:
        return


def test_a_type_that_no_message_may_hold_is_a_mistake_of_ours():
    """An unsupported annotation is found when the type is first used."""

    @dataclass
    class Odd:
        things: set

    with pytest.raises((TypeError, NameError)):
        decode(Odd, {"things": 1})
    with pytest.raises(TypeError, match="cannot go over a channel"):
        as_map(object())
