"""Why the node is not ready: its runtime, its network, its own processes (N-12, N-14). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubelet.pods.resources import CPU, MEMORY, STORAGE
from kubelet.pods.runtime import RuntimeRecord

GRACE_NS: Final = 30 * 10**9  # T-2
_REQUIRED: Final = {
    "RuntimeReady": "container runtime not ready",
    "NetworkReady": "container runtime network not ready",
}
_UNCHECKED: Final = "container runtime status check may not have completed yet"


def runtime_errors(
    record: RuntimeRecord | None, now_ns: int, unknown_since_ns: int, was_ready: bool
) -> list[str]:
    """Say what is wrong with the runtime.

    Not to know yet is a reason for a node that was never ready. One that was stays ready for the
    time that a runtime is given to answer: that somebody has to look anew is no news of it.
    """
    unknown = record is None or not (record.connected and record.looked and record.conditions)
    if unknown:
        since = record.since_ns if record is not None and record.since_ns else unknown_since_ns
        if was_ready and now_ns - since < GRACE_NS:
            return []
        why = f": {record.reason}" if record is not None and record.reason else ""
        return [f"{_UNCHECKED}{why}"]
    assert record is not None
    unmet = list(_unmet(record))
    if unmet or record.healthy:
        return unmet
    return [record.reason or "container runtime is down"]


def grace_ends_ns(record: RuntimeRecord | None, unknown_since_ns: int) -> int:
    """Return when a runtime of which nothing is known has had its time."""
    since = record.since_ns if record is not None and record.since_ns else unknown_since_ns
    return since + GRACE_NS


def _unmet(record: RuntimeRecord) -> Iterable[str]:
    said = {condition.type: condition for condition in record.conditions}
    for name, words in _REQUIRED.items():
        found = said.get(name)
        if found is None:
            yield f"{words}: the runtime does not say {name}"
        elif not found.status:
            yield f"{words}: {name}=false reason:{found.reason} message:{found.message}"


def capacity_errors(capacity: Mapping[str, str], *, storage: bool) -> list[str]:
    """Say which resources could not be counted."""
    wanted = (CPU, MEMORY, "pods", *((STORAGE,) if storage else ()))
    missing = [name for name in wanted if name not in capacity]
    return [f"missing node capacity for resources: {', '.join(missing)}"] if missing else []
