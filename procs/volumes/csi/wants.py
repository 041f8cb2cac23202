"""What a pod wants of a CSI driver, from the objects that say so; all of it pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kubelet.api.pod import Pod
from kubelet.api.volumes import CSIVolumeSource
from kubelet.cluster.rows import CsiDriverRow
from procs.volumes import layout
from procs.volumes.csi import names
from procs.volumes.csi.ownership_policy import gives
from procs.volumes.errors import VolumeError
from procs.volumes.wants import CsiWant, Growth, Persistent

PERSISTENT: Final = "Persistent"
EPHEMERAL: Final = "Ephemeral"

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CsiLookup:
    """Where to look things up; each raises a WaitingError for what is not known yet."""

    secret: Callable[[str, str], Mapping[str, bytes]]  # of namespace and name
    driver: Callable[[str], CsiDriverRow | None]
    token: Callable[
        [str, str, int], tuple[str, str]
    ]  # pod, audience, seconds: it, its RFC 3339 end
    attached: frozenset[str]  # the node's status.volumesAttached
    in_use: frozenset[str]  # the node's status.volumesInUse
    node: str


def persistent(  # noqa: PLR0913 - each comes from somewhere else
    name: str,
    volume: Mapping[str, Any],
    of: Persistent,
    *,
    pod: Pod,
    access_mode: str,
    growth: Growth | None,
    lookup: CsiLookup,
) -> CsiWant:
    """Return what a pod wants that uses a persistent volume of a driver."""
    spec = _mapping(volume.get("spec"), "spec", of.spec)
    source = _mapping(spec.get("csi"), "spec.csi", of.spec)
    driver = _driver_name(_text(source, "driver", of.spec), f"persistent volume {of.spec}")
    handle = _text(source, "volumeHandle", of.spec)
    if not handle:
        raise VolumeError(f"spec.csi.volumeHandle of persistent volume {of.spec} is empty")
    info = lookup.driver(driver)
    _check_mode(info, driver, PERSISTENT)
    fs_type = _text(source, "fsType", of.spec)
    want = CsiWant(
        name,
        driver,
        handle,
        of,
        fs_type=fs_type,
        access_mode=access_mode,
        attributes=_attributes(source.get("volumeAttributes"), of.spec),
        stage_secrets=_referred(source, "nodeStageSecretRef", of.spec, lookup),
        publish_secrets=_referred(source, "nodePublishSecretRef", of.spec, lookup),
        expand_secrets=_for_growth(source, growth, of.spec, lookup),
        tokens=_tokens(info, pod.uid, lookup),
        growth=growth,
        info=info,
        gives=gives(
            info,
            fs_group=of.fs_group,
            read_only=of.read_only,
            fs_type=fs_type,
            access_modes=_modes(spec, access_mode),
            inline=False,
        ),
    )
    return _attachable(want, lookup)


def inline(
    name: str, source: CSIVolumeSource, pod: Pod, of: Persistent, lookup: CsiLookup
) -> CsiWant:
    """Return what a pod wants that brings a volume of a driver with it (L-47)."""
    driver = _driver_name(source.driver, f"volume {name}")
    info = lookup.driver(driver)
    _check_mode(info, driver, EPHEMERAL)
    ref = source.node_publish_secret_ref
    of = replace(of, read_only=of.read_only or bool(source.read_only))
    return CsiWant(
        name,
        driver,
        names.inline_handle(pod.uid, name),
        of,
        fs_type=source.fs_type,
        attributes=tuple(sorted(source.volume_attributes.items())),
        publish_secrets=_secret(pod.namespace, ref.name, lookup) if ref is not None else (),
        tokens=_tokens(info, pod.uid, lookup),
        ephemeral=True,
        info=info,
        gives=gives(
            info,
            fs_group=of.fs_group,
            read_only=of.read_only,
            fs_type=source.fs_type,
            access_modes=(),
            inline=True,
        ),
    )


def _attachable(want: CsiWant, lookup: CsiLookup) -> CsiWant:
    """Say how far a controller is with it; without a CSIDriver object one must attach it."""
    if want.info is not None and not want.info.attach_required:
        return want
    device = names.device(want.driver, want.handle)
    return replace(
        want,
        device=device,
        attached=device in lookup.attached,
        in_use=device in lookup.in_use,
    )


def _check_mode(info: CsiDriverRow | None, driver: str, mode: str) -> None:
    if info is None:
        if mode == PERSISTENT:
            return
        raise VolumeError(
            f'volume mode "{mode}" not supported by driver {driver} (no CSIDriver object)'
        )
    if mode not in info.lifecycle_modes:
        only = " ".join(f'"{known}"' for known in info.lifecycle_modes)
        raise VolumeError(
            f'volume mode "{mode}" not supported by driver {driver} (only supports [{only}])'
        )


def _driver_name(driver: str, whose: str) -> str:
    """Return a driver's name, which becomes one of a directory."""
    if not layout.is_name(driver):
        raise VolumeError(f'csi.driver of {whose} is "{driver}": that is no name of a driver')
    return driver


def _tokens(info: CsiDriverRow | None, uid: str, lookup: CsiLookup) -> str:
    """Return the tokens that a driver asks for, as it gets them (L-45)."""
    if info is None or not info.token_requests:
        return ""
    found = {}
    for asked in info.token_requests:
        token, expires = lookup.token(uid, asked.audience, asked.seconds)
        found[asked.audience] = {"token": token, "expirationTimestamp": expires}
    return json.dumps(dict(sorted(found.items())), separators=(",", ":"), ensure_ascii=False)


def _for_growth(
    source: Mapping[str, Any], growth: Growth | None, volume: str, lookup: CsiLookup
) -> Pairs | None:
    """Return the secrets for growing; None: they are not needed, or not to be had now."""
    if growth is None or not growth.pending:
        return None
    try:
        return _referred(source, "nodeExpandSecretRef", volume, lookup)
    except VolumeError:
        return None  # a volume that is in use stays; growing it says what is missing


def _referred(source: Mapping[str, Any], field: str, volume: str, lookup: CsiLookup) -> Pairs:
    ref = source.get(field)
    if ref is None:
        return ()
    where = f"spec.csi.{field}"
    ref = _mapping(ref, where, volume)
    namespace, name = ref.get("namespace", ""), ref.get("name", "")
    if not (isinstance(namespace, str) and isinstance(name, str) and namespace and name):
        raise VolumeError(
            f'{where} of persistent volume {volume} is "{namespace}/{name}":'
            " a namespace and a name are needed"
        )
    return _secret(namespace, name, lookup)


def _secret(namespace: str, name: str, lookup: CsiLookup) -> Pairs:
    found = []
    for key, value in sorted(lookup.secret(namespace, name).items()):
        try:
            found.append((key, value.decode()))
        except UnicodeDecodeError:
            raise VolumeError(
                f"key {key} of secret {namespace}/{name} is no text: a driver cannot be given it"
            ) from None
    return tuple(found)


def _modes(spec: Mapping[str, Any], access_mode: str) -> tuple[str, ...]:
    modes = spec.get("accessModes")
    if isinstance(modes, list) and modes:
        return tuple(str(mode) for mode in modes)
    return (access_mode,) if access_mode else ()


def _attributes(value: object, volume: str) -> Pairs:
    given = _mapping(value, "spec.csi.volumeAttributes", volume) if value is not None else {}
    for key, text in given.items():
        if not isinstance(text, str):
            raise VolumeError(
                f"spec.csi.volumeAttributes.{key} of persistent volume {volume}"
                f" is {text!r}: that is no text"
            )
    return tuple(sorted(given.items()))


def _text(source: Mapping[str, Any], field: str, volume: str) -> str:
    value = source.get(field, "")
    if not isinstance(value, str):
        raise VolumeError(
            f"spec.csi.{field} of persistent volume {volume} is {value!r}: that is no text"
        )
    return value


def _mapping(value: object, field: str, volume: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise VolumeError(f"{field} of persistent volume {volume} is {value!r}: that is no object")
    return value
