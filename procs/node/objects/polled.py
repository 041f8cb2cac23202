"""One secret or config map that is read from time to time: strategies Cache and Get (L-24)."""

from __future__ import annotations

from procs.node.apiserver.types import ApiError
from procs.node.kit import Kit
from procs.node.objects import content, patience
from procs.node.objects.keeping import Rounds
from procs.node.objects.patience import FIRST_SECONDS, Tries
from procs.node.objects.references import ObjectReference
from procs.node.objects.store import Store
from procs.node.objects.strategy import Settings
from procs.node.objects.watched import COLLECTIONS


class PolledObject:
    """Keeps the row of a secret or config map by reading it: at once for each new pod, then rarely.

    One that is not there is looked for sooner: a pod waits for it.
    """

    lingers = False  # nobody says whether it is still true

    def __init__(
        self, kit: Kit, store: Store, reference: ObjectReference, settings: Settings
    ) -> None:
        self._kit = kit
        self._store = store
        self._reference = reference
        self._settings = settings
        self._tries = Tries()
        self._missed = 0  # reads in a row that found nothing
        self._rounds = Rounds(kit, f"reading {reference.key}", self._read)

    def start(self) -> None:
        """Read it."""
        self._rounds.start()

    def wanted(self) -> None:
        """Read it again: a new pod is to see what is there now."""
        self._tries, self._missed = Tries(), 0
        self._rounds.wake()

    def stop(self) -> None:
        """Read it no more."""
        self._rounds.stop()

    async def _read(self) -> float:
        reference = self._reference
        kind = COLLECTIONS[reference.kind]
        path = f"/api/v1/namespaces/{reference.namespace}/{kind}/{reference.name}"
        period = self._settings.period(self._kit.view.document) * self._kit.random.uniform(1.0, 1.1)
        try:
            item = await self._kit.api.get(path)
        except ApiError as err:
            return min(self._failed(err), period)
        self._tries, self._missed = Tries(), 0
        row = content.row_of(reference, item, self._kit.wall())
        self._store.put(reference.key, row)
        return period

    def _failed(self, err: ApiError) -> float:
        if err.not_found:
            self._tries = Tries()
            self._store.missing(self._reference)
            self._missed += 1
            return FIRST_SECONDS * 2.0 ** min(self._missed - 1, 16)
        now = self._kit.clock()
        self._tries = self._tries.failed(now)
        if patience.counts(self._tries, err, now):
            self._store.failed(self._reference, err)
        return patience.delay(self._tries, err)
