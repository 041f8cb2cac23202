"""The pull secrets of pods, from what ``node`` has read of them (I-22, P-57)."""

from __future__ import annotations

from typing import Final

from kubelet.api.pod import Pod
from kubelet.cluster.names import noted
from kubelet.cluster.rows import SECRET, ObjectRow
from procs.syncloop.configs.tables import TableLookup
from procs.syncloop.images.credentials import PullSecret, PullSecrets, Secrets

# By type of secret: the key of the configuration in it, and whether that is of the old form.
_FORMS: Final = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", False),
    "kubernetes.io/dockercfg": (".dockercfg", True),
}


def from_tables(lookup: TableLookup) -> Secrets:
    """Return what finds the pull secrets of a pod.

    One that is not there, or cannot be had, is missing; one of another type has nothing to say
    about registries.
    """

    def secrets(pod: Pod) -> PullSecrets:
        found: list[PullSecret] = []
        missing: list[str] = []
        for name in dict.fromkeys(ref.name for ref in pod.spec.image_pull_secrets if ref.name):
            row = lookup.row(SECRET, pod.namespace, name) if noted(name) else None
            if row is None or not row.found:
                missing.append(name)
            elif (secret := _secret(row)) is not None:
                found.append(secret)
        return PullSecrets(tuple(found), tuple(missing))

    return secrets


def _secret(row: ObjectRow) -> PullSecret | None:
    key, legacy = _FORMS.get(row.type, ("", False))
    text = row.data.get(key, b"")
    return PullSecret(row.namespace, row.name, row.uid, text, legacy) if text else None
