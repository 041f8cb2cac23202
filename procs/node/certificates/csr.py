"""Requests for certificates as the API knows them: what is asked for, and what became of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from procs.node.apiserver.types import Json
from procs.node.certificates.client import Subject

PATH: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
# Keys are elliptic, which encipher nothing (N-42).
CLIENT_USAGES: Final = ("digital signature", "client auth")
SERVING_USAGES: Final = ("digital signature", "server auth")
_DIGITS: Final = 16  # of the digest, in a name


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a certificate is for."""

    what: str  # as troubles and the log name it
    signer: str
    usages: tuple[str, ...]
    prefix: str  # of the request's name
    key_file: str  # below the certificates' directory: the key while the request is open


# The names that begin with node-csr- are those of a node that joins.
BOOTSTRAP: Final = Purpose(
    "client certificate", CLIENT_SIGNER, CLIENT_USAGES, "node-csr-", "kubelet-client.key.tmp"
)
CLIENT: Final = Purpose(
    "client certificate", CLIENT_SIGNER, CLIENT_USAGES, "csr-", "kubelet-client.key.tmp"
)
SERVING: Final = Purpose(
    "serving certificate", SERVING_SIGNER, SERVING_USAGES, "csr-", "kubelet-server.key.tmp"
)


class Verdict(Enum):
    """What became of a request."""

    PENDING = "is not approved yet"
    APPROVED = "is approved, but not signed yet"
    ISSUED = "is signed"
    DENIED = "was denied"
    FAILED = "could not be signed"
    GONE = "was deleted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, with its reasons or its certificates."""

    verdict: Verdict
    text: str = ""
    chain: str = ""


def node_subject(node: str) -> Subject:
    """Whom a node is to the API server (N-42)."""
    return Subject(f"system:node:{node}", ("system:nodes",))


def name_of(purpose: Purpose, subject: Subject, digest: str) -> str:
    """Return the name of a request: the same for the same key, so that a successor finds it."""
    wish = [
        digest,
        purpose.signer,
        purpose.usages,
        subject.common_name,
        subject.organizations,
        subject.dns,
        subject.ips,
    ]
    found = hashlib.sha256(json.dumps(wish).encode()).hexdigest()
    return purpose.prefix + found[:_DIGITS]


def document(purpose: Purpose, name: str, request: str) -> Json:
    """Return the object that asks for a certificate."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request.encode()).decode(),
            "signerName": purpose.signer,
            "usages": list(purpose.usages),
        },
    }


def outcome(item: Json) -> Outcome:
    """Tell what became of a request, from its object."""
    status = item.get("status")
    status = status if isinstance(status, dict) else {}
    held = _conditions(status.get("conditions"))
    for kind, verdict in (("Denied", Verdict.DENIED), ("Failed", Verdict.FAILED)):
        if kind in held:
            return Outcome(verdict, held[kind])
    if "Approved" not in held:
        return Outcome(Verdict.PENDING)
    chain = _decoded(status.get("certificate"))
    return Outcome(Verdict.ISSUED, chain=chain) if chain else Outcome(Verdict.APPROVED)


def signer_of(item: Json) -> str:
    """Return who is to sign a request."""
    spec = item.get("spec")
    return str(spec.get("signerName", "")) if isinstance(spec, dict) else ""


def _conditions(value: Any) -> dict[str, str]:
    """Return reason and message of each condition that holds, by its type."""
    held = {}
    for one in value if isinstance(value, list) else []:
        if isinstance(one, dict) and one.get("status", "True") == "True":
            parts = (str(one.get(key) or "") for key in ("reason", "message"))
            held[str(one.get("type"))] = ": ".join(part for part in parts if part)
    return held


def _decoded(value: Any) -> str:
    try:
        return base64.b64decode(value, validate=True).decode() if isinstance(value, str) else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""
