"""Objects that the pods of this node refer to: table ``objects`` (L-24, L-26).

Each is read the moment that a pod names it, beside everything else that its start needs, once for
all pods, and forgotten when no pod names it any more. What a predecessor had read is taken as true
until it is read again.

What a pod refers to by itself is in ``references``; what it refers to through its claims and CSI
drivers is in ``derived``, and is looked at again whenever one of these changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from kubelet.cluster.names import possible
from kubelet.cluster.rows import CLAIM, object_key
from procs.node.apiserver.types import Json
from procs.node.kit import Kit
from procs.node.objects import csidrivers, derived
from procs.node.objects.claims import Claim
from procs.node.objects.keeping import Keeper
from procs.node.objects.podcert import KeyMaker, PodCertificate
from procs.node.objects.polled import PolledObject
from procs.node.objects.references import (
    AnyReference,
    CertificateReference,
    ObjectReference,
    TokenReference,
    TrustReference,
    is_over,
    references,
)
from procs.node.objects.served import Served
from procs.node.objects.store import Store
from procs.node.objects.strategy import Settings, Strategy
from procs.node.objects.tokens import Token
from procs.node.objects.trust import Trust
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

    def __init__(self, kit: Kit, pods: Pods, maker: KeyMaker | None = None) -> None:
        config = kit.process.config
        self._served = Served(kit.api)
        self._maker = maker or KeyMaker()
        self._kit = kit
        self._pods = pods
        self._store = Store(kit, self._let_go, self._wrote)
        self._settings = Settings(
            Strategy(config.str("configMapAndSecretChangeDetectionStrategy")),
            config.duration("syncFrequency"),
        )
        self._of: dict[str, frozenset[AnyReference]] = {}  # by pod
        self._drivers: dict[str, frozenset[str]] = {}  # by pod: names
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
        now = self._all_of(uid, pod)
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

    def _all_of(self, uid: str, pod: Json | None) -> frozenset[AnyReference]:
        """Return what a pod refers to, itself and through what is known of its claims."""
        if pod is None or is_over(pod):
            self._drivers.pop(uid, None)
            return frozenset()
        own = references(pod)
        claims = [one.key for one in own if isinstance(one, ObjectReference) and one.kind == CLAIM]
        volumes = [derived.volume_of(self._store.claim(key)) for key in claims]
        names = self._drivers[uid] = derived.drivers_of(pod, volumes)
        drivers = [csidrivers.driver(self._kit.process, name) for name in names]
        secrets = {secret for volume in volumes for secret in derived.secrets_of(volume)}
        tokens = derived.tokens_of(pod, (driver for driver in drivers if driver is not None))
        return own | secrets | frozenset(tokens)

    def driver_changed(self, name: str) -> None:
        """Take that a CSI driver's object is new, another or gone."""
        for uid in [uid for uid, names in self._drivers.items() if name in names]:
            self._changed(uid)

    def _wrote(self, key: str) -> None:
        """Take that a row is another; a claim's volume may name more, which is looked at next."""
        if key.startswith(f"{CLAIM}/"):
            asyncio.get_running_loop().call_soon(self._claim_changed, key)

    def _claim_changed(self, key: str) -> None:
        kept = self._kept.get(key)
        for uid in sorted(kept.users) if kept is not None else ():
            self._changed(uid)

    def read_claim(self, namespace: str, name: str) -> None:
        """Have a claim read at once: its status was just changed by us."""
        kept = self._kept.get(object_key(CLAIM, namespace, name))
        if kept is not None:
            kept.keeper.wanted()

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
        kit, store = self._kit, self._store
        match reference:
            case TokenReference():
                return Token(kit, store, reference)
            case TrustReference():
                return Trust(kit, store, self._served, reference)
            case CertificateReference():
                return PodCertificate(kit, store, self._served, self._maker, reference)
            case ObjectReference():
                return self._object_keeper(reference)

    def _object_keeper(self, reference: ObjectReference) -> Keeper:
        kit, store, settings = self._kit, self._store, self._settings
        if not (possible(reference.name) and possible(reference.namespace)):
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
