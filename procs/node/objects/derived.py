"""What a pod refers to through its claims and CSI drivers (L-16, L-43, L-45). Pure.

A pod names a claim, the claim's volume names secrets and a driver, and the driver's object asks
for tokens: none of these stands in the pod itself, and each may come or change after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kubelet.cluster.names import noted
from kubelet.cluster.rows import SECRET, ClaimRow, CsiDriverRow
from procs.node.apiserver.types import Json
from procs.node.objects.references import DEFAULT_ACCOUNT, ObjectReference, TokenReference

_LONGEST_NAMESPACE: Final = 63  # a label: a longer one is of nobody, and of no key

# Where a volume of each kind names secrets that a node may read. A reference that names no
# namespace means that of the claim.
_VOLUME_SECRETS: Final[dict[str, tuple[str, ...]]] = {
    "csi": ("nodeStageSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"),
    "cephfs": ("secretRef",),
    "cinder": ("secretRef",),
    "flexVolume": ("secretRef",),
    "iscsi": ("secretRef",),
    "rbd": ("secretRef",),
    "scaleIO": ("secretRef",),
    "storageos": ("secretRef",),
}

# Gives what is known of a driver, by its name.
Drivers = Callable[[str], CsiDriverRow | None]


def volume_of(row: ClaimRow | None) -> Json:
    """Return the volume that a claim is bound to; an empty map if none is known."""
    try:
        found = json.loads(row.volume) if row is not None and row.volume else {}
    except ValueError:
        return {}
    return _map(found)


def secrets_of(volume: Json) -> Iterator[ObjectReference]:
    """Return the secrets that a bound volume names."""
    spec = _map(volume.get("spec"))
    own = _text(_map(spec.get("claimRef")).get("namespace"))
    for kind, fields in _VOLUME_SECRETS.items():
        for field in fields:
            named = _map(_map(spec.get(kind)).get(field))
            yield from _secret(_text(named.get("namespace")) or own, _text(named.get("name")))
    share = _map(spec.get("azureFile"))
    yield from _secret(_text(share.get("secretNamespace")) or own, _text(share.get("secretName")))


def _secret(namespace: str, name: str) -> Iterator[ObjectReference]:
    if noted(name) and 0 < len(namespace) <= _LONGEST_NAMESPACE:
        yield ObjectReference(SECRET, namespace, name)


def drivers_of(pod: Json, volumes: Iterable[Json]) -> frozenset[str]:
    """Return the CSI drivers of a pod: those of its inline volumes, and of its bound ones."""
    listed = _map(pod.get("spec")).get("volumes")
    inline = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    sources = [*inline, *(_map(volume.get("spec")) for volume in volumes)]
    return frozenset(_text(_map(source.get("csi")).get("driver")) for source in sources) - {""}


def tokens_of(pod: Json, drivers: Iterable[CsiDriverRow]) -> Iterator[TokenReference]:
    """Return the tokens of a pod that its drivers ask for."""
    metadata, spec = _map(pod.get("metadata")), _map(pod.get("spec"))
    uid, name = _text(metadata.get("uid")), _text(metadata.get("name"))
    namespace = _text(metadata.get("namespace"))
    account = _text(spec.get("serviceAccountName")) or DEFAULT_ACCOUNT
    if not (uid and name and namespace):
        return
    for driver in drivers:
        for wanted in driver.token_requests:
            yield TokenReference(uid, name, namespace, account, wanted.audience, wanted.seconds)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
