"""Table ``objects`` as the parts here write it: a row changes only when what it says does.

Nothing of an object is kept in this process's own memory, and nothing of it is ever logged but its
kind and name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kubelet import logging as klog
from kubelet.cluster.rows import (
    CLAIM,
    OBJECTS,
    CertificateRow,
    ClaimRow,
    ObjectRow,
    TokenRow,
    TrustRow,
)
from kubelet.config.errors import one_line
from kubelet.pods.wire import BadRecordError
from procs.node.apiserver.types import ApiError
from procs.node.kit import Kit
from procs.node.objects.references import ObjectReference
from shm.errors import TableError

log = klog.get_logger(__name__)

Row = ObjectRow | ClaimRow | TokenRow | TrustRow | CertificateRow

_READ: frozenset[str] = frozenset({"read_ns"})  # says nothing about the object
_TROUBLE = "objects of pods"


def _keep(_key: str) -> bool:
    return False


def _nobody(_key: str) -> None:
    """Tell nobody."""


class Store:
    """The rows, by key."""

    def __init__(
        self,
        kit: Kit,
        let_go: Callable[[str], bool] = _keep,
        wrote: Callable[[str], None] = _nobody,
    ) -> None:
        """``let_go``: ends what cannot be had any more, and which nobody needs; whether it did.

        ``wrote`` is told the key of each row that says something else now.
        """
        self._kit = kit
        self._let_go = let_go
        self._wrote = wrote
        self._full = ""  # why a row could not be written
        self._refused: dict[str, str] = {}  # by key: why the API server does not give an object

    def all_keys(self) -> list[str]:
        """Return the keys of all rows."""
        return self._kit.process.tables.keys(OBJECTS)

    def object(self, reference: ObjectReference) -> ObjectRow | None:
        """Return the row of a secret or config map; None: there is none."""
        value = self._kit.process.tables.value(OBJECTS, reference.key)
        try:
            return None if value is None else ObjectRow.from_wire(value)
        except BadRecordError:
            return None

    def token(self, key: str) -> TokenRow | None:
        """Return the row of a token; None: there is none."""
        value = self._kit.process.tables.value(OBJECTS, key)
        try:
            return None if value is None else TokenRow.from_wire(value)
        except BadRecordError:
            return None

    def claim(self, key: str) -> ClaimRow | None:
        """Return the row of a claim; None: there is none."""
        value = self._kit.process.tables.value(OBJECTS, key)
        try:
            return None if value is None else ClaimRow.from_wire(value)
        except BadRecordError:
            return None

    def trust(self, key: str) -> TrustRow | None:
        """Return the row of trust anchors; None: there is none."""
        value = self._kit.process.tables.value(OBJECTS, key)
        try:
            return None if value is None else TrustRow.from_wire(value)
        except BadRecordError:
            return None

    def certificate(self, key: str) -> CertificateRow | None:
        """Return the row of a pod's certificate; None: there is none."""
        value = self._kit.process.tables.value(OBJECTS, key)
        try:
            return None if value is None else CertificateRow.from_wire(value)
        except BadRecordError:
            return None

    def put(self, key: str, row: Row) -> None:
        """Write a row if it says anything else than the one that is there."""
        if not row.error:
            self._given(key)
        wire = row.to_wire()
        before = self._kit.process.tables.value(OBJECTS, key)
        if isinstance(before, dict) and _said(before) == _said(wire):
            return
        try:
            self._kit.process.put(OBJECTS, key, wire)
        except TableError as err:  # full: what is in it stays, and pods say what they wait for
            self._full = str(err)
            self._tell()
            return
        if self._full:
            self._full = ""
            self._tell()
        self._wrote(key)
        if row.error:
            log.warning(
                "Object of a pod cannot be had", object=_shown(key), err=one_line(row.error)
            )

    def delete(self, key: str) -> None:
        """Remove a row."""
        self._given(key)
        self._kit.process.delete(OBJECTS, key)

    def refused(self, key: str, error: ApiError) -> bool:
        """Say that the API server does not give an object, until a row of it without an error.

        What is not there is no fault of it, and that it is away is said elsewhere. False: nobody
        needs the object, and it is not to be had any more.
        """
        ill = error.passing and not error.unreachable
        if ill or error.forbidden or error.unauthorized:
            if self._let_go(key):
                return False
            self._refused[key] = f"{_shown(key)}: {error}"
            self._tell()
        return True

    def _given(self, key: str) -> None:
        if self._refused.pop(key, None) is not None:
            self._tell()

    def _tell(self) -> None:
        told = [self._full] if self._full else sorted(self._refused.values())
        more = f" (and {len(told) - 1} more objects)" if len(told) > 1 else ""
        self._kit.troubles.tell(_TROUBLE, told[0] + more if told else None)

    def missing(self, reference: ObjectReference) -> None:
        """Note that there is no such secret or config map."""
        kind, namespace, name = reference.kind, reference.namespace, reference.name
        self.put(reference.key, ObjectRow(kind, namespace, name, read_ns=self._kit.wall()))

    def impossible(self, reference: ObjectReference) -> None:
        """Note that there is nothing of such a name, in the words of the API server."""
        if reference.kind == CLAIM:
            error = f'persistentvolumeclaims "{reference.name}" not found'
            self.put(reference.key, ClaimRow(reference.namespace, reference.name, error=error))
        else:
            self.missing(reference)

    def failed(self, reference: ObjectReference, error: ApiError) -> None:
        """Note why a secret or config map cannot be had; what was known of it still holds.

        A server that cannot be reached takes nothing away from that.
        """
        row = self.object(reference)
        if row is None or not row.found:
            row = ObjectRow(reference.kind, reference.namespace, reference.name)
        elif error.passing:
            return
        if not self.refused(reference.key, error):
            return
        self.put(reference.key, replace(row, error=str(error)))

    def well(self, reference: ObjectReference) -> None:
        """Note that nothing stands against reading it any more."""
        row = self.object(reference)
        if row is not None and row.found and row.error:
            self.put(reference.key, replace(row, error=""))


def _said(wire: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in wire.items() if name not in _READ}


def _shown(key: str) -> str:
    """Return a key for the log; of a token, without the audience, which may be any text."""
    return "/".join(key.split("/", 3)[:3])
