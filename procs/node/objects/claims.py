"""Persistent volume claims of pods, and the volumes that they are bound to.

A node may read these one by one, and not watch them: what is not bound yet is read again soon, the
rest once a sync, since a volume may grow. While one is to grow, it is read more often: the
controller's part comes first, and the node's is to follow soon (L-16).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from kubelet import quantities
from kubelet.cluster.names import possible
from kubelet.cluster.rows import ClaimRow
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit
from procs.node.objects import patience
from procs.node.objects.keeping import Rounds
from procs.node.objects.patience import Tries
from procs.node.objects.references import ObjectReference
from procs.node.objects.store import Store
from procs.node.objects.strategy import Settings

UNBOUND_SECONDS: Final = 0.2
UNBOUND_LONGEST: Final = 5.0
GROWING_SECONDS: Final = 1.0
GROWING_LONGEST: Final = 15.0
_STORAGE: Final = "storage"
_INFEASIBLE: Final = ("ControllerResizeInfeasible", "NodeResizeInfeasible")


class Claim:
    """Keeps the row of one claim."""

    lingers = False  # nobody says whether it is still true

    def __init__(
        self, kit: Kit, store: Store, reference: ObjectReference, settings: Settings
    ) -> None:
        self._kit = kit
        self._store = store
        self._reference = reference
        self._settings = settings
        self._tries = Tries()
        self._unbound = 0  # reads in a row that found it without a volume
        self._growing = 0  # reads in a row that found it growing, and otherwise as before
        self._version = ""  # its resourceVersion at the last of these
        self._rounds = Rounds(kit, f"reading {reference.key}", self._round)

    def start(self) -> None:
        """Read it."""
        self._rounds.start()

    def wanted(self) -> None:
        """Read it again: it may be bound by now."""
        self._tries, self._unbound, self._growing = Tries(), 0, 0
        self._rounds.wake()

    def stop(self) -> None:
        """Read it no more."""
        self._rounds.stop()

    async def _round(self) -> float:
        reference = self._reference
        path = f"/api/v1/namespaces/{reference.namespace}/persistentvolumeclaims/{reference.name}"
        claim: Json | None = None
        volume: Json | None = None
        try:
            claim = await self._kit.api.get(path)
            bound = bound_to(claim)
            if bound:
                volume = await self._kit.api.get(f"/api/v1/persistentvolumes/{bound}")
        except ApiError as err:
            return self._failed(err, claim)
        self._tries = Tries()
        self._put(claim, volume)
        if volume is None:
            self._unbound += 1
            return unbound_seconds(self._unbound)
        self._unbound = 0
        return self._rest(claim, volume)

    def _rest(self, claim: Json, volume: Json) -> float:
        """Return after how many seconds a claim that is bound is read again."""
        seconds = self._settings.sync_seconds * self._kit.random.uniform(1.0, 1.5)
        if not is_growing(claim, volume):
            self._growing = 0
            return seconds
        version = str(_map(claim.get("metadata")).get("resourceVersion", ""))
        self._growing = self._growing + 1 if version == self._version else 1
        self._version = version
        return min(growing_seconds(self._growing), seconds)

    def _put(self, claim: Json | None, volume: Json | None, error: str = "") -> None:
        reference = self._reference
        row = ClaimRow(
            reference.namespace,
            reference.name,
            claim=_document(claim),
            volume=_document(volume),
            error=error,
            read_ns=self._kit.wall(),
        )
        self._store.put(reference.key, row)

    def _failed(self, err: ApiError, claim: Json | None) -> float:
        """Note what is wrong; what was known of a claim still holds, unless it is gone."""
        now = self._kit.clock()
        self._tries = self._tries.failed(now)
        if patience.counts(self._tries, err, now):
            self._store.refused(self._reference.key, err)
            known = self._store.claim(self._reference.key)
            if err.not_found or known is None or not known.volume:
                self._put(claim, None, str(err))
            elif not err.passing:
                self._store.put(self._reference.key, replace(known, error=str(err)))
        if err.not_found:
            return unbound_seconds(self._tries.count)
        return min(patience.delay(self._tries, err), self._settings.sync_seconds)


def unbound_seconds(reads: int) -> float:
    """Return how soon a claim without a volume is read again."""
    return min(UNBOUND_SECONDS * 2.0 ** min(max(reads - 1, 0), 16), UNBOUND_LONGEST)


def growing_seconds(reads: int) -> float:
    """Return how soon a claim that is to grow is read again."""
    return min(GROWING_SECONDS * 2.0 ** min(max(reads - 1, 0), 16), GROWING_LONGEST)


def is_growing(claim: Json, volume: Json) -> bool:
    """Whether a claim, or its volume, is larger than the claim's status says that it is (L-16).

    What was found infeasible waits for somebody to ask for less, and not for us.
    """
    status = _map(claim.get("status"))
    under_way = _map(status.get("allocatedResourceStatuses")).get(_STORAGE)
    if under_way in _INFEASIBLE:
        return False
    has = _amount(status.get("capacity"))
    wanted = _amount(_map(_map(claim.get("spec")).get("resources")).get("requests"))
    there = _amount(_map(volume.get("spec")).get("capacity"))
    larger = has is not None and any(one is not None and one > has for one in (wanted, there))
    return bool(under_way) or larger


def _amount(amounts: Any) -> quantities.Quantity | None:
    try:
        return quantities.from_json(_map(amounts)[_STORAGE])
    except (KeyError, ValueError):
        return None


def bound_to(claim: Json) -> str:
    """Return the name of the volume that a claim is bound to; "": to none yet."""
    spec, status = _map(claim.get("spec")), _map(claim.get("status"))
    name = spec.get("volumeName")
    bound = status.get("phase") == "Bound" and isinstance(name, str) and possible(name)
    return str(name) if bound else ""


def _document(value: Json | None) -> bytes:
    """Return an object as JSON, without the notes on who changed what."""
    if value is None:
        return b""
    metadata = {k: v for k, v in _map(value.get("metadata")).items() if k != "managedFields"}
    return json.dumps({**value, "metadata": metadata}, separators=(",", ":")).encode()


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
