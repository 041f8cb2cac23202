"""Which objects of the cluster a pod refers to (L-24, L-26..L-28). Pure.

A pod comes as the API server sent it; what is not of the shape that it should have refers to
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubelet.cluster.names import noted
from kubelet.cluster.rows import (
    CLAIM,
    CONFIG_MAP,
    SECRET,
    certificate_key,
    object_key,
    token_key,
    trust_key,
)
from kubelet.cluster.selectors import SelectorError, text_of
from procs.node.apiserver.types import Json

TOKEN_SECONDS: Final = 3600  # where the pod does not say
DEFAULT_ACCOUNT: Final = "default"
_TERMINAL: Final = ("Succeeded", "Failed")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")

# Where volumes of each kind name a secret: the field, then the field in it, or "" for a plain name.
_SECRET_FIELDS: Final[dict[str, tuple[str, str]]] = {
    "secret": ("secretName", ""),
    "azureFile": ("secretName", ""),
    "csi": ("nodePublishSecretRef", "name"),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "scaleIO": ("secretRef", "name"),
    "storageos": ("secretRef", "name"),
}


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A secret, config map or claim."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """Its key in table ``objects``."""
        return object_key(self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class TokenReference:
    """A service account token, which is one pod's own."""

    pod_uid: str
    pod_name: str
    namespace: str
    account: str
    audience: str
    seconds: int

    @property
    def key(self) -> str:
        """Its key in table ``objects``."""
        return token_key(self.pod_uid, self.audience, self.seconds)


@dataclass(frozen=True, slots=True)
class TrustReference:
    """Trust anchors: of one ClusterTrustBundle, or of a signer's that labels select (L-27)."""

    name: str = ""
    signer: str = ""
    selector: str = ""  # as text; "" selects nothing

    @property
    def key(self) -> str:
        """Its key in table ``objects``."""
        return trust_key(self.name, self.signer, self.selector)


@dataclass(frozen=True, slots=True)
class CertificateReference:
    """A certificate for one source of one projected volume of one pod (L-28)."""

    pod_uid: str
    pod_name: str
    namespace: str
    account: str
    volume: str
    index: int
    signer: str
    key_type: str
    seconds: int | None = None  # None: as the API server decides
    annotations: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Its key in table ``objects``."""
        return certificate_key(self.pod_uid, self.volume, self.index)


AnyReference = ObjectReference | TokenReference | TrustReference | CertificateReference


def references(pod: Json) -> frozenset[AnyReference]:
    """Return everything that a pod refers to; one whose containers have all ended needs nothing."""
    metadata, spec = _map(pod.get("metadata")), _map(pod.get("spec"))
    namespace = _text(metadata.get("namespace"))
    if not namespace or is_over(pod):
        return frozenset()
    named = {(SECRET, name) for name in _names(spec.get("imagePullSecrets"))}
    for kind in _CONTAINERS:
        for container in _maps(spec.get(kind)):
            named |= set(_of_container(container))
    for volume in _maps(spec.get("volumes")):
        named |= set(_of_volume(volume, _text(metadata.get("name"))))
    objects = {ObjectReference(kind, namespace, name) for kind, name in named if noted(name)}
    return frozenset(
        {
            *objects,
            *_tokens(metadata, spec, namespace),
            *_trust(spec),
            *_certificates(metadata, spec, namespace),
        }
    )


def is_over(pod: Json) -> bool:
    """Whether all containers of a pod have ended for good."""
    return _map(pod.get("status")).get("phase") in _TERMINAL


def _of_container(container: Json) -> Iterator[tuple[str, str]]:
    for source in _maps(container.get("envFrom")):
        yield SECRET, _name(source.get("secretRef"))
        yield CONFIG_MAP, _name(source.get("configMapRef"))
    for variable in _maps(container.get("env")):
        value = _map(variable.get("valueFrom"))
        yield SECRET, _name(value.get("secretKeyRef"))
        yield CONFIG_MAP, _name(value.get("configMapKeyRef"))


def _of_volume(volume: Json, pod_name: str) -> Iterator[tuple[str, str]]:
    for kind, (field, below) in _SECRET_FIELDS.items():
        named = _map(volume.get(kind)).get(field)
        yield SECRET, _text(_map(named).get(below) if below else named)
    yield CONFIG_MAP, _name(volume.get("configMap"))
    for source in _maps(_map(volume.get("projected")).get("sources")):
        yield SECRET, _name(source.get("secret"))
        yield CONFIG_MAP, _name(source.get("configMap"))
    yield CLAIM, _text(_map(volume.get("persistentVolumeClaim")).get("claimName"))
    if isinstance(volume.get("ephemeral"), dict) and pod_name and _text(volume.get("name")):
        yield CLAIM, f"{pod_name}-{volume['name']}"


def _tokens(metadata: Json, spec: Json, namespace: str) -> Iterator[TokenReference]:
    uid, name = _text(metadata.get("uid")), _text(metadata.get("name"))
    account = _text(spec.get("serviceAccountName")) or DEFAULT_ACCOUNT
    if not uid or not name:
        return
    for volume in _maps(spec.get("volumes")):
        for source in _maps(_map(volume.get("projected")).get("sources")):
            wanted = source.get("serviceAccountToken")
            if isinstance(wanted, dict):
                seconds = wanted.get("expirationSeconds")
                if not isinstance(seconds, int) or seconds <= 0:
                    seconds = TOKEN_SECONDS
                audience = _text(wanted.get("audience"))
                yield TokenReference(uid, name, namespace, account, audience, seconds)


def _trust(spec: Json) -> Iterator[TrustReference]:
    for volume in _maps(spec.get("volumes")):
        for source in _maps(_map(volume.get("projected")).get("sources")):
            wanted = _map(source.get("clusterTrustBundle"))
            name, signer = _text(wanted.get("name")), _text(wanted.get("signerName"))
            if name:
                yield TrustReference(name=name)
            elif signer:
                try:
                    yield TrustReference("", signer, _selector(wanted.get("labelSelector")))
                except SelectorError:  # whoever looks for it says so
                    continue


def _selector(value: Any) -> str:
    """Return the text of a selector; one that is not there selects nothing."""
    if not isinstance(value, dict):
        return ""
    labels = {k: v for k, v in _map(value.get("matchLabels")).items() if isinstance(v, str)}
    expressions = [
        (_text(one.get("key")), _text(one.get("operator")), _texts(one.get("values")))
        for one in _maps(value.get("matchExpressions"))
    ]
    return text_of(labels, expressions)


def _certificates(metadata: Json, spec: Json, namespace: str) -> Iterator[CertificateReference]:
    uid, name = _text(metadata.get("uid")), _text(metadata.get("name"))
    account = _text(spec.get("serviceAccountName")) or DEFAULT_ACCOUNT
    for volume in _maps(spec.get("volumes")):
        named, sources = _text(volume.get("name")), _map(volume.get("projected")).get("sources")
        if not uid or not name or not noted(named) or not isinstance(sources, list):
            continue
        for index, source in enumerate(sources):
            wanted = _map(source).get("podCertificate")
            if isinstance(wanted, dict):
                seconds = wanted.get("maxExpirationSeconds")
                notes = _map(wanted.get("userAnnotations")).items()
                yield CertificateReference(
                    uid,
                    name,
                    namespace,
                    account,
                    named,
                    index,
                    _text(wanted.get("signerName")),
                    _text(wanted.get("keyType")),
                    seconds if isinstance(seconds, int) else None,
                    tuple(sorted((k, v) for k, v in notes if isinstance(v, str))),
                )


def _names(value: Any) -> Iterator[str]:
    return (_name(item) for item in _maps(value))


def _name(value: Any) -> str:
    return _text(_map(value).get("name"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _maps(value: Any) -> Iterator[Json]:
    return (
        (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )
