"""Volumes that take long or have failed, from the rows of table ``mounts``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kubeletctl.fields import Document, objs, text, whole
from kubeletctl.words import age, clock_time

LONG_NS: Final = 2 * 10**9  # an operation that takes longer is worth a line
LISTED: Final = 10
FAILED: Final = "failed"


class SlowVolume(NamedTuple):
    """A volume that somebody waits for, in the names and units of ``status -o json``."""

    pod: str  # namespace/name, or the uid of one that is not known
    uid: str
    volume: str
    state: str
    claim: str
    operation: str  # what is under way; "" for nothing
    operation_age_seconds: float | None
    reason: str
    retry_ns: int  # wall clock; 0: at nobody's bidding

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, in their order."""
        return self._asdict()

    def sentence(self, now_ns: int) -> str:
        """Tell of it in one line."""
        claim = f" (claim {self.claim})" if self.claim else ""
        parts = [f"{self.pod}: volume {self.volume}{claim} is {self.state}"]
        if self.operation:
            parts.append(
                f"{self.operation} is under way for {age(self.operation_age_seconds or 0)}"
            )
        if self.reason:
            parts.append(self.reason)
        words = ": ".join(parts)
        if self.retry_ns and not self.operation:
            words += f"; tried again at {clock_time(self.retry_ns / 1e9, now_ns / 1e9)}"
        return words


def find(rows: Mapping[str, Any], names: Mapping[str, str], now_ns: int) -> list[SlowVolume]:
    """Return the volumes that take long, the longest first, and then those that have failed.

    ``rows`` are those of table mounts by the pods' uids, ``names`` the pods that are known.
    """
    found = [
        volume
        for uid, row in rows.items()
        for one in objs(row, "volumes")
        if (volume := _slow(uid, names.get(uid, uid), one, now_ns)) is not None
    ]
    return sorted(found, key=lambda one: (-(one.operation_age_seconds or 0), one.pod, one.volume))


def _slow(uid: str, pod: str, row: Document, now_ns: int) -> SlowVolume | None:
    operation, began = text(row, "operation"), whole(row, "operation_ns")
    long = bool(operation) and bool(began) and now_ns - began >= LONG_NS
    state = text(row, "state") or "pending"  # a row leaves out what has its default
    stuck = state == "unmounting" and bool(text(row, "reason"))
    if not long and state != FAILED and not stuck:
        return None
    return SlowVolume(
        pod=pod,
        uid=uid,
        volume=text(row, "name"),
        state=state,
        claim=text(row, "claim"),
        operation=operation,
        operation_age_seconds=round((now_ns - began) / 1e9, 1) if operation and began else None,
        reason=text(row, "reason"),
        retry_ns=whole(row, "retry_ns"),
    )


def lines(found: Iterable[SlowVolume], now_ns: int) -> list[str]:
    """Return a bounded number of sentences."""
    every = list(found)
    told = [one.sentence(now_ns) for one in every[:LISTED]]
    more = len(every) - LISTED
    if more > 0:
        told.append(f"and {more} more: 'kubeletctl status -o json'")
    return told
