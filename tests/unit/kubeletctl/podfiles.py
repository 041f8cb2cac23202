"""Real tables and rings with pods in them, written as the processes write them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from kubelet.pods.rows import (
    EVENTS,
    MOUNTS,
    PODS,
    SOURCES_KEY,
    STATUS,
    Event,
    EventsRow,
    MountsRow,
    PodRow,
    SourcesRow,
    StatusRow,
    WorkRow,
)
from kubelet.times import to_text
from shm.codec import pack
from shm.recorder import RecorderWriter
from shm.table import Writer
from shm.tables import TABLES

INFLIGHT = "inflight"
SECOND = 10**9
IMAGE = "image registry.local/x:1"  # what a pod waits for


class Tables:
    """The tables below a run directory."""

    def __init__(self, root: Path) -> None:
        (root / "tables").mkdir(exist_ok=True)
        self._root = root
        self._writers: dict[str, Writer] = {}

    def put(self, table: str, key: str, row: Any) -> None:
        """Write a row, or any value in its place."""
        value = row.to_wire() if hasattr(row, "to_wire") else row
        self._writer(table).put(key, pack(value))

    def _writer(self, table: str) -> Writer:
        if table not in self._writers:
            declaration = next(one for one in TABLES if one.name == table)
            self._writers[table] = Writer.attach(self._root / "tables", declaration)
        return self._writers[table]

    def make(self, writer: str = "") -> Tables:
        """Make the tables of one process, or of all, that have nothing in them too."""
        for declaration in TABLES:
            if writer in {"", declaration.writer}:
                self._writer(declaration.name)
        return self

    def pod(self, row: PodRow, status: dict[str, Any] | None = None, **work: Any) -> None:
        """Write a pod with its status and what its worker is at."""
        self.put(PODS, row.uid, row)
        if status is not None:
            data = json.dumps(status).encode()
            self.put(STATUS, row.uid, StatusRow(row.uid, row.name, row.namespace, 1, data))
        if work:
            self.put(INFLIGHT, row.uid, WorkRow(row.uid, **work))

    def events(self, row: PodRow, *events: Event) -> None:
        self.put(EVENTS, row.uid, EventsRow(row.uid, row.name, row.namespace, events))

    def mounts(self, row: PodRow, *volumes: Any) -> None:
        self.put(MOUNTS, row.uid, MountsRow(row.uid, 1, volumes))

    def sources(self, *problems: str, **delivered: bool) -> None:
        self.put(EVENTS, SOURCES_KEY, SourcesRow(delivered, problems))

    def remove(self, uid: str) -> None:
        """Take a pod away, as when it is gone for good."""
        for table in (PODS, STATUS, INFLIGHT):
            self._writer(table).delete(uid)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def ago(seconds: float) -> int:
    """A moment on the wall clock."""
    return time.time_ns() - int(seconds * SECOND)


def text_ago(seconds: float) -> str:
    """The same, as the API writes it."""
    return to_text(ago(seconds))


def pod(name: str = "web", namespace: str = "default", uid: str = "", **fields: Any) -> PodRow:
    """A pod with one container; ``spec`` and ``metadata`` add to its document."""
    uid = uid or f"uid-{name}"
    spec = {"containers": [{"name": "main", "image": "busybox:1"}], "nodeName": "node-1"}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": text_ago(1215),
            **fields.pop("metadata", {}),
        },
        "spec": {**spec, **fields.pop("spec", {})},
    }
    values = {"source": "file", "document": json.dumps(document).encode()}
    return PodRow(uid, name, namespace, **{**values, **fields})


def container(name: str = "main", restarts: int = 0, **state: Any) -> dict[str, Any]:
    """The status of a container: ready when it runs."""
    running = not state or "running" in state
    return {
        "name": name,
        "state": state or {"running": {"startedAt": text_ago(60)}},
        "ready": running,
        "started": running,
        "restartCount": restarts,
        "image": "busybox:1",
        "imageID": "sha256:1",
    }


def status(*containers: dict[str, Any], ready: bool = True, **fields: Any) -> dict[str, Any]:
    """The status of a pod that runs."""
    word = "True" if ready else "False"
    return {
        "phase": "Running",
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": word, "lastTransitionTime": text_ago(50)},
        ],
        "containerStatuses": list(containers) or [container()],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.5",
        "podIPs": [{"ip": "10.1.0.5"}],
        "qosClass": "BestEffort",
        "startTime": text_ago(70),
        **fields,
    }


def ring(
    root: Path, kind: str, *records: tuple[float, str, str, str], base_ns: int | None = None
) -> None:
    """Write a ring: offset in seconds, what, text, pod; from 100 s ago on, or from a moment."""
    (root / "recorder").mkdir(exist_ok=True)
    base = time.monotonic_ns() - 100 * SECOND if base_ns is None else base_ns
    wall = time.time_ns() - time.monotonic_ns() + base
    at = [0.0]
    writer = RecorderWriter.create(
        root / "recorder" / kind,
        clock=lambda: base + int(at[0] * SECOND),
        wall=lambda: wall + int(at[0] * SECOND),
    )
    for at[0], what, text, uid in records:
        writer.record(what, text, uid)
    writer.close()
