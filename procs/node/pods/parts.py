"""The parts of a pod object as the API server sends it, and what is odd about one. Pure.

A pod is kept as plain JSON. Whatever passed :func:`pod_of` has the parts that are used here, each
of its type, so that nobody after it has to look again.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kubelet.config.errors import one_line
from procs.node.apiserver.types import Json

MIRROR: Final = "kubernetes.io/config.mirror"
HASH: Final = "kubernetes.io/config.hash"
TERMINAL: Final = frozenset({"Succeeded", "Failed"})

# What paths, tables and directories are made of: nothing in it may lead elsewhere.
_TEXTS: Final = {
    "uid": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
    "name": re.compile(r"[a-z0-9][a-z0-9.-]{0,252}"),
    "namespace": re.compile(r"[a-z0-9][a-z0-9-]{0,62}"),
}


class OddError(ValueError):
    """An object is none that can be worked with; its text names the object and the field."""


def pod_of(item: object) -> Json:
    """Return a pod without what nobody here reads; OddError if it lacks what everybody needs."""
    if not isinstance(item, dict):
        raise OddError("an item of the pod list is no object")
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        raise OddError("a pod without metadata")
    for field, allowed in _TEXTS.items():
        if not isinstance(metadata.get(field), str) or not allowed.fullmatch(metadata[field]):
            raise OddError(f"pod {_named(metadata)}: metadata.{field} is no {field}")
    for field in ("annotations", "labels"):
        if not isinstance(metadata.get(field) or {}, dict):
            raise OddError(f"pod {_named(metadata)}: metadata.{field} is no map")
    if not isinstance(item.get("spec"), dict):
        raise OddError(f"pod {_named(metadata)}: spec is no object")
    if not isinstance(item.get("status") or {}, dict):
        raise OddError(f"pod {_named(metadata)}: status is no object")
    return {
        "apiVersion": "v1",  # items of a list have neither
        "kind": "Pod",
        "metadata": {k: v for k, v in metadata.items() if k != "managedFields"},
        "spec": item["spec"],
        "status": item.get("status") or {},
    }


def uid_in(item: object) -> str:
    """Return the UID of what may be anything; "" if it has none."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def _named(metadata: Json) -> str:
    return one_line(f"{metadata.get('namespace')}/{metadata.get('name')}"[:400])


def uid_of(pod: Json) -> str:
    """Return a pod's UID."""
    return str(pod["metadata"]["uid"])


def name_of(pod: Json) -> tuple[str, str]:
    """Return a pod's namespace and name."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def shown(pod: Json) -> str:
    """Return how a pod is called in a sentence."""
    return _named(pod["metadata"])


def path_of(pod: Json) -> str:
    """Return the path of a pod's object."""
    namespace, name = name_of(pod)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def version_of(pod: Json) -> str:
    """Return a pod's resourceVersion."""
    return str(pod["metadata"].get("resourceVersion", ""))


def annotation(pod: Json, name: str) -> str | None:
    """Return an annotation; None if there is none."""
    found = (pod["metadata"].get("annotations") or {}).get(name)
    return None if found is None else str(found)


def is_mirror(pod: Json) -> bool:
    """Whether a pod only shows what runs here by other means (P-10)."""
    return annotation(pod, MIRROR) is not None


def deleting(pod: Json) -> bool:
    """Whether a pod is to end."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def named(items: object, key: str = "type") -> dict[str, Json]:
    """Return the objects of a list by a text of theirs; what is no such object is left out."""
    found: dict[str, Json] = {}
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and isinstance(item.get(key), str):
            found.setdefault(item[key], item)
    return found


def bare(value: Any) -> Any:
    """Return a value without what says nothing, as the API leaves out or sets to its zero.

    Numbers and booleans stay: there, nothing and zero are told apart.
    """
    if isinstance(value, dict):
        parts = {key: bare(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", {}, [])}
    if isinstance(value, list):
        return [bare(part) for part in value]
    return value
