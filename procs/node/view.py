"""This node's object as it was heard of last, for the parts that need its UID, labels or age."""

from __future__ import annotations

import json
from collections.abc import Callable

from kubelet.cluster.rows import CLUSTER, NODE_KEY, NodeRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.node.apiserver.types import Json, Reference


class NodeView:
    """The one place that holds the Node object; whoever hears of it says so here."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.name = process.node
        self.document: Json | None = None  # None: there is none, for all we know
        self._listeners: list[Callable[[], None]] = []
        self._row: NodeRow | None = None

    def load(self) -> None:
        """Take what a predecessor had heard."""
        value = self._process.tables.value(CLUSTER, NODE_KEY)
        try:
            row = NodeRow.from_wire(value) if value is not None else None
        except BadRecordError:
            row = None
        if row is not None and row.name == self.name and row.document:
            self._row = row
            self.document = json.loads(row.document)

    def heard(self, document: Json | None) -> None:
        """Take the object as the API server has it now; None: there is none."""
        self.document = document
        row = NodeRow(self.name)
        if document is not None:
            metadata = {k: v for k, v in document["metadata"].items() if k != "managedFields"}
            status = {k: v for k, v in document.get("status", {}).items() if k != "images"}
            told = {**document, "metadata": metadata, "status": status}
            text = json.dumps(told, separators=(",", ":")).encode()
            row = NodeRow(self.name, metadata.get("uid", ""), text)
        if row != self._row:
            self._row = row
            self._process.put(CLUSTER, NODE_KEY, row.to_wire())
        for listener in self._listeners:
            listener()

    def on_heard(self, listener: Callable[[], None]) -> None:
        """Call back each time that something was heard."""
        self._listeners.append(listener)

    @property
    def uid(self) -> str:
        """The object's UID; "" if there is none."""
        return str(self.document["metadata"].get("uid", "")) if self.document else ""

    @property
    def deleting(self) -> bool:
        """Whether somebody is deleting the object."""
        return bool(self.document and self.document["metadata"].get("deletionTimestamp"))

    @property
    def reference(self) -> Reference:
        """The node as events name it: by its name while there is no UID (Q-1)."""
        return Reference("Node", self.name, uid=self.uid or self.name)
