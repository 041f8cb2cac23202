"""Objects of the API server as the tables of ``node`` have them, and which pods look at which."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from kubelet import logging as klog
from kubelet.cluster.rows import (
    CLAIM,
    CLUSTER,
    LISTED_KEY,
    NODE_KEY,
    OBJECTS,
    CertificateRow,
    ClaimRow,
    CsiDriverRow,
    ListedRow,
    NodeRow,
    ObjectRow,
    TokenRow,
    TrustRow,
    certificate_key,
    driver_key,
    object_key,
    token_key,
    trust_key,
)
from kubelet.pods.wire import BadRecordError, Record
from kubelet.process.tables import Tables
from procs.volumes.sources import Lookup
from shm.codec import DecodeError, unpack
from shm.table import Entry

log = klog.get_logger(__name__)

R = TypeVar("R", bound=Record)
_Key = tuple[str, str]  # a table, and a key in it


class NodeVolumes(NamedTuple):
    """What the node's status says of volumes that a controller attaches (L-13)."""

    attached: frozenset[str] = frozenset()
    in_use: frozenset[str] = frozenset()


NO_VOLUMES: Final = NodeVolumes()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a pod may look up; what it has looked at matters to it from then on."""

    files: Lookup
    claim: Callable[[str, str], ClaimRow | None]  # by namespace and name
    driver: Callable[[str], CsiDriverRow | None]
    drivers_listed: Callable[[], bool]  # one that is not there is not in the cluster
    node: Callable[[], NodeVolumes]
    labels: Callable[[], dict[str, str] | None]  # of the node; None: they are not known
    mounted: frozenset[str] = frozenset()  # the pod's volumes that it has already
    elsewhere: frozenset[str] = frozenset()  # claims that other pods of this node have


class Objects:
    """Looks objects up for pods, and knows for whom it matters when one changes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seen: dict[str, dict[_Key, Hashable]] = {}  # pod -> key -> mark of what it has seen
        self._users: dict[_Key, set[str]] = {}  # key -> pods
        self._node: tuple[bytes, dict[str, Any]] = (b"", {})
        self._odd = klog.every(60)

    def view(
        self,
        uid: str,
        mounted: frozenset[str] = frozenset(),
        elsewhere: frozenset[str] = frozenset(),
    ) -> View:
        """Return where a pod finds its objects; what it looked at before does not matter then."""
        self.forget(uid)
        seen = self._seen[uid] = {}

        def read(cls: type[R], key: str, table: str = OBJECTS) -> R | None:
            self._users.setdefault((table, key), set()).add(uid)
            seen[table, key] = self._mark(table, key)
            return self._read(cls, table, key)

        def listed() -> bool:
            row = read(ListedRow, LISTED_KEY, CLUSTER)
            return row is not None and row.csi_drivers

        def node() -> NodeVolumes:
            read(NodeRow, NODE_KEY, CLUSTER)
            return self._node_volumes()

        def labels() -> dict[str, str] | None:
            read(NodeRow, NODE_KEY, CLUSTER)
            return self._labels()

        return View(
            files=Lookup(
                object=lambda kind, ns, name: read(ObjectRow, object_key(kind, ns, name)),
                token=lambda pod, audience, s: read(TokenRow, token_key(pod, audience, s)),
                trust=lambda name, signer, labels: read(TrustRow, trust_key(name, signer, labels)),
                certificate=lambda pod, volume, index: read(
                    CertificateRow, certificate_key(pod, volume, index)
                ),
            ),
            claim=lambda namespace, name: read(ClaimRow, object_key(CLAIM, namespace, name)),
            driver=lambda name: read(CsiDriverRow, driver_key(name), CLUSTER),
            drivers_listed=listed,
            node=node,
            labels=labels,
            mounted=mounted,
            elsewhere=elsewhere,
        )

    def forget(self, uid: str) -> None:
        """Let nothing that changes matter for a pod."""
        for key in self._seen.pop(uid, ()):
            users = self._users[key]
            users.discard(uid)
            if not users:
                del self._users[key]

    def concerned(self, table: str, key: str) -> list[str]:
        """Return the pods that have seen an object otherwise than it is now."""
        users = self._users.get((table, key))
        if not users:
            return []
        now = self._mark(table, key)
        return [uid for uid in users if self._seen[uid][table, key] != now]

    def all_concerned(self) -> set[str]:
        """Return the pods that have seen any object otherwise than it is now."""
        return {uid for key in list(self._users) for uid in self.concerned(*key)}

    def _read(self, cls: type[R], table: str, key: str) -> R | None:
        """Return a row; one that cannot be read is not there yet."""
        entry = self._tables.get(table, key)
        if entry is None:
            return None
        try:
            return cls.from_wire(unpack(entry.payload))
        except (BadRecordError, DecodeError):  # what is wrong with it may be a secret
            if self._odd.ready():
                log.error("Entry is not right", table=table, key=key, more=self._odd.skipped)
            return None

    def _mark(self, table: str, key: str) -> Hashable:
        """Return what tells an object from another one, as far as that matters here."""
        if (table, key) == (CLUSTER, NODE_KEY):
            return bool(self._node_object()), self._node_volumes()
        return _mark(self._tables.get(table, key))

    # The node's own object, of which little matters and much changes.

    def _node_volumes(self) -> NodeVolumes:
        status = self._node_object().get("status")
        found = status if isinstance(status, dict) else {}
        attached, in_use = found.get("volumesAttached"), found.get("volumesInUse")
        names = [one.get("name") for one in attached or () if isinstance(one, dict)]
        return NodeVolumes(_texts(names), _texts(in_use or ()))

    def _labels(self) -> dict[str, str] | None:
        if not self._node_object():
            return None
        metadata = self._node_object().get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, dict) else None
        return labels if isinstance(labels, dict) else {}

    def _node_object(self) -> dict[str, Any]:
        row = self._read(NodeRow, CLUSTER, NODE_KEY)
        document = row.document if row is not None else b""
        if document != self._node[0]:
            self._node = (document, _object(document))
        return self._node[1]


def _object(document: bytes) -> dict[str, Any]:
    try:
        found = json.loads(document)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _texts(values: Any) -> frozenset[str]:
    known = values if isinstance(values, list | tuple) else ()
    return frozenset(value for value in known if isinstance(value, str))


def _mark(entry: Entry | None) -> int:
    """Return what tells an entry from another one; its generation would not, in a new table."""
    return hash(entry.payload if entry is not None else None)
