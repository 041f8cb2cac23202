"""Events as the API has them (core/v1). Pure."""

from __future__ import annotations

import time
from typing import Final

from procs.node.apiserver.types import Json, Reference
from procs.node.events.book import Entry

COMPONENT: Final = "kubelet"
DEFAULT: Final = "default"  # namespace of events about what has none
_NAME_LIMIT: Final = 253
_SECOND_NS: Final = 1_000_000_000


def namespace_of(about: Reference) -> str:
    """Return the namespace that events about an object are in."""
    return about.namespace or DEFAULT


def collection(about: Reference) -> str:
    """Return the path of the collection that events about an object are in."""
    return f"/api/v1/namespaces/{namespace_of(about)}/events"


def name_of(about: Reference, name_ns: int) -> str:
    """Return the name of an event: the object's, and a time in hexadecimal digits."""
    tail = f".{name_ns:x}"
    return about.name[: _NAME_LIMIT - len(tail)].rstrip(".-") + tail


def timestamp(wall_ns: int) -> str:
    """Return a moment as the API writes it, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall_ns // _SECOND_NS))


def document(about: Reference, entry: Entry, node: str) -> Json:
    """Return a new event."""
    involved = {
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
        "apiVersion": about.api_version,
        "fieldPath": entry.field_path,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name_of(about, entry.name_ns),
            "namespace": namespace_of(about),
        },
        "involvedObject": {name: value for name, value in involved.items() if value},
        "reason": entry.reason,
        "message": entry.message,
        "source": {"component": COMPONENT, "host": node},
        "firstTimestamp": timestamp(entry.first_ns),
        "lastTimestamp": timestamp(entry.last_ns),
        "count": entry.count,
        "type": entry.type,
        "eventTime": None,
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }


def repetition(entry: Entry) -> Json:
    """Return the patch that makes an event say how often it has happened by now."""
    return {
        "count": entry.count,
        "lastTimestamp": timestamp(entry.last_ns),
        "message": entry.message,
    }
