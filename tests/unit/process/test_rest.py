"""Memory is given back after work, and not while there is some."""

from __future__ import annotations

from kubelet.process.rest import BUSY_SECONDS, QUIET_TICKS, WORK_SECONDS, Rest


def test_memory_is_returned_once_when_work_is_over() -> None:
    """A burst is followed by one return, after some quiet ticks."""
    rest = Rest()
    assert not any(rest.begins(used * 0.5) for used in range(1, 5))
    assert [rest.begins(2.0) for _ in range(QUIET_TICKS + 3)].count(True) == 1


def test_little_work_is_not_worth_a_return() -> None:
    """A process that did next to nothing keeps what it has."""
    rest = Rest()
    assert not any(rest.begins(WORK_SECONDS / 2) for _ in range(100))


def test_what_goes_on_all_the_time_is_no_end_of_work() -> None:
    """A steady load gives nothing back again and again, only to need it a moment later."""
    rest = Rest()
    assert not any(rest.begins(tick * BUSY_SECONDS * 0.9) for tick in range(1000))
