"""When probes are made: slots, drift, what was missed, and the wheel (B-2, B-4, B-5, pain 23)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from procs.prober import schedule
from procs.prober.schedule import SECOND, Plan, Wheel

P = 10 * SECOND
MS = 10**6
NOW = 1_000 * P


class Item:
    """A probe on the wheel."""

    def __init__(self, period=P, name=""):
        self.period = period
        self.name = name
        self.due = self.at = 0


def at(moment):
    """A plan without a delay."""
    return Plan(moment, moment)


@pytest.mark.parametrize(("opens", "first"), [(NOW - 5, NOW), (NOW, NOW), (NOW + 7, NOW + 7)])
def test_a_new_container_is_probed_as_soon_as_its_delay_is_over(opens, first):
    """B-5: at once where there is none, and without any jitter."""
    assert schedule.first(opens, NOW) == at(first)


def test_an_old_container_without_history_is_probed_on_its_slot():
    """B-4: within one period, wherever in it the clock stands."""
    for shift in range(0, P, P // 7):
        for slot in (0, 1, P // 3, P - 1):
            plan = schedule.spread(NOW + shift, P, slot)
            assert 0 <= plan.at - (NOW + shift) < P
            assert plan.at % P == slot


def test_slots_are_spread_evenly_over_the_period():
    """Pain 23: of 1,000 containers no tenth of a period has many more than its share."""
    slots = [schedule.slot_of(f"{n:064x}/liveness", P) for n in range(1000)]
    tenths = Counter(slot * 10 // P for slot in slots)
    assert all(0 <= slot < P and slot % schedule.GRID_NS == 0 for slot in slots)
    assert set(tenths) == set(range(10))
    assert max(tenths.values()) < 150


def test_the_slot_of_a_probe_is_the_same_in_every_process():
    """A hash that depends on the process would move all phases at a restart."""
    assert schedule.slot_of("abc/liveness", 10 * schedule.SECOND) == 5_150_000_000


@pytest.mark.parametrize("slot", [0, 1, P // 20, P // 2, P - 1])
def test_a_settled_probe_drifts_to_its_slot_and_stays_there(slot):
    """Later by a tenth of a period a round at most, and never earlier."""
    due, gaps = NOW + P // 3, []
    for _ in range(12):
        plan = schedule.following(due, due + 5 * MS, P, slot, settled=True)
        gaps.append(plan.due - due)
        due = plan.due
    assert all(P <= gap <= P + P // 10 for gap in gaps)
    assert due % P == slot
    assert gaps[-1] == P


def test_a_probe_that_is_not_settled_keeps_its_rhythm():
    """What fails, or has no verdict, is asked again after exactly one period."""
    assert schedule.following(NOW, NOW + MS, P, P // 2, settled=False) == at(NOW + P)


@pytest.mark.parametrize(
    ("took", "plan"),
    [
        (P - 1, at(NOW + P)),
        (P, Plan(NOW + P, NOW + P)),
        (P + 3, Plan(NOW + P, NOW + P + 3)),
        (2 * P + 3, Plan(NOW + 2 * P, NOW + 2 * P + 3)),
    ],
)
def test_a_probe_that_outlasts_its_period_is_followed_at_once_in_the_same_phase(took, plan):
    """A time-out may be longer than the period; two are never under way (B-2)."""
    assert schedule.following(NOW, NOW + took, P, 0, settled=False) == plan


@pytest.mark.parametrize(
    ("due", "left", "plan"),
    [
        (NOW + 3, NOW - P, at(NOW + 3)),  # not due yet
        (NOW - 100 * MS, NOW - SECOND, Plan(NOW - 100 * MS, NOW + 900 * MS)),  # missed
        (NOW - SECOND, NOW - SECOND, Plan(NOW - SECOND, NOW)),  # the first that was missed
        (NOW - SECOND, NOW - 2 * P, at(NOW + P - SECOND)),  # away for longer than a period
        (NOW - 5 * P - SECOND, NOW - 6 * P, at(NOW + P - SECOND)),
        (NOW - 2 * SECOND, NOW - MS, Plan(NOW - 2 * SECOND, NOW + 2 * SECOND)),  # was under way
        (NOW - 6 * SECOND, NOW - MS, at(NOW + 4 * SECOND)),
        (NOW + 2 * P, NOW, at(NOW + P // 2)),  # of another boot: no history
        (0, NOW, at(NOW + P // 2)),
    ],
)
def test_what_was_missed_is_made_up_for_in_its_own_rhythm(due, left, plan):
    """Missed at t, made at t + the time away; left out if the next is due before; phase kept."""
    found = schedule.resumed(due, NOW, left, P, P // 2)
    assert found == plan
    if 0 < due <= NOW + P:
        assert (found.due - due) % P == 0


@pytest.mark.parametrize(
    ("seen", "dues", "left"),
    [
        (NOW - 50, [NOW - 20, NOW - 10, NOW + 5], NOW - 20),
        (NOW - 50, [NOW - 70, NOW + 5], NOW - 50),
        (NOW - 50, [], NOW - 50),
        (NOW + 99, [NOW - 1], NOW),  # another boot's clock
    ],
)
def test_a_predecessor_left_when_it_did_not_begin_what_was_due(seen, dues, left):
    """What was due before it was seen last had been begun."""
    assert schedule.left_at(seen, dues, NOW) == left


def test_the_wheel_gives_what_is_due_in_order_and_once():
    """A later plan replaces an earlier one, and what is dropped does not come."""
    wheel = Wheel()
    one, two, three = Item(name="one"), Item(name="two"), Item(name="three")
    for item, moment in ((two, NOW + 2), (one, NOW + 1), (three, NOW + 3), (one, NOW + 4)):
        wheel.put(item, at(moment))
    wheel.drop(three)
    assert len(wheel) == 2
    assert wheel.earliest() == NOW + 2
    assert wheel.take(NOW + 1) == []
    assert wheel.take(NOW + 9) == [two, one]
    assert wheel.take(NOW + 9) == []
    assert wheel.earliest() == len(wheel) == 0


def test_the_wheel_does_not_grow_with_plans_that_no_longer_count():
    """A probe that is planned anew again and again costs no memory."""
    wheel, item = Wheel(), Item()
    for n in range(1000):
        wheel.put(item, at(NOW + n))
    assert len(wheel._heap) < 100
    assert wheel.take(NOW + 999) == [item]


def test_a_small_delay_changes_nothing():
    """What is a few milliseconds late is begun."""
    wheel, items = Wheel(), [Item() for _ in range(10)]
    for n, item in enumerate(items):
        wheel.put(item, at(NOW + n * MS))
    assert wheel.take(NOW + 12 * MS) == items


def test_after_a_gap_what_is_overdue_keeps_its_distances():
    """A process that was stopped for a second does not begin a second's probes at once."""
    wheel, items = Wheel(), [Item() for _ in range(100)]
    for n, item in enumerate(items):
        wheel.put(item, at(NOW + n * 10 * MS))
    now = NOW + SECOND
    assert wheel.take(now) == items[:1]
    assert [item.at - now for item in items[1:]] == [n * 10 * MS for n in range(1, 100)]
    assert [item.due for item in items] == [NOW + n * 10 * MS for n in range(100)]


PROBES = 400


class Life:
    """Processes that die and hang at random, and the probes that they make all the same."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.period = self.chance.choice((1, 2, 5)) * SECOND
        self.items = [Item(self.period, n) for n in range(PROBES)]
        self.slots = [schedule.slot_of(f"{seed}-{n}", self.period) for n in range(PROBES)]
        self.wheel = Wheel()
        self.now = NOW
        self.away = 0  # in all
        self.begun = []  # when, how long it was away until then, and which

    def live(self, periods=60):
        """Make probes; now and then nobody is there for up to three periods."""
        for item, slot in zip(self.items, self.slots, strict=True):
            self.wheel.put(item, schedule.spread(self.now, self.period, slot))
        trouble, end = self.now + self.period, self.now + periods * self.period
        while self.now < end:
            self.now = max(self.now, self.wheel.earliest())
            if self.now >= trouble:
                self._leave(self.chance.randrange(1, 3 * self.period))
                trouble = self.now + self.chance.randrange(2 * self.period, 8 * self.period)
            for item in self.wheel.take(self.now):
                self._make(item)

    def _leave(self, away):
        left = self.wheel.earliest()
        self.now += away
        self.away += away
        if self.chance.random() < 0.5:  # it died, and another takes up what it finds
            for item, slot in zip(self.items, self.slots, strict=True):
                plan = schedule.resumed(item.due, self.now, left, self.period, slot)
                self.wheel.put(item, plan)

    def _make(self, item):
        self.begun.append((self.now, self.away, item.name))
        slot = self.slots[item.name]
        plan = schedule.following(item.due, self.now, self.period, slot, settled=True)
        self.wheel.put(item, plan)


def most(moments, window):
    """The largest number of moments in a window, over a sorted list."""
    found = first = 0
    for n, moment in enumerate(moments):
        while moments[first] <= moment - window:
            first += 1
        found = max(found, n - first + 1)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_no_death_and_no_gap_leads_to_a_burst_or_loses_a_probe(seed):
    """A window sees at most twice what it always may, and each probe comes within two periods."""
    life = Life(seed)
    life.live()
    normal = sorted(slot + turn * life.period for slot in life.slots for turn in (0, 1, 2))
    moments = [moment for moment, _, _ in life.begun]
    for window in (life.period // 20, life.period // 4, life.period):
        assert most(moments, window) <= 2 * most(normal, window)
    last = {}
    for moment, away, name in life.begun:
        assert moment - away - last.get(name, NOW) <= 2 * life.period
        last[name] = moment - away
    assert len(last) == PROBES
