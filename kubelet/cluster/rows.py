"""The rows of the tables that ``node`` writes: ``assigned``, ``cluster`` and ``objects``.

Objects travel as the JSON text that the API server sent: whoever only passes one on does not take
it apart. Nothing here is ever more than what was heard last; each row says since when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from kubelet.pods.wire import Record

ASSIGNED: Final = "assigned"
CLUSTER: Final = "cluster"
OBJECTS: Final = "objects"

# --- table assigned: by pod uid ------------------------------------------------------------------

ASSIGNED_KEY: Final = "state"  # of table assigned: no pod has this uid


@dataclass(frozen=True, slots=True)
class AssignedRow(Record):
    """A pod that is bound to this node, as the API server has it; no mirror pods."""

    uid: str
    name: str
    namespace: str
    version: str  # its resourceVersion
    document: bytes  # the pod's JSON, status included


@dataclass(frozen=True, slots=True)
class AssignedState(Record):
    """Under ``state``: whether everything that is bound here was listed once (P-4).

    It stays true when the API server goes away: what was assigned is what is known to be wanted.
    """

    listed: bool = False


# --- table cluster -------------------------------------------------------------------------------

NODE_KEY: Final = "node"
CONNECTION_KEY: Final = "connection"
LISTED_KEY: Final = "listed"


def service_key(namespace: str, name: str) -> str:
    """Return the key of a service."""
    return f"service/{namespace}/{name}"


def class_key(name: str) -> str:
    """Return the key of a runtime class."""
    return f"runtimeclass//{name}"


def driver_key(name: str) -> str:
    """Return the key of a CSI driver."""
    return f"csidriver//{name}"


@dataclass(frozen=True, slots=True)
class NodeRow(Record):
    """This node's own object, under ``node``; without a document there is none, for all we know."""

    name: str
    uid: str = ""
    document: bytes = b""  # its JSON, without metadata.managedFields and status.images


@dataclass(frozen=True, slots=True)
class ListedRow(Record):
    """Under ``listed``: which kinds of objects were listed once, so that none missing is news."""

    services: bool = False
    runtime_classes: bool = False
    node: bool = False
    csi_drivers: bool = False


@dataclass(frozen=True, slots=True)
class ServicePortRow:
    """One port of a service."""

    port: int
    name: str = ""
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class ServiceRow(Record):
    """A service as containers learn of it (P-172)."""

    name: str
    namespace: str
    cluster_ip: str = ""
    ports: tuple[ServicePortRow, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeClassRow(Record):
    """A runtime class: which handler of the runtime it stands for (P-164, N-62)."""

    name: str
    handler: str


@dataclass(frozen=True, slots=True)
class TokenRequestRow:
    """A service account token that a CSI driver wants of each pod (L-45)."""

    audience: str
    seconds: int = 3600


@dataclass(frozen=True, slots=True)
class CsiDriverRow(Record):
    """A CSIDriver object: what a kubelet must know of a driver beside what it says itself."""

    name: str
    attach_required: bool = True
    pod_info_on_mount: bool = False
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    lifecycle_modes: tuple[str, ...] = ("Persistent",)
    requires_republish: bool = False
    token_requests: tuple[TokenRequestRow, ...] = ()
    tokens_in_secrets: bool = False  # spec.serviceAccountTokenInSecrets
    selinux_mount: bool = False
    update_seconds: int = 0  # spec.nodeAllocatableUpdatePeriodSeconds


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that does not work at the moment, for ``kubeletctl status``."""

    what: str  # "lease", "node status", "pods", "events", "client certificate", ...
    error: str  # one sentence, with the reason that the API server gave
    since_ns: int  # wall clock


@dataclass(frozen=True, slots=True)
class ConnectionRow(Record):
    """How the node stands with its API server, under ``connection``."""

    server: str = ""  # the URL
    connected: bool = False  # the last word was an answer, whatever it said
    since_ns: int = 0  # wall clock: when ``connected`` last changed
    error: str = ""  # why it is not connected
    registered: bool = False
    ready: str = ""  # the Ready condition that was written last: True, False or ""
    ready_reason: str = ""  # its reason and message
    lease_ns: int = 0  # wall clock: the lease was last renewed
    client_expiry_ns: int = 0  # wall clock: the client certificate ends; 0: there is none
    serving_expiry_ns: int = 0
    troubles: tuple[Trouble, ...] = ()


# --- table objects -------------------------------------------------------------------------------

SECRET: Final = "secret"  # noqa: S105 - a kind
CONFIG_MAP: Final = "configmap"
CLAIM: Final = "claim"
TOKEN: Final = "token"  # noqa: S105 - a kind
TRUST: Final = "trust"
CERTIFICATE: Final = "certificate"


_LONG_AUDIENCE: Final = 200  # bytes: a key has room for no more than 384


def object_key(kind: str, namespace: str, name: str) -> str:
    """Return the key of a secret, config map or claim."""
    return f"{kind}/{namespace}/{name}"


def token_key(pod_uid: str, audience: str, seconds: int) -> str:
    """Return the key of a service account token: one for each audience and life time (L-26)."""
    if len(audience.encode(errors="replace")) > _LONG_AUDIENCE:  # it may be any text
        audience = "sha256:" + sha256(audience.encode(errors="replace")).hexdigest()
    return f"{TOKEN}/{pod_uid}/{seconds}/{audience}"


def trust_key(name: str, signer: str, selector: str) -> str:
    """Return the key of trust anchors: one object by its name, or all of a signer (L-27).

    ``selector`` is the label selector as text, in the form of a query; "": it selects nothing.
    """
    asked = f"{name}\0{signer}\0{selector}".encode(errors="replace")
    return f"{TRUST}//{sha256(asked).hexdigest()}"


def certificate_key(pod_uid: str, volume: str, index: int) -> str:
    """Return the key of a pod's certificate: of one source of one projected volume (L-28)."""
    return f"{CERTIFICATE}/{pod_uid}/{volume}/{index}"


@dataclass(frozen=True, slots=True)
class ObjectRow(Record):
    """A secret or config map that a pod here refers to.

    Not there yet: no row. There is none in the cluster: ``found`` is false and there is no error.
    It could not be had: ``error`` says why; ``found`` with what was known before may still hold.
    """

    kind: str
    namespace: str
    name: str
    found: bool = False
    version: str = ""  # its resourceVersion
    data: dict[str, bytes] = field(default_factory=dict)  # a config map's binaryData included
    type: str = ""  # of a secret: kubernetes.io/dockerconfigjson, ...
    error: str = ""
    read_ns: int = 0  # wall clock: when it was first known to be so
    uid: str = ""
    binary: tuple[str, ...] = ()  # keys of a config map's binaryData: no variables are made of them


@dataclass(frozen=True, slots=True)
class ClaimRow(Record):
    """A persistent volume claim and the volume that it is bound to, as JSON (b"" if not had)."""

    namespace: str
    name: str
    claim: bytes = b""
    volume: bytes = b""
    error: str = ""
    read_ns: int = 0  # wall clock


@dataclass(frozen=True, slots=True)
class TokenRow(Record):
    """A service account token of a pod; "" with an error if there was never one (L-26)."""

    pod_uid: str
    namespace: str
    account: str
    audience: str
    seconds: int  # as asked for
    token: str = ""
    issued_ns: int = 0  # wall clock
    expires_ns: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class TrustRow(Record):
    """Trust anchors: those of one ClusterTrustBundle, or of all that a signer and labels select."""

    found: bool = False  # there is such a one, or at least one
    pem: bytes = b""  # each certificate once, in no order that means anything
    error: str = ""
    read_ns: int = 0  # wall clock


@dataclass(frozen=True, slots=True, repr=False)
class CertificateRow(Record):
    """A pod's key and certificate; without a chain there is none yet, and ``error`` says why."""

    pod_uid: str
    key_pem: bytes = b""
    chain_pem: bytes = b""
    not_after_ns: int = 0  # wall clock
    refresh_ns: int = 0  # wall clock: replaced from then on
    error: str = ""
    fatal: bool = False  # the request was denied or failed: nothing will come of asking again
