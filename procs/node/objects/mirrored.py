"""A collection of the cluster as rows of table ``cluster``, of which only changes are written."""

from __future__ import annotations

from collections.abc import Callable

from kubelet.cluster.rows import CLUSTER
from kubelet.pods.wire import Record
from procs.node.apiserver.types import ApiError, Json, Watched
from procs.node.kit import Kit, Watching
from procs.node.objects.listed import note_listed


def _nobody(_key: str) -> None:
    """Tell nobody."""


class Mirrored:
    """Follows a collection; an object without a row is as if it were not there.

    What is known is in the table, and nowhere else in this process: a cluster has many objects.
    """

    def __init__(  # noqa: PLR0913 - by name, from its few users
        self,
        kit: Kit,
        *,
        watched: Watched,
        prefix: str,
        key_of: Callable[[Json], str],
        row_of: Callable[[Json], Record | None],
        kind: str,
        changed: Callable[[str], None] = _nobody,
    ) -> None:
        """``changed`` is told the key of each row that is written or removed."""
        self._kit = kit
        self._watched = watched
        self._prefix = prefix
        self._key_of = key_of
        self._row_of = row_of
        self._kind = kind  # the field of ListedRow
        self._told = changed
        self._watching: Watching | None = None

    def start(self) -> None:
        """List and watch."""
        self._watching = self._kit.watch(self._watched, self, self._troubled)

    def _troubled(self, error: ApiError | None) -> None:
        self._kit.troubles.tell(self._watched.name, error)

    def listed(self, items: list[Json], version: str) -> None:
        """Take all that there are; the rest is gone."""
        del version
        there = {self._take(item) for item in items}
        for key in self._kit.process.tables.keys(CLUSTER):
            if key.startswith(self._prefix) and key not in there:
                self._remove(key)
        note_listed(self._kit.process, **{self._kind: True})

    def changed(self, item: Json) -> None:
        """Take an object that is new or another."""
        self._take(item)

    def deleted(self, item: Json) -> None:
        """Take that an object is gone."""
        key = self._key_of(item)
        if key:
            self._remove(key)

    def _remove(self, key: str) -> None:
        self._kit.process.delete(CLUSTER, key)
        self._told(key)

    def _take(self, item: Json) -> str:
        """Write an object's row if it is another; its key, "" if there is none."""
        key = self._key_of(item)
        row = self._row_of(item) if key else None
        if row is None:
            if key:
                self._remove(key)
            return ""
        wire = row.to_wire()
        if self._kit.process.tables.value(CLUSTER, key) != wire:
            self._kit.process.put(CLUSTER, key, wire)
            self._told(key)
        return key
