"""Runtime classes of the cluster: which handler of the runtime each stands for (P-164, N-62)."""

from __future__ import annotations

from typing import Final

from kubelet import logging as klog
from kubelet.cluster.rows import RuntimeClassRow, class_key
from procs.node.apiserver.types import Json, Watched
from procs.node.kit import Kit
from procs.node.objects.mirrored import Mirrored

log = klog.get_logger(__name__)

PATH: Final = "/apis/node.k8s.io/v1/runtimeclasses"


class RuntimeClasses:
    """Keeps table ``cluster`` true about runtime classes."""

    def __init__(self, kit: Kit) -> None:
        self._mirrored = Mirrored(
            kit,
            watched=Watched(PATH, name="runtime classes"),
            prefix="runtimeclass/",
            key_of=key_of,
            row_of=row_of,
            kind="runtime_classes",
        )

    def start(self) -> None:
        """List and watch."""
        self._mirrored.start()


def key_of(item: Json) -> str:
    """Return the key of a runtime class; "": it has no name."""
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        log.warning("Runtime class is passed over", field="metadata.name")
        return ""
    return class_key(name)


def row_of(item: Json) -> RuntimeClassRow | None:
    """Return the row of a runtime class; None: it names no handler."""
    handler = item.get("handler")
    name: str = item["metadata"]["name"]
    if not isinstance(handler, str) or not handler:
        log.warning("Runtime class is passed over", name=name, field="handler")
        return None
    return RuntimeClassRow(name, handler)
