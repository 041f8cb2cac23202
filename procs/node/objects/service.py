"""Objects that the pods of this node refer to: table ``objects`` (L-24, L-26).

Each is read the moment that a pod names it, beside everything else that its start needs, once for
all pods, and forgotten when no pod names it any more. What a predecessor had read is taken as true
until it is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from kubelet.cluster.names import possible
from kubelet.cluster.rows import CLAIM
from procs.node.apiserver.types import Json
from procs.node.kit import Kit
from procs.node.objects.claims import Claim
from procs.node.objects.keeping import Keeper
from procs.node.objects.polled import PolledObject
from procs.node.objects.references import (
    AnyReference,
    ObjectReference,
    TokenReference,
    references,
)
from procs.node.objects.store import Store
from procs.node.objects.strategy import Settings, Strategy
from procs.node.objects.tokens import Token
from procs.node.objects.watched import WatchedObject

_LOOK_SECONDS: Final = 60.0  # nothing waits for it: it only frees what nobody needs


class Pods(Protocol):
    """The pods that are bound to this node."""

    @property
    def pods(self) -> dict[str, Json]:
        """All of them, by uid."""

    @property
    def listed(self) -> bool:
        """Whether these are all that there are."""

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call back with the uid of a pod that is new, another or gone."""


@dataclass(slots=True)
class _Kept:
    """A row, and the pods that it is kept for."""

    keeper: Keeper
    users: set[str] = field(default_factory=set)  # uids
    ending: asyncio.TimerHandle | None = None  # nobody refers to it, and it ends then


class Objects:
    """Counts references, and has each object kept for as long as there are any."""

    def __init__(self, kit: Kit, pods: Pods) -> None:
        config = kit.process.config
        self._kit = kit
        self._pods = pods
        self._store = Store(kit, self._let_go)
        self._settings = Settings(
            Strategy(config.str("configMapAndSecretChangeDetectionStrategy")),
            config.duration("syncFrequency"),
        )
        self._of: dict[str, frozenset[AnyReference]] = {}  # by pod
        self._kept: dict[str, _Kept] = {}  # by key
        self._swept = False

    def start(self) -> None:
        """Read what the pods refer to, and follow them."""
        self._pods.on_change(self._changed)
        for uid in list(self._pods.pods):
            self._changed(uid)
        self._kit.process.spawn(self._look_after(), name="looking after objects")

    def _changed(self, uid: str) -> None:
        """Take that a pod is new, another or gone."""
        pod = self._pods.pods.get(uid)
        now = references(pod) if pod is not None else frozenset()
        before = self._of.get(uid, frozenset())
        if now:
            self._of[uid] = now
        else:
            self._of.pop(uid, None)
        for reference in now - before:
            self._acquire(reference, uid)
        for reference in before - now:
            self._release(reference, uid)
        self._sweep()

    def _acquire(self, reference: AnyReference, uid: str) -> None:
        kept = self._kept.get(reference.key)
        if kept is None:
            kept = self._kept[reference.key] = _Kept(self._keeper(reference))
            kept.users.add(uid)
            kept.keeper.start()
            return
        if kept.ending is not None:
            kept.ending.cancel()
            kept.ending = None
        kept.users.add(uid)
        kept.keeper.wanted()

    def _keeper(self, reference: AnyReference) -> Keeper:
        kit, store, settings = self._kit, self._store, self._settings
        if isinstance(reference, TokenReference):
            return Token(kit, store, reference)
        if not possible(reference.name):
            return _Impossible(store, reference)
        if reference.kind == CLAIM:
            return Claim(kit, store, reference, settings)
        if settings.strategy is Strategy.WATCH:
            return WatchedObject(kit, store, reference)
        return PolledObject(kit, store, reference, settings)

    def _release(self, reference: AnyReference, uid: str) -> None:
        key = reference.key
        kept = self._kept.get(key)
        if kept is None:
            return
        kept.users.discard(uid)
        if kept.users or kept.ending is not None:
            return
        if kept.keeper.lingers:
            loop = asyncio.get_running_loop()
            kept.ending = loop.call_later(self._settings.linger_seconds, self._forget, key)
        else:
            self._forget(key)

    def _let_go(self, key: str) -> bool:
        """End what nobody refers to any more: a node may not read it then. Whether that is so."""
        kept = self._kept.get(key)
        if kept is None or kept.users:
            return False
        asyncio.get_running_loop().call_soon(self._end_unused, key)
        return True

    def _end_unused(self, key: str) -> None:
        kept = self._kept.get(key)
        if kept is not None and kept.ending is not None:  # nobody came for it meanwhile
            kept.ending.cancel()
            self._forget(key)

    def _forget(self, key: str) -> None:
        self._kept.pop(key).keeper.stop()
        self._store.delete(key)

    async def _look_after(self) -> None:
        """See now and then which pods have ended: that is our own word, and no news to anybody."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for uid in {*self._of, *self._pods.pods}:
                self._changed(uid)
            self._sweep()

    def _sweep(self) -> None:
        """Remove what a predecessor kept for pods that are gone, once all pods are known."""
        if self._swept or not self._pods.listed:
            return
        self._swept = True
        for key in self._store.all_keys():
            if key not in self._kept:
                self._store.delete(key)


class _Impossible:
    """A reference to what can have no such name: it is not there, and is never asked for."""

    lingers = False

    def __init__(self, store: Store, reference: ObjectReference) -> None:
        self._store = store
        self._reference = reference

    def start(self) -> None:
        """Note that there is none."""
        self._store.impossible(self._reference)

    def wanted(self) -> None:
        """Do nothing: it stays so."""

    def stop(self) -> None:
        """Do nothing."""
