"""Secrets and config maps as rows. Pure, but for a line about what is odd in one."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from kubelet import logging as klog
from kubelet.cluster.rows import CONFIG_MAP, ObjectRow
from procs.node.apiserver.types import Json
from procs.node.objects.references import ObjectReference

log = klog.get_logger(__name__)


def row_of(reference: ObjectReference, item: Json, read_ns: int) -> ObjectRow:
    """Return the row of an object; what cannot be read of it is left out, and said."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    data = item.get("data")
    binary: dict[str, bytes] = {}
    if reference.kind == CONFIG_MAP:
        texts = {key: _text(reference, key, value) for key, value in _items(reference, data)}
        binary = _decoded(reference, item.get("binaryData"))
        plain = {key: value for key, value in texts.items() if value is not None}
    else:
        plain = _decoded(reference, data)
    return ObjectRow(
        reference.kind,
        reference.namespace,
        reference.name,
        found=True,
        version=str(metadata.get("resourceVersion", "")),
        data={**plain, **binary},
        type=str(item.get("type", "")),
        read_ns=read_ns,
        uid=str(metadata.get("uid", "")),
        binary=tuple(sorted(binary)),
    )


def is_immutable(item: Json) -> bool:
    """Whether an object stays as it is for as long as it is there."""
    return item.get("immutable") is True


def _items(reference: ObjectReference, data: Any) -> list[tuple[str, Any]]:
    if data is None:
        return []
    if not isinstance(data, dict):
        _odd(reference, "data")
        return []
    return list(data.items())


def _decoded(reference: ObjectReference, data: Any) -> dict[str, bytes]:
    found = {}
    for key, value in _items(reference, data):
        try:
            found[key] = base64.b64decode(value or "", validate=True)
        except (binascii.Error, ValueError, TypeError):
            _odd(reference, f"data[{key}]")
    return found


def _text(reference: ObjectReference, key: str, value: Any) -> bytes | None:
    if not isinstance(value, str):
        _odd(reference, f"data[{key}]")
        return None
    return value.encode(errors="replace")


def _odd(reference: ObjectReference, field: str) -> None:
    """Say that a field is odd, and never what stands in it."""
    log.warning("Field of an object is not as it should be", object=reference.key, field=field)
