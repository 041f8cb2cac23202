"""When probes are made: rules over monotonic nanoseconds, and the one wheel that holds them all.

Every probe has a *slot* in its period, spread over it by a hash, and a *due* moment, which is its
phase. A container that has just started is probed at once, for it is to become ready; once its
probe succeeds, its due moments drift to the slot, a tenth of a period a round at most. So load
spreads by itself, and nobody ever waits for the sake of it. Slots lie on a grid of twenty moments
a second: what is begun together costs one awakening of this process, not one each.

What was not begun in time because of us (this process was dead, stopped or starved for a while) is
made up for in its own rhythm: what was missed at t is made at t + the time away. The rate doubles
for as long as we were away, and there is no burst. What would be made up for later than the next
one is due is left out. The phase stays as it was.
"""

from __future__ import annotations

import hashlib
import heapq
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

SECOND: Final = 1_000_000_000
GRID_NS: Final = SECOND // 20
DRIFT: Final = 10  # a round moves by a tenth of the period at most
STALL_NS: Final = 50_000_000  # later than this is a gap: what is overdue is not begun all at once
TRIGGER_NS: Final = SECOND  # the shortest period that there is: nothing is asked more often (B-11)


class Plan(NamedTuple):
    """When a probe is due, and when it is begun."""

    due: int  # its phase
    at: int  # not before


def slot_of(key: str, period: int) -> int:
    """Return the place of a probe in its period."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    slot = int.from_bytes(digest, "big") * period >> 64
    return slot - slot % GRID_NS


def first(opens: int, now: int) -> Plan:
    """Return when a new container is probed first: once its initial delay is over (B-5)."""
    at = max(opens, now)
    return Plan(at, at)


def spread(now: int, period: int, slot: int) -> Plan:
    """Return when an old container without a history is probed: on its slot, in a period (B-4)."""
    return _next(slot, now, period)


def following(due: int, now: int, period: int, slot: int, *, settled: bool) -> Plan:
    """Return when the next one is made after one that was due then and has ended now."""
    due += period
    if settled:
        due += min((slot - due) % period, period // DRIFT)
    if due > now:
        return Plan(due, due)
    # It took longer than its period: the next one follows at once, and the phase stays.
    return Plan(now - (now - due) % period, now)


def made_up(plan: Plan, now: int, away: int, period: int) -> Plan:
    """Return when something is made whose moment came while we were away for so long."""
    at = plan.at + away
    if at < plan.due + period:
        return Plan(plan.due, max(at, now))
    return _next(plan.due, now, period)


def _next(due: int, now: int, period: int) -> Plan:
    """Return the next moment of a phase."""
    at = now + (due - now) % period
    return Plan(at, at)


def made_again(due: int, now: int, period: int) -> Plan:
    """Return when something is made that had begun at its time, and that we took with us.

    As far after now as it was before it: what had been begun one after the other is so again.
    """
    behind = now - due
    return Plan(due, now + behind) if 2 * behind < period else _next(due, now, period)


def resumed(due: int, now: int, left: int, period: int, slot: int) -> Plan:
    """Return when a probe with a history is made next; ``left`` is when it was last cared for."""
    if not 0 < due <= now + period + period // DRIFT:  # no such moment: another boot's clock
        return spread(now, period, slot)
    if due > now:
        return Plan(due, due)
    if due < left:
        return made_again(due, now, period)
    return made_up(Plan(due, due), now, now - left, period)


def left_at(last_seen: int, dues: list[int], now: int) -> int:
    """Return when a predecessor was gone: it was seen last then, and did not begin what was due."""
    seen = min(last_seen, now)
    return min((due for due in dues if seen <= due <= now), default=seen)


class Timed(Protocol):
    """What a wheel holds."""

    due: int
    at: int  # when it is to be begun; 0: it is not on the wheel
    period: int


T = TypeVar("T", bound=Timed)


class Wheel(Generic[T]):
    """All probes that wait for their time, the next one first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._count = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, item: T, plan: Plan) -> None:
        """Have something begun; a former plan for it no longer counts."""
        if not item.at:
            self._size += 1
        item.due, item.at = plan.due, plan.at
        self._count += 1
        heapq.heappush(self._heap, (plan.at, self._count, item))
        if len(self._heap) > 64 + 2 * self._size:
            self._tidy()

    def drop(self, item: T) -> None:
        """Have something not begun."""
        if item.at:
            item.at = 0
            self._size -= 1

    def earliest(self) -> int:
        """Return when the next one is to be begun; 0: there is none."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].at:
            heapq.heappop(heap)
        return heap[0][0] if heap else 0

    def take(self, now: int) -> list[T]:
        """Take what is to be begun now; after a gap most of it gets another moment."""
        earliest = self.earliest()
        if not earliest or earliest > now:
            return []
        late = now - earliest
        begun: list[T] = []
        for item, at in self._pop(now):
            plan = Plan(item.due, at)
            if late >= STALL_NS:
                plan = made_up(plan, now, late, item.period)
            if plan.at <= now:
                item.due = plan.due
                begun.append(item)
            else:
                self.put(item, plan)
        return begun

    def _pop(self, now: int) -> list[tuple[T, int]]:
        heap, taken = self._heap, []
        while heap and heap[0][0] <= now:
            at, _, item = heapq.heappop(heap)
            if item.at == at:
                item.at = 0
                self._size -= 1
                taken.append((item, at))
        return taken

    def _tidy(self) -> None:
        """Forget plans that no longer count, before they are more than those that do."""
        self._heap = [entry for entry in self._heap if entry[0] == entry[2].at]
        heapq.heapify(self._heap)
