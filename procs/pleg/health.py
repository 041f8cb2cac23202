"""Whether the runtime is well, and why not (G-1, N-12). Pure.

Two things are told apart. That *pleg* is alive, its heartbeat says, whatever the runtime does.
That the *runtime* does not answer is said here, with the call that it owes an answer to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubelet import durations
from kubelet.pods.runtime import Condition

SECOND_NS: Final = durations.SECOND
RELIST_THRESHOLD_NS: Final = 180 * SECOND_NS  # G-1
STATUS_SECONDS: Final = 5.0  # N-12: how often the runtime is asked
DOWN_AFTER_NS: Final = 30 * SECOND_NS  # N-12
SLOW_AFTER_NS: Final = 3 * SECOND_NS  # a call is worth a word long before it is a failure
REQUIRED: Final = ("RuntimeReady", "NetworkReady")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that is not answered yet."""

    call: str
    since_ns: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All that health is judged by; the times are monotonic, and 0 is "never"."""

    endpoint: str
    started_ns: int  # when we began to try
    connected: bool = False
    full_look_ns: int = 0  # when the last full look that succeeded began
    status_ns: int = 0  # when the runtime last answered Status
    error: str = ""  # what the last look, call or connection failed with, if it did
    waiting: Waiting | None = None  # the oldest call without an answer
    conditions: tuple[Condition, ...] | None = None  # None: not told yet


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of the runtime."""

    healthy: bool
    reason: str = ""
    trouble: str = ""
    waiting_for: str = ""
    waiting_since_ns: int = 0


def judge(facts: Facts, now_ns: int) -> Verdict:
    """Say how the runtime is. No text holds an age: it changes only when the matter does."""
    reason = _reason(facts, now_ns)
    slow = facts.waiting
    if slow is not None and now_ns - slow.since_ns < SLOW_AFTER_NS:
        slow = None
    return Verdict(
        healthy=not reason,
        reason=reason,
        trouble=facts.error,
        waiting_for=slow.call if slow else "",
        waiting_since_ns=slow.since_ns if slow else 0,
    )


def _reason(facts: Facts, now_ns: int) -> str:
    """Say why the node must not be ready; "" if nothing is in the way."""
    why = f": {facts.error}" if facts.error else ""
    if not facts.connected:
        return f"no answer yet from {facts.endpoint}{why}"
    if not facts.full_look_ns:
        return f"it was not looked at in full yet{why}"
    if now_ns - facts.full_look_ns > RELIST_THRESHOLD_NS:
        limit = durations.render(RELIST_THRESHOLD_NS)
        return f"PLEG is not healthy: no full look succeeded within {limit}{why}"
    if now_ns - max(facts.status_ns, facts.started_ns) > DOWN_AFTER_NS:
        return f"container runtime is down{why}"
    if facts.conditions is None:
        return f"its status is not known yet{why}"
    return "; ".join(filter(None, (_unmet(facts.conditions, name) for name in REQUIRED)))


def _unmet(conditions: tuple[Condition, ...], name: str) -> str:
    found = next((c for c in conditions if c.type == name), None)
    if found is None:
        return f"it does not say {name}"
    if found.status:
        return ""
    said = ", ".join(filter(None, (found.reason, found.message)))
    return f"{name} is false" + (f" ({said})" if said else "")
