"""The events of the node, told by somebody who may die between any two of them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from procs.node.nodeobject.announcer import Announcer

HEALTHY = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
REASONS = {"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"}


class DeathError(Exception):
    """The process is no more."""


class Memory(dict):
    """A ledger that outlives its process."""

    def put(self, key, value):
        """Keep a value."""
        self[key] = value

    def delete(self, key):
        """Forget a value."""
        self.pop(key, None)


class Life:
    """One process after another over the same ledger; each dies at a step, if told to."""

    def __init__(self):
        self.ledger = Memory()
        self.emitted = []  # reason and moment
        self.clock = itertools.count(1)

    def announcer(self, dies_at=None, uid="u"):
        """An announcer of a new life that ends at its n-th step: an event, or a note of it."""
        steps = itertools.count()

        def step():
            if next(steps) == dies_at:
                raise DeathError

        def emit(_about, _type, reason, _message, at_ns=0):
            step()
            self.emitted.append((reason, at_ns))

        def put(key, value):
            step()
            self.ledger.put(key, value)

        ledger = SimpleNamespace(get=self.ledger.get, put=put, delete=self.ledger.delete)
        view = SimpleNamespace(uid=uid, reference=None, name="n1")
        kit = SimpleNamespace(
            ledger=ledger, view=view, emit=emit, wall=lambda: next(self.clock), clock=None
        )
        return Announcer(kit)


def node(**conditions):
    """A node's object."""
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"metadata": {"name": "n1"}, "status": {"conditions": found}}


@pytest.mark.parametrize("dies_at", range(6))
def test_a_death_between_any_two_events_repeats_none_and_loses_none(dies_at):
    """N-14: what is said twice is said of the same moment, by which it is known."""
    life, object_ = Life(), node(**HEALTHY, Ready="True")
    life.ledger.put("nodeobject/told", {})  # it was about to be made
    with pytest.raises(DeathError):
        life.announcer(dies_at).heard(object_)
    life.announcer().heard(object_)
    assert {reason for reason, _ in life.emitted} == REASONS
    assert len(set(life.emitted)) == len(REASONS)
    before = len(life.emitted)
    life.announcer().heard(object_)
    assert len(life.emitted) == before


def test_what_was_being_told_of_another_object_is_not_told_of_this():
    """The node was deleted and made anew in between."""
    life, object_ = Life(), node(**HEALTHY, Ready="True")
    life.ledger.put("nodeobject/told", {})
    with pytest.raises(DeathError):
        life.announcer(2).heard(object_)
    told = len(life.emitted)
    life.announcer(uid="other").heard(object_)
    assert sorted(reason for reason, _ in life.emitted[told:]) == sorted(REASONS)


@pytest.mark.parametrize("odd", [None, 1, {}, {"uid": "u"}, {"events": 3, "uid": "u", "at": 1}])
def test_an_odd_note_in_the_ledger_is_none(odd):
    """It is a cache: what has another shape only means work that is done again."""
    life = Life()
    life.ledger.put("nodeobject/telling", odd)
    life.ledger.put("nodeobject/told", {})
    life.announcer().heard(node(**HEALTHY, Ready="True"))
    assert {reason for reason, _ in life.emitted} == REASONS
