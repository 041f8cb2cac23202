"""Volumes that outlive their pods, and those of CSI drivers: from the tables to what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kubelet import times
from kubelet.api.pod import Pod
from kubelet.api.volumes import Volume
from kubelet.cluster.rows import SECRET, CsiDriverRow
from procs.volumes import claims
from procs.volumes.csi import wants as csi
from procs.volumes.errors import VolumeError, WaitingError
from procs.volumes.objects import View
from procs.volumes.ownership import Policy
from procs.volumes.wants import CsiWant, Growth, Persistent, Want

_NOT_READ: Final = "has not been read from the API server yet"


def outliving(volume: Volume, pod: Pod, node: str, view: View) -> Want | None:
    """Return what a pod wants of a claim or a driver; None: it is another kind of volume.

    A VolumeError says what is wrong with it, a WaitingError what is not known of it yet.
    """
    if volume.csi is not None:
        security = pod.spec.security_context
        of = Persistent(
            volume.name,
            fs_group=security.fs_group if security is not None else None,
            policy=policy_of(pod),
        )
        return csi.inline(volume.name, volume.csi, pod, of, _lookup(node, view))
    claim = claims.name_of(volume, pod)
    if not claim:
        return None

    def of_driver(
        name: str,
        volume: Mapping[str, Any],
        of: Persistent,
        *,
        access_mode: str,
        growth: Growth | None,
    ) -> CsiWant:
        lookup = _lookup(node, view)  # what the node's status says matters to such a volume alone
        return csi.persistent(
            name, volume, of, pod=pod, access_mode=access_mode, growth=growth, lookup=lookup
        )

    context = claims.ClaimContext(
        csi=of_driver,
        mounted=volume.name in view.mounted,
        labels=view.labels(),
        elsewhere=f"{pod.namespace}/{claim}" in view.elsewhere,
    )
    return claims.want(volume, pod, view.claim(pod.namespace, claim), context)


def policy_of(pod: Pod) -> Policy:
    """Return when the files of a volume are given to the pod's group (L-33)."""
    security = pod.spec.security_context
    asked = security.fs_group_change_policy if security is not None else None
    return Policy.ON_ROOT_MISMATCH if asked == Policy.ON_ROOT_MISMATCH else Policy.ALWAYS


def _lookup(node: str, view: View) -> csi.CsiLookup:
    volumes = view.node()
    return csi.CsiLookup(
        secret=partial(_secret, view),
        driver=partial(_driver, view),
        token=partial(_token, view),
        attached=volumes.attached,
        in_use=volumes.in_use,
        node=node,
    )


def _secret(view: View, namespace: str, name: str) -> Mapping[str, bytes]:
    row = view.files.object(SECRET, namespace, name)
    if row is None:
        raise WaitingError(f"secret {namespace}/{name} {_NOT_READ}")
    if row.found:
        return row.data
    raise VolumeError(row.error or f'secret "{namespace}/{name}" not found')


def _driver(view: View, name: str) -> CsiDriverRow | None:
    row = view.driver(name)
    if row is None and not view.drivers_listed():
        raise WaitingError(f"CSIDriver {name} {_NOT_READ}")
    return row


def _token(view: View, uid: str, audience: str, seconds: int) -> tuple[str, str]:
    row = view.files.token(uid, audience, seconds)
    if row is not None and row.token:
        return row.token, times.to_text(row.expires_ns)
    if row is not None and row.error:
        raise VolumeError(row.error)
    raise WaitingError(f"the pod's token for {audience or 'the API server'} {_NOT_READ}")
