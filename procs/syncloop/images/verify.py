"""Whether a pod may use an image that is there, by who proved a right to it before (I-30). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from procs.syncloop.images import reference

_MOST_SECRETS: Final = 100  # that are remembered for one image


class Verification(StrEnum):
    """``imagePullCredentialsVerificationPolicy``."""

    NEVER = "NeverVerify"
    NEVER_PRELOADED = "NeverVerifyPreloadedImages"
    NEVER_ALLOWLISTED = "NeverVerifyAllowlistedImages"
    ALWAYS = "AlwaysVerify"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A pull secret, and what it held, as a hash."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = ""

    def same_object(self, other: SecretRef) -> bool:
        """Tell whether both are one object of the API, whatever it holds."""
        return replace(self, credential_hash="") == replace(other, credential_hash="")


@dataclass(frozen=True, slots=True)
class AccountRef:
    """A service account."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Proofs:
    """Who has pulled an image: anyone of this node, or who shows one of these."""

    kubernetes_secrets: tuple[SecretRef, ...] = ()
    kubernetes_service_accounts: tuple[AccountRef, ...] = ()
    node_pods_accessible: bool | None = None


@dataclass(frozen=True, slots=True)
class PulledRecord:
    """``ImagePulledRecord``: an image on this node, and the proofs by its names."""

    api_version: str = ""
    kind: str = ""
    last_updated_time: str = ""
    image_ref: str = ""
    credential_mapping: dict[str, Proofs] = field(default_factory=dict)  # by repository


@dataclass(frozen=True, slots=True)
class Known:
    """What the node remembers about an image that is there."""

    by_us: bool = False  # a kubelet pulled it, or began to: it was not preloaded
    record: PulledRecord | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the image may be used as it is, and a proof that is new to the record."""

    allowed: bool
    learned: Proofs | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy, with its list of exceptions."""

    mode: Verification = Verification.NEVER_PRELOADED
    allowlist: tuple[str, ...] = ()

    def applies(self, repository: str, *, by_us: bool) -> bool:
        """Tell whether a pod has to show that it may use an image of this repository."""
        if self.mode is Verification.NEVER:
            return False
        if self.mode is Verification.ALWAYS or by_us:
            return True
        if self.mode is Verification.NEVER_PRELOADED:
            return False
        return not any(_listed(entry, repository) for entry in self.allowlist)


def _listed(entry: str, repository: str) -> bool:
    if entry.endswith("/*"):
        return repository.startswith(entry.removesuffix("*"))
    return reference.parse(entry).repository == repository


def verdict(
    rules: Rules,
    known: Known,
    repository: str,
    secrets: tuple[SecretRef, ...] = (),
    accounts: tuple[AccountRef, ...] = (),
) -> Verdict:
    """Decide about an image that is there, for a pod with these pull secrets and accounts."""
    if not rules.applies(repository, by_us=known.by_us):
        return Verdict(allowed=True)
    proofs = known.record.credential_mapping.get(repository) if known.record else None
    if proofs is None:
        return Verdict(allowed=False)
    if proofs.node_pods_accessible or any(
        account in proofs.kubernetes_service_accounts for account in accounts
    ):
        return Verdict(allowed=True)
    return _by_secret(proofs, secrets)


def _by_secret(proofs: Proofs, secrets: tuple[SecretRef, ...]) -> Verdict:
    """A secret counts when it is the one of then, or holds what was shown then."""
    for mine in secrets:
        for theirs in proofs.kubernetes_secrets:
            alike = bool(mine.credential_hash) and mine.credential_hash == theirs.credential_hash
            if mine == theirs:
                return Verdict(allowed=True)
            if alike or mine.same_object(theirs):
                return Verdict(allowed=True, learned=Proofs(kubernetes_secrets=(mine,)))
    return Verdict(allowed=False)


def merged(old: Proofs | None, new: Proofs) -> Proofs:
    """Return the proofs with one more; what everyone may use needs no single proofs."""
    if new.node_pods_accessible or (old is not None and old.node_pods_accessible):
        return Proofs(node_pods_accessible=True)
    if old is None:
        return new
    added = new.kubernetes_secrets
    kept = tuple(s for s in old.kubernetes_secrets if not any(s.same_object(a) for a in added))
    accounts = dict.fromkeys(old.kubernetes_service_accounts + new.kubernetes_service_accounts)
    return Proofs((*kept, *added)[-_MOST_SECRETS:], tuple(accounts))
