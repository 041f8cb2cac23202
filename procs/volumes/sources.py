"""The files of volumes that come from the API server's objects (L-20..L-28). Pure.

What a volume needs is looked up in what the ``node`` process has written down. What is not there
yet is waited for; what cannot be there is said in the words of the API server or the kubelet.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kubelet.api.container import Container
from kubelet.api.meta import LabelSelector
from kubelet.api.pod import Pod
from kubelet.api.volumes import (
    ClusterTrustBundleProjection,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    PodCertificateProjection,
    ProjectedVolumeSource,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from kubelet.cluster.names import noted
from kubelet.cluster.rows import (
    CONFIG_MAP,
    SECRET,
    CertificateRow,
    ObjectRow,
    TokenRow,
    TrustRow,
)
from kubelet.cluster.selectors import SelectorError, text_of
from procs.volumes.downward import DEFAULT_MODE
from procs.volumes.errors import VolumeError, WaitingError
from procs.volumes.wants import File

TOKEN_SECONDS: Final = 3600  # L-26
_PRIVATE: Final = 0o600
_READ_BY_GROUP: Final = 0o440
_NO_TOKEN: Final = "failed to fetch token: "  # noqa: S105 - words
_NO_BUNDLE: Final = (
    'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "{}" not found'
)
_NO_BUNDLES: Final = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
_NO_NAMES: Final = "ClusterTrustBundle projection requires either name or signerName to be set"
_NOT_ISSUED: Final = "credential bundle is not issued yet"
_NO_KEY: Final = {
    SECRET: "references non-existent secret key: {}",
    CONFIG_MAP: "configmap references non-existent config key: {}",
}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where objects are found; ``none`` says why there can be no objects at all."""

    object: Callable[[str, str, str], ObjectRow | None] = lambda _kind, _namespace, _name: None
    token: Callable[[str, str, int], TokenRow | None] = lambda _uid, _audience, _seconds: None
    none: str = ""
    # By name, signer and selector as text, as their keys are.
    trust: Callable[[str, str, str], TrustRow | None] = lambda _name, _signer, _selector: None
    # By the pod's uid, the volume's name and the number of the source in it.
    certificate: Callable[[str, str, int], CertificateRow | None] = lambda _uid, _volume, _n: None


NO_API_SERVER: Final = Lookup(none="this node has no API server")
NOT_FROM_THERE: Final = Lookup(none="this pod is not from the API server")


@dataclass(frozen=True, slots=True)
class Context:
    """What the files of a volume depend on."""

    pod: Pod
    lookup: Lookup
    downward: Callable[[DownwardAPIVolumeFile, int | None], File]  # with the mode of the volume

    @property
    def namespace(self) -> str:
        """Where the pod's objects are."""
        return self.pod.metadata.namespace


def secret(source: SecretVolumeSource, context: Context) -> tuple[File, ...]:
    """Return the files of a secret."""
    part = SecretProjection(source.items, source.secret_name, source.optional)
    return _files(_object(part, source.default_mode, context))


def config_map(source: ConfigMapVolumeSource, context: Context) -> tuple[File, ...]:
    """Return the files of a config map."""
    part = ConfigMapProjection(source.items, source.name, source.optional)
    return _files(_object(part, source.default_mode, context))


def projected(source: ProjectedVolumeSource, context: Context, volume: str) -> tuple[File, ...]:
    """Return the files of all sources; of two that write the same path the later one does.

    ``volume`` is its name. What is wrong counts before what is not there yet, and all of it is
    said at once.
    """
    files: list[File] = []
    wrong: list[str] = []
    waiting: list[str] = []
    for index, one in enumerate(source.sources):
        try:
            if one.pod_certificate is not None:
                row = _certificate(one.pod_certificate, context, volume, index)
                files += _credentials(one.pod_certificate, row, source.default_mode, context)
            else:
                files += _projection(one, source.default_mode, context)
        except WaitingError as err:
            waiting.append(str(err))
        except VolumeError as err:
            wrong.append(str(err))
    if wrong:
        raise VolumeError(_together(wrong))
    if waiting:
        raise WaitingError(_together(waiting))
    return _files(files)


def readable_by_group(files: Iterable[File]) -> tuple[File, ...]:
    """Return the files so that the group which owns them can read them (L-22)."""
    return tuple(dataclasses.replace(f, mode=f.mode | _READ_BY_GROUP) for f in files)


def common_user(pod: Pod) -> int | None:
    """Return the user that all containers run as; None if that is not written or not one."""
    users = {_user(pod, one) for one in (*pod.spec.init_containers, *pod.spec.containers)}
    return users.pop() if len(users) == 1 else None


def _user(pod: Pod, container: Container) -> int | None:
    for context in (container.security_context, pod.spec.security_context):
        if context is not None and context.run_as_user is not None:
            return context.run_as_user
    return None


def _together(sentences: list[str]) -> str:
    """Return several errors as the kubelet's users know them."""
    different = list(dict.fromkeys(sentences))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"


def _files(files: Iterable[File]) -> tuple[File, ...]:
    """Return the files under clean paths, each once."""
    found = {}
    for file in files:
        # An absolute path or one with a step back stays what it is: the writer refuses it.
        odd = file.path.startswith("/") or ".." in file.path.split("/") or not file.path
        path = file.path if odd else posixpath.normpath(file.path)
        found[path] = dataclasses.replace(file, path=path)
    return tuple(found.values())


def _projection(
    source: VolumeProjection, default_mode: int | None, context: Context
) -> Iterable[File]:
    if source.secret is not None:
        return _object(source.secret, default_mode, context)
    if source.config_map is not None:
        return _object(source.config_map, default_mode, context)
    if source.downward_api is not None:
        items = source.downward_api.items
        return [context.downward(item, default_mode) for item in items]
    if source.service_account_token is not None:
        return [_token(source.service_account_token, default_mode, context)]
    if source.cluster_trust_bundle is not None:
        return [_trust_bundle(source.cluster_trust_bundle, default_mode, context)]
    return ()


# Secrets and config maps.


def _object(
    source: SecretProjection | ConfigMapProjection, default_mode: int | None, context: Context
) -> list[File]:
    kind = SECRET if isinstance(source, SecretProjection) else CONFIG_MAP
    optional = bool(source.optional)
    data = _data(kind, source.name, optional, context)
    mode = DEFAULT_MODE if default_mode is None else default_mode
    if not source.items:
        return [File(key, data[key], mode) for key in sorted(data)]
    files = []
    for item in source.items:
        if item.key in data:
            own = mode if item.mode is None else item.mode
            files.append(File(item.path, data[item.key], own))
        elif not optional:
            raise VolumeError(_NO_KEY[kind].format(item.key))
    return files


def _data(kind: str, name: str, optional: bool, context: Context) -> Mapping[str, bytes]:
    """Return what an object holds; nothing if there is none and there need not be one (L-25)."""
    if not name:
        raise VolumeError(f"no name of a {kind} is given")
    lookup = context.lookup
    if lookup.none:
        if optional:
            return {}
        raise VolumeError(f"{lookup.none}, so there is no {kind} {name}")
    row = lookup.object(kind, context.namespace, name)
    if not noted(name):  # nobody will ever say more of it
        row = ObjectRow(kind, context.namespace, name)
    if row is None:
        where = f"{context.namespace}/{name}"
        raise WaitingError(f"{kind} {where} has not been read from the API server yet")
    if row.found:
        return row.data
    if row.error:
        raise VolumeError(row.error)
    if optional:
        return {}
    raise VolumeError(f'{kind} "{name}" not found')


# What is made for one pod alone.


def _token(
    source: ServiceAccountTokenProjection, default_mode: int | None, context: Context
) -> File:
    pod, lookup = context.pod, context.lookup
    if lookup.none:
        raise VolumeError(f"{lookup.none}, so there is no service account token")
    seconds = source.expiration_seconds or 0
    row = lookup.token(pod.uid, source.audience, seconds if seconds > 0 else TOKEN_SECONDS)
    if row is not None and row.token:  # until it ends, whatever became of its renewal
        return _private(source.path, row.token.encode(), default_mode, context)
    if row is not None and row.error:
        raise VolumeError(_NO_TOKEN + row.error.removeprefix(_NO_TOKEN))
    account = pod.spec.service_account_name or "default"
    of = f"service account {context.namespace}/{account}"
    raise WaitingError(f"the token of {of} has not been had from the API server yet")


def _trust_bundle(
    source: ClusterTrustBundleProjection, default_mode: int | None, context: Context
) -> File:
    """Return the file of trust anchors; it is empty where there are none and need be none."""
    if not source.name and not source.signer_name:
        raise VolumeError(_NO_NAMES)
    data = _anchors(source, context.lookup)
    return _private(source.path, data, default_mode, context)


def _anchors(source: ClusterTrustBundleProjection, lookup: Lookup) -> bytes:
    optional = bool(source.optional)
    if lookup.none:
        if optional:
            return b""
        raise VolumeError(f"{lookup.none}, so there is no ClusterTrustBundle")
    if source.name:
        row, missing = lookup.trust(source.name, "", ""), _NO_BUNDLE.format(source.name)
    else:
        selector = _selector(source.label_selector)
        row, missing = lookup.trust("", source.signer_name, selector), _NO_BUNDLES
    if row is None:
        of = source.name or f"signer {source.signer_name}"
        raise WaitingError(f"trust anchors of {of} have not been read from the API server yet")
    if row.found:  # whatever became of reading it again
        return row.pem
    if optional and (row.read_ns or not row.error):  # the server has answered: there are none
        return b""
    raise VolumeError(row.error or missing)


def _selector(selector: LabelSelector | None) -> str:
    """Return a selector as text; one that is not there selects nothing."""
    if selector is None:
        return ""
    expressions = [(one.key, one.operator, one.values) for one in selector.match_expressions]
    try:
        return text_of(selector.match_labels, expressions)
    except SelectorError as err:
        raise VolumeError(f"while parsing label selector: {err}") from None


def _certificate(
    source: PodCertificateProjection, context: Context, volume: str, index: int
) -> CertificateRow:
    """Return a pod's key and certificate, however old it is."""
    lookup = context.lookup
    if lookup.none:
        raise VolumeError(f"{lookup.none}, so there is no certificate of {source.signer_name}")
    row = lookup.certificate(context.pod.uid, volume, index)
    if row is None:
        raise WaitingError(f"{_NOT_ISSUED}: signer {source.signer_name} has not been asked")
    if row.chain_pem:  # what a pod has it keeps, whatever became of its renewal
        return row
    if row.error:
        raise VolumeError(row.error)
    raise WaitingError(f"{_NOT_ISSUED}: signer {source.signer_name} has not answered")


def _credentials(
    source: PodCertificateProjection,
    row: CertificateRow,
    default_mode: int | None,
    context: Context,
) -> list[File]:
    """Return the files of a key and its certificates (L-28)."""
    wanted = (
        (source.credential_bundle_path, row.key_pem + row.chain_pem),
        (source.key_path, row.key_pem),
        (source.certificate_chain_path, row.chain_pem),
    )
    return [_private(path, data, default_mode, context) for path, data in wanted if path]


def _private(path: str, data: bytes, default_mode: int | None, context: Context) -> File:
    """Return a file for those alone who the pod's containers run as, if that can be told (L-22)."""
    user = common_user(context.pod)
    security = context.pod.spec.security_context
    fixed = user is not None or (security is not None and security.fs_group is not None)
    mode = DEFAULT_MODE if default_mode is None else default_mode
    return File(path, data, _PRIVATE if fixed else mode, user)
