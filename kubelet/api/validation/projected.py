"""Files in volumes that show API objects and the pod itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.validation.env import FILE_FIELDS, field_ref, resource_ref
from kubelet.api.validation.metadata import annotation_map
from kubelet.api.validation.names import dns_subdomain, each, file_path, one_of
from kubelet.api.validation.scheduling import label_selector
from kubelet.api.validation.texts import between, forbidden, invalid, required
from kubelet.api.volumes import (
    ClusterTrustBundleProjection,
    ConfigMapProjection,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    PodCertificateProjection,
    ProjectedVolumeSource,
    SecretProjection,
    ServiceAccountTokenProjection,
    VolumeProjection,
)

_NO_DOMAIN: Final = 'must be a domain-prefixed key (such as "acme.io/foo")'
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_TOKEN_SECONDS: Final = (600, 1 << 32)
_CERTIFICATE_SECONDS: Final = (3600, 91 * 86400)
_KEY_TYPES: Final = ("ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096")


def mode(path: str, value: int | None) -> Iterator[str]:
    """Check the permissions of a file."""
    if value is not None and not 0 <= value <= 0o777:
        yield invalid(path, value, _MODE)


def items(path: str, found: tuple[KeyToPath, ...]) -> Iterator[str]:
    """Check which keys of an object become which files."""
    for i, item in enumerate(found):
        where = f"{path}[{i}]"
        if not item.key:
            yield required(f"{where}.key")
        yield from _path(f"{where}.path", item.path)
        yield from mode(f"{where}.mode", item.mode)


def _path(path: str, value: str) -> Iterator[str]:
    if value:
        yield from each(path, value, file_path)
    else:
        yield required(path)


def downward_files(path: str, files: tuple[DownwardAPIVolumeFile, ...]) -> Iterator[str]:
    """Check files that show fields of the pod."""
    for i, file in enumerate(files):
        where = f"{path}[{i}]"
        yield from _path(f"{where}.path", file.path)
        if file.field_ref is not None:
            yield from field_ref(f"{where}.fieldRef", file.field_ref, FILE_FIELDS)
        if file.resource_field_ref is not None:
            ref = file.resource_field_ref
            yield from resource_ref(f"{where}.resourceFieldRef", ref, named=True)
        if file.field_ref is not None and file.resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(where, "resource", detail)
        if file.field_ref is None and file.resource_field_ref is None:
            yield required(where, "one of fieldRef and resourceFieldRef is required")
        yield from mode(f"{where}.mode", file.mode)


def projected(path: str, volume: ProjectedVolumeSource) -> Iterator[str]:
    """Check a volume of several sources: each for itself, and their paths together."""
    yield from mode(f"{path}.defaultMode", volume.default_mode)
    seen: set[str] = set()
    for i, source in enumerate(volume.sources):
        where = f"{path}.sources[{i}]"
        given = {key: one for key, one in _parts(source).items() if one is not None}
        for key, part in given.items():
            yield from _part(f"{where}.{key}", part)
            for used in filter(None, _paths(part)):
                if used in seen:
                    yield invalid(f"{where}.{key}", used, "conflicting duplicate paths")
                seen.add(used)
        if not given:
            yield required(where, "must specify a volume type")
        elif len(given) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")


def _parts(source: VolumeProjection) -> dict[str, object]:
    return {
        "secret": source.secret,
        "configMap": source.config_map,
        "downwardAPI": source.downward_api,
        "serviceAccountToken": source.service_account_token,
        "clusterTrustBundle": source.cluster_trust_bundle,
        "podCertificate": source.pod_certificate,
    }


def _paths(part: object) -> Iterator[str]:
    match part:
        case SecretProjection() | ConfigMapProjection() | DownwardAPIProjection():
            yield from (item.path for item in part.items)
        case ServiceAccountTokenProjection() | ClusterTrustBundleProjection():
            yield part.path
        case PodCertificateProjection():
            yield from _certificate_paths(part).values()


def _part(path: str, part: object) -> Iterator[str]:
    match part:
        case SecretProjection() | ConfigMapProjection():
            if not part.name:
                yield required(f"{path}.name")
            yield from items(f"{path}.items", part.items)
        case DownwardAPIProjection():
            yield from downward_files(f"{path}.items", part.items)
        case ServiceAccountTokenProjection():
            yield from _token(path, part)
        case ClusterTrustBundleProjection():
            yield from _trust_bundle(path, part)
        case PodCertificateProjection():
            yield from _certificate(path, part)


def _token(path: str, token: ServiceAccountTokenProjection) -> Iterator[str]:
    seconds = token.expiration_seconds or 0
    shortest, longest = _TOKEN_SECONDS
    if seconds < shortest:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid(f"{path}.expirationSeconds", seconds, detail)
    if seconds > longest:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid(f"{path}.expirationSeconds", seconds, detail)
    yield from _path(f"{path}.path", token.path)


def _trust_bundle(path: str, bundle: ClusterTrustBundleProjection) -> Iterator[str]:
    if bundle.name and bundle.signer_name:
        yield invalid(path, bundle, "only one of name and signerName may be used")
    elif bundle.name:
        signer, colon, name = bundle.name.rpartition(":")
        for detail in dns_subdomain(name if colon and signer else bundle.name):
            said = f"not a valid clustertrustbundlename: {detail}"
            yield invalid(f"{path}.name", bundle.name, said)
        if bundle.label_selector is not None:
            detail = "labelSelector must be unset if name is specified"
            yield invalid(f"{path}.labelSelector", bundle.label_selector, detail)
    elif bundle.signer_name:
        yield from _signer(f"{path}.signerName", bundle.signer_name)
        yield from label_selector(f"{path}.labelSelector", bundle.label_selector)
    else:
        yield required(path, "either name or signerName must be specified")
    yield from _path(f"{path}.path", bundle.path)


def _signer(path: str, name: str) -> Iterator[str]:
    domain, slash, rest = name.partition("/")
    if not slash or not rest:
        yield invalid(path, name, 'must be a fully qualified domain and path of the form "a.b/c"')
        return
    yield from each(path, domain, dns_subdomain)
    if "." not in domain:
        yield invalid(
            path, domain, "should be a domain with at least two segments separated by dots"
        )


def _certificate(path: str, certificate: PodCertificateProjection) -> Iterator[str]:
    if certificate.signer_name:
        yield from _signer(f"{path}.signerName", certificate.signer_name)
    else:
        yield required(f"{path}.signerName")
    yield from one_of(f"{path}.keyType", certificate.key_type, _KEY_TYPES)
    seconds = certificate.max_expiration_seconds
    shortest, longest = _CERTIFICATE_SECONDS
    if seconds is not None and not shortest <= seconds <= longest:
        yield invalid(f"{path}.maxExpirationSeconds", seconds, between(shortest, longest))
    given = {key: value for key, value in _certificate_paths(certificate).items() if value}
    for key, value in given.items():
        yield from each(f"{path}.{key}", value, file_path)
    if not given:
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        yield required(path, detail)
    notes = certificate.user_annotations
    yield from annotation_map(f"{path}.userAnnotations", notes)
    yield from (
        invalid(f"{path}.userAnnotations", key, _NO_DOMAIN) for key in notes if "/" not in key
    )


def _certificate_paths(certificate: PodCertificateProjection) -> dict[str, str]:
    return {
        "credentialBundlePath": certificate.credential_bundle_path,
        "keyPath": certificate.key_path,
        "certificateChainPath": certificate.certificate_chain_path,
    }
