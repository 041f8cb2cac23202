"""Requests for pods' certificates as the API knows them: what is asked, what became of it. Pure."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from kubelet import times
from procs.node.apiserver.types import Json, Reference, Watched
from procs.node.objects import pem
from procs.node.objects.references import CertificateReference
from procs.node.objects.served import GROUP, POD_CERTIFICATES

_NS: Final = 10**9
JITTER_NS: Final = 300 * _NS  # pods that came together do not ask together
_JITTER_PART: Final = 4  # of the time between the first try and the end, at most
_DIGITS: Final = 32  # of the digest, in a name
_WORDS: Final = {"Denied": "was denied", "Failed": "failed"}


class Verdict(Enum):
    """What became of a request."""

    PENDING = "pending"
    ISSUED = "issued"
    DENIED = "denied"
    FAILED = "failed"
    GONE = "gone"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Life:
    """Until when a certificate is good, and from when on it is to be replaced; wall clock."""

    refresh_ns: int
    not_after_ns: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, with its reasons or its certificates."""

    verdict: Verdict
    error: str = ""  # as the pod's volume says it
    event: str = ""  # as an event says it, after the request's name
    chain: bytes = b""
    life: Life = Life(0, 0)


PENDING: Final = Outcome(Verdict.PENDING)
GONE: Final = Outcome(Verdict.GONE)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who asks, by names and UIDs: the API server compares all of them."""

    node: str
    node_uid: str
    account_uid: str


def name_of(digest: str) -> str:
    """Return a request's name: the same for the same key, so that a successor finds it."""
    return f"req-{digest[:_DIGITS]}"


def path_of(reference: CertificateReference, version: str) -> str:
    """Return the collection that a pod's requests are in."""
    return f"{GROUP}/{version}/namespaces/{reference.namespace}/{POD_CERTIFICATES}"


def watched(reference: CertificateReference, version: str, name: str, node: str) -> Watched:
    """Return what is to be watched: one request; a node may see none but those of its own pods."""
    fields = f"metadata.name={name},spec.nodeName={node}"
    return Watched(path_of(reference, version), fields=fields, name=reference.key)


def document(
    reference: CertificateReference, owner: Owner, version: str, name: str, request: str
) -> Json:
    """Return the request for a certificate; ``request`` is the PKCS #10 form of it, in base64."""
    pod, uid = reference.pod_name, reference.pod_uid
    spec: Json = {
        "signerName": reference.signer,
        "podName": pod,
        "podUID": uid,
        "serviceAccountName": reference.account,
        "serviceAccountUID": owner.account_uid,
        "nodeName": owner.node,
        "nodeUID": owner.node_uid,
        "stubPKCS10Request": request,
    }
    if reference.seconds is not None:
        spec["maxExpirationSeconds"] = reference.seconds
    if reference.annotations:
        spec["unverifiedUserAnnotations"] = dict(reference.annotations)
    metadata = {
        "name": name,
        "namespace": reference.namespace,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}],
    }
    api_version = f"{GROUP.removeprefix('/apis/')}/{version}"
    return {
        "apiVersion": api_version,
        "kind": "PodCertificateRequest",
        "metadata": metadata,
        "spec": spec,
    }


def is_mine(reference: CertificateReference, item: Json) -> bool:
    """Tell whether a request is one for the pod and signer of a reference."""
    spec = _map(item.get("spec"))
    wanted = (reference.pod_uid, reference.signer)
    return (spec.get("podUID"), spec.get("signerName")) == wanted


def outcome(item: Json) -> Outcome:
    """Return what became of a request."""
    status = _map(item.get("status"))
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        kind = _map(condition).get("type")
        if kind in _WORDS:
            return _refused(kind, condition)
        if kind == "Issued":
            return _issued(status)
    return PENDING


def _refused(kind: str, condition: Json) -> Outcome:
    reason, message = (_quoted(condition.get(key)) for key in ("reason", "message"))
    said = f"reason={reason} message={message}"
    return Outcome(
        Verdict[kind.upper()],
        error=f"PodCertificateRequest was permanently {kind.lower()}: {said}",
        event=f"{_WORDS[kind]}, reason={reason}, message={message}",
    )


def _issued(status: Json) -> Outcome:
    text = status.get("certificateChain")
    chain = pem.chain(text) if isinstance(text, str) else b""
    life = Life(_moment(status.get("beginRefreshAt")), _moment(status.get("notAfter")))
    if not chain or not life.refresh_ns or not life.not_after_ns:
        error = "the certificate that was issued cannot be read, or has no times"
        return Outcome(Verdict.UNREADABLE, error)
    return Outcome(Verdict.ISSUED, chain=chain, life=life)


def refresh_at(life: Life, chance: random.Random) -> int:
    """Return when a certificate is to be replaced: a little after the signer's own wish."""
    most = min(JITTER_NS, max(life.not_after_ns - life.refresh_ns, 0) // _JITTER_PART)
    return life.refresh_ns + int(chance.random() * most)


def pod_of(reference: CertificateReference) -> Reference:
    """Return the pod as events name it."""
    return Reference("Pod", reference.pod_name, reference.namespace, reference.pod_uid)


def _moment(value: Any) -> int:
    try:
        return times.to_ns(value) if isinstance(value, str) else 0
    except ValueError:
        return 0


def _quoted(value: Any) -> str:
    return json.dumps(value if isinstance(value, str) else "", ensure_ascii=False)


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
