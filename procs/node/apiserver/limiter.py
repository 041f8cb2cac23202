"""How many calls a second each purpose may make: a token bucket, callers served in order.

A caller takes its token at once, even one that is not there yet, and then waits until it would
have been: so whoever comes first goes first, and nobody has to be woken by anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubelet.config import Effective
from procs.node.apiserver.types import Purpose

SECOND_NS: Final = 1_000_000_000
UNSET_QPS: Final = 5.0  # what a rate of 0 means to the clients of the API server
UNSET_BURST: Final = 10
LEASE_SHARE: Final = 0.25  # of a lease's duration: how often it is renewed (N-30)


@dataclass(frozen=True, slots=True)
class Rate:
    """Calls a second on average, and at once; 0 or less a second is no limit."""

    qps: float = 0.0
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What calls of each purpose may cost: their rate, and seconds for an answer (C-9)."""

    rates: Mapping[Purpose, Rate] = field(default_factory=dict)
    seconds: Mapping[Purpose, float] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Effective) -> Limits:
        """Read the configuration.

        0 means the client's own default for the main rate and no limit for events. Heartbeats have
        no limit, but an answer that comes when the next one is due is of no use: that of a lease
        when a quarter of its life is over (N-30).
        """
        main = config.int("kubeAPIQPS") or UNSET_QPS
        rates = {
            Purpose.MAIN: Rate(main, config.int("kubeAPIBurst") or UNSET_BURST),
            Purpose.EVENTS: Rate(config.int("eventRecordQPS"), config.int("eventBurst")),
        }
        heartbeat = min(
            config.duration("nodeStatusUpdateFrequency"),
            config.int("nodeLeaseDurationSeconds") * LEASE_SHARE,
        )
        return cls(rates, {Purpose.HEARTBEAT: max(1.0, heartbeat)})


class Bucket:
    """The tokens of one rate. Pure: the caller says what time it is."""

    def __init__(self, rate: Rate, now_ns: int) -> None:
        self._rate = rate
        self._burst = max(1, rate.burst)
        self._tokens = float(self._burst)  # below 0: so many are promised to those who wait
        self._at_ns = now_ns

    def take(self, now_ns: int) -> int:
        """Take a token; the nanoseconds until it may be used."""
        if self._rate.qps <= 0:
            return 0
        passed = max(0, now_ns - self._at_ns) / SECOND_NS
        self._at_ns = max(self._at_ns, now_ns)
        self._tokens = min(float(self._burst), self._tokens + passed * self._rate.qps) - 1
        return 0 if self._tokens >= 0 else int(-self._tokens / self._rate.qps * SECOND_NS)

    def give_back(self) -> None:
        """Return a token that was not used."""
        self._tokens = min(float(self._burst), self._tokens + 1)


class Limiter:
    """Lets callers through at a rate."""

    def __init__(
        self,
        rate: Rate,
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bucket = Bucket(rate, clock())
        self._clock = clock
        self._sleep = sleep
        self.waiting = 0

    async def turn(self) -> int:
        """Wait for one's turn; the nanoseconds that it took."""
        wait_ns = self._bucket.take(self._clock())
        if wait_ns == 0:
            return 0
        self.waiting += 1
        try:
            await self._sleep(wait_ns / SECOND_NS)
        except BaseException:
            self._bucket.give_back()
            raise
        finally:
            self.waiting -= 1
        return wait_ns
