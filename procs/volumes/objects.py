"""Objects of the API server as table ``objects`` has them, and which pods have looked at which."""

from __future__ import annotations

from typing import TypeVar

from kubelet import logging as klog
from kubelet.cluster.rows import OBJECTS, ObjectRow, TokenRow, object_key, token_key
from kubelet.pods.wire import BadRecordError
from kubelet.process.tables import Tables
from procs.volumes.sources import Lookup
from shm.codec import DecodeError, unpack
from shm.table import Entry

log = klog.get_logger(__name__)

R = TypeVar("R", ObjectRow, TokenRow)


class Objects:
    """Looks objects up for pods, and knows for whom it matters when one changes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seen: dict[str, dict[str, int]] = {}  # pod -> key -> mark of what it has seen
        self._users: dict[str, set[str]] = {}  # key -> pods
        self._odd = klog.every(60)

    def lookup(self, uid: str) -> Lookup:
        """Return where a pod finds its objects; what it looked at before does not matter then."""
        self.forget(uid)
        seen = self._seen[uid] = {}

        def read(cls: type[R], key: str) -> R | None:
            self._users.setdefault(key, set()).add(uid)
            row, seen[key] = self._read(cls, key)
            return row

        return Lookup(
            object=lambda kind, namespace, name: read(ObjectRow, object_key(kind, namespace, name)),
            token=lambda pod, audience, seconds: read(TokenRow, token_key(pod, audience, seconds)),
        )

    def forget(self, uid: str) -> None:
        """Let nothing that changes matter for a pod."""
        for key in self._seen.pop(uid, ()):
            users = self._users[key]
            users.discard(uid)
            if not users:
                del self._users[key]

    def concerned(self, key: str) -> list[str]:
        """Return the pods that have seen an object otherwise than it is now."""
        users = self._users.get(key)
        if not users:
            return []
        now = _mark(self._tables.get(OBJECTS, key))
        return [uid for uid in users if self._seen[uid][key] != now]

    def all_concerned(self) -> set[str]:
        """Return the pods that have seen any object otherwise than it is now."""
        return {uid for key in list(self._users) for uid in self.concerned(key)}

    def _read(self, cls: type[R], key: str) -> tuple[R | None, int]:
        """Return a row and its mark; one that cannot be read is not there yet."""
        entry = self._tables.get(OBJECTS, key)
        if entry is None:
            return None, _mark(entry)
        try:
            return cls.from_wire(unpack(entry.payload)), _mark(entry)
        except (BadRecordError, DecodeError):  # what is wrong with it may be a secret
            if self._odd.ready():
                log.error("Entry of table objects is not right", key=key, more=self._odd.skipped)
            return None, _mark(entry)


def _mark(entry: Entry | None) -> int:
    """Return what tells an entry from another one; its generation would not, in a new table."""
    return hash(entry.payload if entry is not None else None)
