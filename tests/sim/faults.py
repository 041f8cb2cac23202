"""What goes wrong on purpose: latency, errors, hangs and garbage, by call and by object."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from .model import SimError

GARBAGE = b"\xff\xff\xff\xff this is not a protocol buffer"


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: str  # latency, error, hang, garbage
    call: str  # the name of an RPC, or *
    seconds: float = 0.0
    code: str = "UNAVAILABLE"
    message: str = "simulated failure"
    times: int | None = None  # how often; None is always
    about: str = ""  # only for requests about this: an ID, or its beginning, or a name
    after: bool = False  # do the work first, then fail: the answer is lost
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def concerns(self, call: str, about: tuple[str, ...], *, after: bool) -> bool:
        """Whether it strikes this request, at this point."""
        if self.call not in ("*", call) or self.after != after or self.times == 0:
            return False
        return not self.about or any(a.startswith(self.about) for a in about if a)


class Faults:
    """The faults in force, and how often each call came."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self.calls: Counter[str] = Counter()
        self.hanging: Counter[str] = Counter()

    def add(self, fault: Fault) -> None:
        """Put a fault in force. A latency replaces the earlier one of that call."""
        if fault.kind == "latency":
            self._faults = [
                f
                for f in self._faults
                if (f.kind, f.call, f.about) != ("latency", fault.call, fault.about)
            ]
            if fault.seconds <= 0:
                return
        self._faults.append(fault)

    def release(self, call: str = "*") -> int:
        """Lift the faults of a call, or all of them; who hangs goes on."""
        lifted = [f for f in self._faults if call in ("*", f.call)]
        self._faults = [f for f in self._faults if f not in lifted]
        for fault in lifted:
            fault.released.set()
        return len(lifted)

    async def strike(
        self, call: str, about: tuple[str, ...], *, after: bool = False
    ) -> bytes | None:
        """Let a request suffer what is in force for it. Garbage to answer with is returned."""
        for fault in [f for f in self._faults if f.concerns(call, about, after=after)]:
            if fault.times is not None:
                fault.times -= 1
            if fault.kind == "latency":
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "hang":
                await self._hang(call, fault)
            elif fault.kind == "error":
                raise SimError(fault.code, fault.message)
            else:
                return GARBAGE
        return None

    async def _hang(self, call: str, fault: Fault) -> None:
        self.hanging[call] += 1
        try:
            await fault.released.wait()
        finally:
            self.hanging[call] -= 1
