"""The volumes of a pod, described, each with how far its mounting has come. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubeletctl.describing.layout import NONE, UNSET, pairs, truth
from kubeletctl.fields import Document, flag, obj, objs, text, whole
from kubeletctl.words import age, clock_time, plain

_TYPES: Final = {
    "emptyDir": "EmptyDir (made for this pod, gone with it)",
    "hostPath": "HostPath (a path of the node)",
    "configMap": "ConfigMap",
    "secret": "Secret",
    "downwardAPI": "DownwardAPI (fields of this pod)",
    "projected": "Projected (several sources in one directory)",
    "persistentVolumeClaim": "PersistentVolumeClaim",
    "ephemeral": "EphemeralVolume (a claim made for this pod)",
    "csi": "CSI (an ephemeral volume of a CSI driver)",
    "nfs": "NFS",
    "image": "Image (the content of an image)",
}


def describe(document: Document, mounts: Document, now_ns: int) -> list[str]:
    """Return the section of the volumes; ``mounts`` is the pod's row in table ``mounts``."""
    volumes = objs(obj(document, "spec"), "volumes")
    if not volumes:
        return [f"Volumes:  {NONE}"]
    states = {text(one, "name"): one for one in objs(mounts, "volumes")}
    lines = ["Volumes:"]
    for volume in volumes:
        name = text(volume, "name")
        lines.append(f"  {plain(name)}:")
        lines += pairs([*_source(volume), *_mounted(states.get(name), now_ns)], 4)
    return lines


def _source(volume: Document) -> Iterator[tuple[str, str]]:
    kind = next((key for key in volume if key != "name"), "emptyDir")
    source = obj(volume, kind)
    yield "Type", _TYPES.get(kind, kind)
    if kind == "emptyDir":
        yield "Medium", text(source, "medium")
        yield "SizeLimit", str(source.get("sizeLimit", "")) or UNSET
    elif kind == "hostPath":
        yield "Path", text(source, "path")
        yield "HostPathType", text(source, "type")
    elif kind in {"configMap", "secret"}:
        yield "Name", text(source, "name") or text(source, "secretName")
        yield "Optional", truth(flag(source, "optional"))
    elif kind == "downwardAPI":
        yield "Items", _downward(source)
    elif kind == "projected":
        yield from _projected(source)
    elif kind == "image":
        yield "Reference", text(source, "reference")
        yield "PullPolicy", text(source, "pullPolicy")
    else:
        yield from _other(source)


def _downward(source: Document) -> str:
    return "\n".join(f"{_origin(one)} -> {text(one, 'path')}" for one in objs(source, "items"))


def _origin(item: Document) -> str:
    field = text(obj(item, "fieldRef"), "fieldPath")
    return field or text(obj(item, "resourceFieldRef"), "resource")


def _projected(source: Document) -> Iterator[tuple[str, str]]:
    for one in objs(source, "sources"):
        kind = next(iter(one), "")
        found = obj(one, kind)
        if kind == "serviceAccountToken":
            yield "Token", f"{text(found, 'path')}, {whole(found, 'expirationSeconds', 3600)} s"
        elif kind == "downwardAPI":
            yield "DownwardAPI", _downward(found)
        else:
            yield kind[:1].upper() + kind[1:], text(found, "name") or text(found, "path")


def _other(source: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the plain fields of a source that has no description of its own."""
    for key, value in sorted(source.items()):
        if isinstance(value, (str, int)):
            yield key[:1].upper() + key[1:], str(value)


def _mounted(state: Document | None, now_ns: int) -> Iterator[tuple[str, str]]:
    if state is None:
        return
    yield "State", text(state, "state") or "pending"  # a row leaves out what has its default
    if text(state, "claim"):
        yield "Claim", text(state, "claim")
    if text(state, "host_path"):
        yield "Device at" if flag(state, "block") else "Mounted at", text(state, "host_path")
    if text(state, "operation"):
        began = whole(state, "operation_ns")
        since = f", for {age((now_ns - began) / 1e9)}" if began else ""
        yield "Under way", text(state, "operation") + since
    if text(state, "reason"):
        again = whole(state, "retry_ns")
        when = f" (tried again at {clock_time(again / 1e9, now_ns / 1e9)})" if again else ""
        yield "Because", text(state, "reason") + when
