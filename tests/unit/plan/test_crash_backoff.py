"""How long what failed waits (P-90..P-93, T-8, T-9), on an invented clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.api.container import ResourceRequirements
from kubelet.config.loader import load
from kubelet.pods.rows import Backoff
from procs.syncloop.runtime import backoff
from procs.syncloop.runtime.backoff import MAX_NS, RESET_NS
from tests.unit.plan.made import SECOND, changed, con, pod

T0 = 1_000_000 * SECOND


def lives(runs, limit_ns=MAX_NS):
    """Let a container run for these seconds, again and again; return the seconds it waited."""
    entry, now, waits = None, T0, []
    for seconds in runs:
        now += seconds * SECOND
        wait = backoff.in_backoff(entry, now, now)
        waits.append(wait // SECOND)
        ended, now = now, now + wait
        assert backoff.in_backoff(entry, ended, now) == 0
        entry = backoff.crashed(entry, ended, limit_ns, now_ns=now)
    return waits


def test_the_first_restart_is_at_once_and_then_delays_double():
    """0, 10, 20, ... 300 s (P-90)."""
    assert lives([1] * 9) == [0, 10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize(("seconds", "expected"), [(600, 40), (601, 0)])
def test_a_long_life_wipes_the_slate(seconds, expected):
    """After 600 s, whatever the longest delay is (P-90)."""
    assert lives([1, 1, 1, seconds]) == [0, 10, 20, expected]
    assert lives([1, 1, 1, 601, 1])[-1] == 10


def test_waiting_is_no_quiet():
    """A container that runs 400 s each time never gets out of it."""
    assert lives([400] * 9)[-1] == 300


@pytest.mark.parametrize(("limit", "expected"), [(1, [0, 1, 1, 1]), (15, [0, 10, 15, 15])])
def test_the_longest_delay_can_be_set(limit, expected):
    """It limits the first delay as well (P-90)."""
    assert lives([1] * 4, limit * SECOND) == expected


def test_without_a_clock_the_restart_counts_as_made_when_it_could_be():
    """So the wait before it is no quiet."""
    entry = Backoff(300 * SECOND, T0)
    assert backoff.crashed(entry, T0 + 400 * SECOND).last_ns == T0 + 700 * SECOND
    assert backoff.crashed(None, T0) == Backoff(10 * SECOND, T0, T0 + 10 * SECOND)


def test_an_end_at_an_unknown_moment_counts_from_the_last_start():
    """What vanishes each time is slowed down, too."""
    entry = Backoff(20 * SECOND, T0)
    assert backoff.in_backoff(entry, 0, T0 + 5 * SECOND) == 15 * SECOND
    assert backoff.in_backoff(None, 0, T0) == 0


@given(
    delay=st.integers(10 * SECOND, MAX_NS),
    last=st.integers(0, 10 * RESET_NS),
    finished=st.integers(0, 10 * RESET_NS),
    now=st.integers(0, 10 * RESET_NS),
)
def test_no_clock_makes_a_wait_longer_than_the_delay(delay, last, finished, now):
    """Nor negative, however it was set; and the next delay stays within its limits."""
    entry = Backoff(delay, last)
    assert 0 <= backoff.in_backoff(entry, finished, now) <= delay
    assert 10 * SECOND <= backoff.next_delay(entry, now, event_ns=finished).delay_ns <= MAX_NS


def test_an_image_waits_from_the_failed_try_and_repeats_its_error():
    """10, 20, ... 300 s; anew after 600 s of quiet (P-93, T-9)."""
    entry, now, waits = None, T0, []
    for _ in range(7):
        entry = backoff.image_failed(entry, now, "no such image")
        waits.append(backoff.image_wait(entry, now) // SECOND)
        now = entry.until_ns
        assert backoff.image_wait(entry, now) == 0
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert entry.error == "no such image"
    later = backoff.image_failed(entry, entry.last_ns + RESET_NS + 1, "again")
    assert (later.delay_ns, later.error) == (10 * SECOND, "again")


def test_the_key_holds_what_makes_a_container_another_one():
    """Pod, container, image and resources (P-91); nothing else."""
    base = con("app", resources=ResourceRequirements(limits={"cpu": "1", "memory": "1Gi"}))
    key = backoff.crash_key(pod(), base)
    assert key.startswith("default/web/u/app/")
    same = ResourceRequirements(limits={"memory": "1Gi", "cpu": "1"})
    assert backoff.crash_key(pod(), changed(base, resources=same, args=("x",))) == key
    others = [
        backoff.crash_key(pod(meta={"uid": "v"}), base),
        backoff.crash_key(pod(meta={"name": "v"}), base),
        backoff.crash_key(pod(meta={"namespace": "v"}), base),
        backoff.crash_key(pod(), changed(base, name="v")),
        backoff.crash_key(pod(), changed(base, image="v")),
        backoff.crash_key(pod(), changed(base, resources=None)),
    ]
    assert len({key, *others}) == 7


def test_the_message_is_the_one_that_operators_know():
    """P-92."""
    text = backoff.crash_message(pod(), con("app"), Backoff(160 * SECOND))
    assert text == "back-off 2m40s restarting failed container=app pod=web_default(u)"
    said = backoff.crash_event(pod(), con("app"))
    assert said == "Back-off restarting failed container app in pod web_default(u)"


def test_entries_without_a_meaning_are_forgotten():
    """Those after which a failure would count as the first anyway."""
    entries = {"a": Backoff(MAX_NS, T0), "b": Backoff(MAX_NS, T0 + SECOND)}
    now = T0 + RESET_NS + MAX_NS + 1
    assert list(backoff.current(entries, now)) == ["b"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (10, 300)),
        (["--feature-gates=ReduceDefaultCrashLoopBackOffDecay=true"], (1, 60)),
    ],
)
def test_limits_come_from_the_configuration(arguments, expected):
    """P-90."""
    limits = backoff.crash_limits(load(arguments).config)
    assert (limits.base_ns // SECOND, limits.max_ns // SECOND) == expected
