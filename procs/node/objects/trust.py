"""Trust anchors that pods want: one ClusterTrustBundle, or those of a signer (L-27).

A bundle is no secret: what a list says is kept here, so that a change of one bundle of many makes
the row anew without asking for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kubelet.cluster.rows import TrustRow
from kubelet.cluster.selectors import query_of
from procs.node.apiserver.types import ApiError, Json, Watched
from procs.node.kit import Kit
from procs.node.objects import patience, pem
from procs.node.objects.keeping import Rounds
from procs.node.objects.patience import Tries
from procs.node.objects.references import TrustReference
from procs.node.objects.served import GROUP, TRUST_BUNDLES, Served
from procs.node.objects.store import Store

NO_API: Final = (
    "ClusterTrustBundle projection is not supported: the API server has no clustertrustbundles"
)
GATE: Final = "ClusterTrustBundleProjection"
GATE_OFF: Final = f"ClusterTrustBundle projection is not supported: feature gate {GATE} is off"
_ABSENT_SECONDS: Final = 300.0  # until a server without the API is asked for it again


def watched(reference: TrustReference, version: str) -> Watched:
    """Return what is to be listed and watched for a reference."""
    path, name = f"{GROUP}/{version}/{TRUST_BUNDLES}", reference.key
    if reference.name:
        return Watched(path, fields=f"metadata.name={_escaped(reference.name)}", name=name)
    signer = f"spec.signerName={_escaped(reference.signer)}"
    return Watched(path, fields=signer, labels=query_of(reference.selector), name=name)


def belongs(reference: TrustReference, item: Json) -> bool:
    """Tell whether a bundle is one that a reference is about; its labels the server looks at."""
    if reference.name:
        return _name(item) == reference.name
    return _map(item.get("spec")).get("signerName") == reference.signer


def _escaped(text: str) -> str:
    """Return a value as it stands in a field selector."""
    for sign in "\\,=":
        text = text.replace(sign, f"\\{sign}")
    return text


def _name(item: Json) -> str:
    return str(_map(item.get("metadata")).get("name") or "")


def _anchors(item: Json) -> list[bytes]:
    bundle = _map(item.get("spec")).get("trustBundle")
    return pem.certificates(bundle) if isinstance(bundle, str) else []


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


class Trust:
    """Keeps the row of one reference by a watch of its own."""

    def __init__(self, kit: Kit, store: Store, served: Served, reference: TrustReference) -> None:
        self._kit = kit
        self._store = store
        self._served = served
        self._reference = reference
        self._tries = Tries()
        self._watching = False
        self._absent = False  # the server has no such API
        self._rounds = Rounds(kit, f"trust anchors {reference.key}", self._round)

    @property
    def lingers(self) -> bool:
        """Whether it is kept for a while unused: what is watched stays true."""
        return self._watching and not self._tries.count

    def start(self) -> None:
        """Find out how it is asked for, and watch it."""
        if not self._kit.process.config.gate(GATE):
            self._store.put(self._reference.key, TrustRow(error=GATE_OFF))
        elif not self._reference.name and not self._reference.selector:  # it selects nothing
            self._store.put(self._reference.key, TrustRow(read_ns=self._kit.wall()))
        else:
            self._rounds.start()

    def wanted(self) -> None:
        """Ask at once what was refused: another pod may make a difference."""
        if self._tries.count or self._absent:
            self._tries = Tries()
            self._rounds.wake()

    def stop(self) -> None:
        """Watch no more."""
        self._rounds.stop()

    async def _round(self) -> float:
        """Watch until that is refused; how long to rest then."""
        try:
            version = await self._served.version(TRUST_BUNDLES)
        except ApiError as err:
            self._failed(err)
            return patience.delay(self._tries, err)
        self._absent = not version
        if self._absent:
            self._tries = Tries()
            self._store.put(self._reference.key, TrustRow(error=NO_API, read_ns=self._kit.wall()))
            return _ABSENT_SECONDS
        return patience.delay(self._tries, await self._follow(version))

    async def _follow(self, version: str) -> ApiError:
        """Watch; what it was refused with."""
        bundles = _Bundles(self._reference, self._took)
        refused: asyncio.Future[ApiError] = asyncio.get_running_loop().create_future()

        def told(error: ApiError | None) -> None:
            if error is None:
                self._well()
                return
            self._failed(error)
            # A watch goes on by itself, but what is refused is asked for sooner than it would; and
            # a server that does not know the path may know another version of it.
            if (error.forbidden or error.not_found) and not refused.done():
                refused.set_result(error)

        watching = self._kit.watch(watched(self._reference, version), bundles, told)
        self._watching = True
        try:
            error = await refused
        finally:
            self._watching = False
            await watching.stop()
        if error.not_found:
            self._served.forget(TRUST_BUNDLES)
        return error

    # What the watch says.

    def _took(self, bundles: Mapping[str, list[bytes]]) -> None:
        """Take all bundles that there are of it, each with its certificates."""
        self._tries = Tries()
        found = [one for anchors in bundles.values() for one in anchors]
        row = TrustRow(bool(bundles), pem.anchors(found), read_ns=self._kit.wall())
        self._store.put(self._reference.key, row)

    def _well(self) -> None:
        """Take that nothing stands against reading it any more."""
        self._tries = Tries()
        row = self._store.trust(self._reference.key)
        if row is not None and row.found and row.error:
            self._store.put(self._reference.key, replace(row, error=""))

    def _failed(self, error: ApiError) -> None:
        """Note why it cannot be had; what was known of it still holds."""
        now, key = self._kit.clock(), self._reference.key
        self._tries = self._tries.failed(now)
        row = self._store.trust(key)
        known = row is not None and row.found
        if (known and error.passing) or not patience.counts(self._tries, error, now):
            return
        if self._store.refused(key, error):
            before = row if row is not None and known else TrustRow()
            self._store.put(key, replace(before, error=str(error)))


class _Bundles:
    """What a watch has told of: the certificates of each bundle."""

    def __init__(
        self, reference: TrustReference, told: Callable[[Mapping[str, list[bytes]]], None]
    ) -> None:
        self._reference = reference
        self._told = told
        self._found: dict[str, list[bytes]] = {}

    def listed(self, items: list[Json], version: str) -> None:
        """Take everything that there is."""
        del version
        mine = [item for item in items if belongs(self._reference, item)]
        self._found = {_name(item): _anchors(item) for item in mine}
        self._told(self._found)

    def changed(self, item: Json) -> None:
        """Take a bundle that is new or another."""
        if belongs(self._reference, item):
            self._found[_name(item)] = _anchors(item)
            self._told(self._found)

    def deleted(self, item: Json) -> None:
        """Take that a bundle is gone, or is none of those any more."""
        if self._found.pop(_name(item), None) is not None:
            self._told(self._found)
