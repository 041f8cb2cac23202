"""The values of the downward API's files, from a pod and its node (P-173, L-29). Pure."""

from __future__ import annotations

import re
from typing import Final

from kubelet import quantities
from kubelet.api.container import Container, ResourceFieldSelector
from kubelet.api.pod import Pod
from kubelet.api.volumes import DownwardAPIVolumeFile
from kubelet.machine.capacity import Capacity
from kubelet.quantities import Quantity
from procs.volumes.errors import VolumeError
from procs.volumes.wants import File

DEFAULT_MODE: Final = 0o644

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_HUGE: Final = "hugepages-"
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_SHORT: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def file_of(
    item: DownwardAPIVolumeFile, pod: Pod, node: Capacity, default_mode: int | None
) -> File:
    """Return one file; a VolumeError says what cannot be told."""
    if item.field_ref is not None:
        text = field_value(pod, item.field_ref.field_path)
    elif item.resource_field_ref is not None:
        text = resource_value(pod, item.resource_field_ref, node)
    else:
        raise VolumeError(f"{item.path}: neither fieldRef nor resourceFieldRef is set")
    mode = item.mode if item.mode is not None else default_mode
    data = _SURROGATE.sub("\ufffd", text).encode()
    return File(item.path, data, DEFAULT_MODE if mode is None else mode)


def field_value(pod: Pod, path: str) -> str:
    """Return a field of the pod's metadata; a missing label or annotation is empty."""
    meta = pod.metadata
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace
        case "metadata.uid":
            return meta.uid
        case "metadata.labels":
            return as_lines(meta.labels)
        case "metadata.annotations":
            return as_lines(meta.annotations)
    found = _SUBSCRIPT.fullmatch(path)
    if found is None:
        raise VolumeError(f"unsupported fieldPath: {path}")
    return (meta.labels if found[1] == "labels" else meta.annotations).get(found[2], "")


def as_lines(values: dict[str, str]) -> str:
    """Return a map as lines of ``key="value"``, sorted by key."""
    return "\n".join(f"{key}={quoted(values[key])}" for key in sorted(values))


def quoted(text: str) -> str:
    """Return a text in double quotes, with escapes for all that does not print."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def resource_value(pod: Pod, ref: ResourceFieldSelector, node: Capacity) -> str:
    """Return a request or limit of a container in units of the divisor, rounded up.

    A limit that is not set is the pod's, and else what the node has for pods.
    """
    container = _container(pod, ref.container_name)
    kind, _, resource = ref.resource.partition(".")
    known = resource in ("cpu", "memory", "ephemeral-storage") or resource.startswith(_HUGE)
    if kind not in ("limits", "requests") or not known:
        raise VolumeError(f"unsupported container resource : {ref.resource}")
    if kind == "limits":
        amount = _limit(pod, container, resource, node)
    else:
        requests = container.resources.requests if container.resources is not None else {}
        amount = _quantity(ref.resource, requests.get(resource, "0"))
    divisor = _quantity("divisor", ref.divisor or "1") or Quantity.of(1)
    if resource == "cpu":
        return str(-(-amount.milli // divisor.milli))
    return str(-(-amount.value // divisor.value))


def _container(pod: Pod, name: str) -> Container:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name:
            return container
    raise VolumeError(f"container {name} not found")


def _limit(pod: Pod, container: Container, resource: str, node: Capacity) -> Quantity:
    field = f"limits.{resource}"
    own = container.resources.limits if container.resources is not None else {}
    whole = pod.spec.resources.limits if pod.spec.resources is not None else {}
    for limits in (own, whole):
        found = _quantity(field, limits.get(resource, "0"))
        if found:
            return found
    if resource == "cpu":
        return Quantity(node.cpu_milli * 10**6)
    sizes = {"memory": node.memory, "ephemeral-storage": node.storage}
    return Quantity.of(sizes.get(resource, 0))


def _quantity(field: str, text: str) -> Quantity:
    try:
        return quantities.parse(text)
    except ValueError as err:
        raise VolumeError(f"{field}: {text!r} {err}") from None
