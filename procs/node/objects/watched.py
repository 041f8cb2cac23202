"""One secret or config map that is watched: the list of one is its first read (L-24)."""

from __future__ import annotations

import asyncio
from typing import Final

from kubelet import logging as klog
from kubelet.cluster.rows import CONFIG_MAP, SECRET
from procs.node.apiserver.types import ApiError, Json, Watched
from procs.node.kit import Kit, Watching
from procs.node.objects import content, patience
from procs.node.objects.patience import Tries
from procs.node.objects.references import ObjectReference
from procs.node.objects.store import Store

log = klog.get_logger(__name__)

COLLECTIONS: Final = {SECRET: "secrets", CONFIG_MAP: "configmaps"}


class WatchedObject:
    """Keeps the row of a secret or config map by a watch of its own."""

    def __init__(self, kit: Kit, store: Store, reference: ObjectReference) -> None:
        self._kit = kit
        self._store = store
        self._reference = reference
        self._attempt: _Attempt | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tries = Tries()
        self._settled = False  # it cannot change

    @property
    def lingers(self) -> bool:
        """Whether it is kept for a while unused: one that is not watched may be another by then."""
        return not self._settled and not self._tries.count

    def start(self) -> None:
        """Watch it."""
        self._timer = None
        reference = self._reference
        kind = COLLECTIONS[reference.kind]
        watched = Watched(
            path=f"/api/v1/namespaces/{reference.namespace}/{kind}",
            fields=f"metadata.name={reference.name}",
            name=reference.key,
        )
        self._attempt = attempt = _Attempt(self)
        attempt.watching = self._kit.watch(watched, attempt, attempt.troubled)
        if attempt.over:  # it was told of its end before there was anything to be stopped
            self._end(attempt)

    def wanted(self) -> None:
        """Ask at once what was refused: another pod may make a difference."""
        if self._timer is not None:
            self._timer.cancel()
            self._tries = Tries()
            self.start()

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._attempt is not None:
            self._end(self._attempt)
            self._attempt = None

    # What the watch says.

    def found(self, items: list[Json]) -> None:
        """Take all that there is of the one that is asked for."""
        mine = [item for item in items if self._is_mine(item)]
        if mine:
            self.changed(mine[0])
            return
        self._tries = Tries()
        self._store.missing(self._reference)

    def changed(self, item: Json) -> None:
        """Take the object as it is now."""
        if not self._is_mine(item):
            return
        self._tries = Tries()
        row = content.row_of(self._reference, item, self._kit.wall())
        self._store.put(self._reference.key, row)
        if content.is_immutable(item):
            self._settled = True
            self.stop()

    def deleted(self, item: Json) -> None:
        """Take that it is gone."""
        if self._is_mine(item):
            self._store.missing(self._reference)

    def troubled(self, error: ApiError | None) -> None:
        """Take what is wrong with the watch; None: nothing.

        A watch goes on by itself. What is refused is asked for sooner than it would: mostly the
        API server has just not heard yet that the pod is bound here.
        """
        if error is None:
            self._tries = Tries()
            self._store.well(self._reference)
            return
        now = self._kit.clock()
        self._tries = self._tries.failed(now)
        if patience.counts(self._tries, error, now):
            self._store.failed(self._reference, error)
        if error.forbidden:
            self.stop()
            seconds = patience.delay(self._tries, error)
            self._timer = asyncio.get_running_loop().call_later(seconds, self.start)

    def _is_mine(self, item: Json) -> bool:
        metadata = item.get("metadata")
        return isinstance(metadata, dict) and metadata.get("name") == self._reference.name

    def _end(self, attempt: _Attempt) -> None:
        attempt.over = True
        if attempt.watching is not None:
            name = f"end of the watch of {self._reference.key}"
            self._kit.process.spawn(attempt.watching.stop(), name=name)
            attempt.watching = None


class _Attempt:
    """One watch: what it says after its end is not heard."""

    def __init__(self, keeper: WatchedObject) -> None:
        self._keeper = keeper
        self.watching: Watching | None = None
        self.over = False

    def listed(self, items: list[Json], version: str) -> None:
        """Take everything that there is."""
        del version
        if not self.over:
            self._keeper.found(items)

    def changed(self, item: Json) -> None:
        """Take an object."""
        if not self.over:
            self._keeper.changed(item)

    def deleted(self, item: Json) -> None:
        """Take that an object is gone."""
        if not self.over:
            self._keeper.deleted(item)

    def troubled(self, error: ApiError | None) -> None:
        """Take what is wrong."""
        if not self.over:
            self._keeper.troubled(error)
