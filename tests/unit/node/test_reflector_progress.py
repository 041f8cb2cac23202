"""What follows from how a list or a watch ended, and how long that takes; by table."""

from __future__ import annotations

import random

import pytest

from procs.node.apiserver import progress as step
from procs.node.apiserver.backoff import Backoff
from procs.node.apiserver.frames import bad_frame
from procs.node.apiserver.progress import Progress
from procs.node.apiserver.types import ApiError

EXPIRED = ApiError("too old", status=410, reason="Expired")
EXPIRED_BY_REASON = ApiError("too old", status=500, reason="Expired")
LARGE = ApiError(
    "Timeout", status=504, details={"causes": [{"reason": "ResourceVersionTooLarge"}, 7]}
)
LARGE_BY_TEXT = ApiError("Timeout: Too large resource version: 9, current: 3", status=504)
GARBAGE = bad_frame("garbage")
GONE_AWAY = ApiError("no", status=0)
FORBIDDEN = ApiError("no", status=403)


@pytest.mark.parametrize(
    ("before", "errors", "list_from"),
    [
        (Progress("7", None), [EXPIRED], "7"),
        (Progress("7", None), [EXPIRED_BY_REASON], "7"),
        (Progress("", "0"), [EXPIRED], ""),  # the server's own state is of no use
        (Progress("7", None), [EXPIRED, EXPIRED], ""),
        (Progress("7", None), [LARGE], "7"),
        (Progress("7", None), [LARGE_BY_TEXT, LARGE], ""),
        (Progress("7", "7"), [LARGE, LARGE, LARGE], ""),
        (Progress("7", None), [GARBAGE], None),  # resumed
        (Progress("7", None), [GARBAGE, GARBAGE], "7"),
        (Progress("7", None), [GONE_AWAY, FORBIDDEN, GONE_AWAY], None),
        (Progress("", "0"), [GONE_AWAY], "0"),
        (Progress("7", None), [ApiError("no", status=404)], "7"),
        (Progress("7", None), [ApiError("bad version", status=400)], "7"),
        (Progress("7", None), [ApiError("Timeout", status=504, details={"causes": 3})], None),
    ],
)
def test_where_to_go_on(before, errors, list_from):
    """A version that is of no use is not asked for again and again."""
    for error in errors:
        before = step.failed(before, error)
    assert before.list_from == list_from


def test_what_a_watch_brings_wipes_the_slate():
    """After an event or a bookmark, a version that is too old is the first again."""
    found = step.failed(Progress("7", None), EXPIRED)
    found = step.heard(step.listed(found, "9"), "10")
    assert found == Progress("10", None)
    assert step.failed(found, EXPIRED).list_from == "10"


def test_a_list_alone_does_not():
    """A list that gives a version which is too old to watch from must not be had twice."""
    found = step.failed(Progress("7", None), EXPIRED)
    found = step.failed(step.listed(found, "7"), EXPIRED)
    assert found.list_from == ""


class Half(random.Random):
    """Chance that takes nothing off."""

    def random(self):
        return 0.0


@pytest.mark.parametrize(
    ("lives", "unreachable", "waits"),
    [
        ([0] * 9, False, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]),
        ([0] * 8, True, [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]),
        ([20, 0, 0], False, [0.0, 0.2, 0.4]),  # it had worked: at once
        ([0, 0, 0, 61, 0, 0], False, [0.2, 0.4, 0.8, 0.0, 0.2, 0.4]),
        ([0, 0, 20, 20], False, [0.2, 0.4, 0.8, 1.6]),  # not yet well again
    ],
)
def test_waits(lives, unreachable, waits):
    """Waits double to their limit, and begin anew after a healthy minute."""
    backoff = Backoff(Half())
    found = [backoff.failed(lived, unreachable=unreachable) for lived in lives]
    assert found == pytest.approx(waits)


def test_waits_are_spread_and_never_shorter_than_asked_for():
    """Two nodes do not come back in step; Retry-After is kept, even where we would try at once."""
    one, two = Backoff(random.Random(1)), Backoff(random.Random(2))
    pairs = [(one.failed(0), two.failed(0)) for _ in range(10)]
    assert all(a != b for a, b in pairs)
    assert all(0.1 <= a <= 30 for a, _ in pairs)
    assert Backoff(random.Random(1)).failed(100, least=7) == 7
    assert Backoff(random.Random(1)).failed(0, least=7) == 7


def test_a_well_ended_minute_forgets():
    """Ends that were no failure count for the minute too."""
    backoff = Backoff(Half())
    backoff.failed(0)
    backoff.failed(0)
    backoff.healthy(59)
    assert backoff.failed(0) == pytest.approx(0.8)
    backoff.healthy(61)
    assert backoff.failed(0) == pytest.approx(0.2)
