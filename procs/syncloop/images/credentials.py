"""The credentials that an image may be pulled with, in the order in which they are tried (I-22)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kubelet import logging as klog
from kubelet.api.pod import Pod
from procs.syncloop.images.files import NodeConfig
from procs.syncloop.images.keyring import (
    Auth,
    BadDockerConfigError,
    DockerConfig,
    fitting,
    lookup,
    parse_config,
)
from procs.syncloop.images.provider_api import ProviderError
from procs.syncloop.images.providers import Provider
from procs.syncloop.images.verify import Proofs, SecretRef

log = klog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PullSecret:
    """A secret of type dockerconfigjson, or with ``legacy`` of type dockercfg."""

    namespace: str
    name: str
    uid: str
    text: str | bytes = field(repr=False)
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """The pull secrets of a pod."""

    found: tuple[PullSecret, ...] = ()
    missing: tuple[str, ...] = ()  # names that the pod gives and that nobody knows


Secrets = Callable[[Pod], PullSecrets]


def no_secrets(pod: Pod) -> PullSecrets:
    """The pull secrets on a node without an API server: none of those that are named."""
    return PullSecrets(missing=tuple(ref.name for ref in pod.spec.image_pull_secrets if ref.name))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to pull: with credentials of a secret or of the node, or with none."""

    auth: Auth | None = None
    secret: SecretRef | None = None

    @property
    def proofs(self) -> Proofs:
        """What a pull in this way proves: what the node may have, every pod of it may."""
        if self.secret is None:
            return Proofs(node_pods_accessible=True)
        return Proofs(kubernetes_secrets=(self.secret,))

    @property
    def digest(self) -> str:
        """A text by which ways to pull are compared."""
        return self.auth.digest if self.auth else ""


@dataclass(frozen=True, slots=True)
class Found:
    """Credentials for an image, and what could not be asked for them."""

    candidates: tuple[Candidate, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # sentences about what went wrong

    @property
    def secrets(self) -> tuple[SecretRef, ...]:
        """The secrets that the candidates are from."""
        return tuple(c.secret for c in self.candidates if c.secret is not None)


class Credentials:
    """Knows every place where credentials are."""

    def __init__(
        self, node: NodeConfig, providers: Iterable[Provider] = (), secrets: Secrets = no_secrets
    ) -> None:
        self._node = node
        self._providers = tuple(providers)
        self._secrets = secrets

    def of_pod(self, pod: Pod, repository: str) -> Found:
        """Return those of the pod's own pull secrets."""
        given = self._secrets(pod)
        entries: list[tuple[str, Candidate]] = []
        notes: list[str] = []
        for secret in given.found:
            try:
                config = parse_config(secret.text, legacy=secret.legacy)
            except BadDockerConfigError as err:
                notes.append(f'pull secret "{secret.name}" cannot be used: {err}')
                continue
            entries += [(where, _of(secret, auth)) for where, auth in config.items()]
        found = tuple(dict.fromkeys(fitting(entries, repository)))
        return Found(found, given.missing, tuple(notes))

    async def of_node(self, pod: Pod, repository: str) -> Found:
        """Return those of the node: of its docker configuration, then of its providers."""
        notes: list[str] = []
        auths = lookup(self._node.load(), repository)
        for provider in self._providers:
            if provider.serves(repository):
                config = await self._ask(provider, pod, repository, notes)
                auths += lookup(config, repository)
        return Found(tuple(Candidate(auth) for auth in dict.fromkeys(auths)), notes=tuple(notes))

    async def _ask(
        self, provider: Provider, pod: Pod, repository: str, notes: list[str]
    ) -> DockerConfig:
        try:
            return await provider.credentials(repository, pod.spec.service_account_name)
        except ProviderError as err:
            note = f'credential provider "{provider.name}" gave no credentials: {err}'
            log.warning("Credential provider failed", image=repository, err=note)
            notes.append(note)
            return {}


def _of(secret: PullSecret, auth: Auth) -> Candidate:
    return Candidate(auth, SecretRef(secret.uid, secret.namespace, secret.name, auth.digest))
