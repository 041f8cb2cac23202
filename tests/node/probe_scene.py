"""Pods whose probes ask targets of the test, on any kubelet that uses a private containerd.

Probes are to find their servers from the first on, and these need the pod's network: such a pod has
a gate, an init container that waits until the targets are there.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.pki import Authority
from tests.node.containerd import Containerd
from tests.node.pod_node import Document, sh
from tests.node.probe_targets import (
    ExecTarget,
    GrpcTarget,
    HttpTarget,
    Mode,
    Servers,
    Target,
    TcpTarget,
    sandbox_of,
)
from tests.node.shared import pod

TYPES = ("exec", "http", "https", "tcp", "grpc")
PORTS = {"http": 8080, "https": 8443, "tcp": 7000, "grpc": 9000}
GATE = "until [ -e /notes/{name}.open ]; do sleep 0.05; done"
WITH_NOTES = {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}


class Scene:
    """Targets, and a directory of this machine that every container has as ``/notes``."""

    def __init__(self, containerd: Containerd, directory: Path, namespace: str = "default") -> None:
        self.directory = directory
        self.servers = Servers()
        self._containerd = containerd
        self._namespace = namespace
        self._tls: ssl.SSLContext | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def target(self, kind: str, name: str, port: int = 0) -> Target:
        """A target for the probes of one pod; a command's files have this name."""
        port = port or PORTS.get(kind, 0)
        match kind:
            case "exec":
                return ExecTarget(self.directory, name)
            case "http":
                return HttpTarget(self.servers, port)
            case "https":
                return HttpTarget(self.servers, port, self._certificate())
            case "tcp":
                return TcpTarget(self.servers, port)
            case "grpc":
                return GrpcTarget(self.servers, port)
            case _:
                raise ValueError(f"{kind} is no type of probe")

    def _certificate(self) -> ssl.SSLContext:
        """What a server with TLS needs; nobody has ever heard of who vouches for it."""
        if self._tls is None:
            place = self.directory / "pki"
            place.mkdir()
            pair = Authority(place).issue("pod", "pod", hosts=("pod.example",))
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(pair.certificate, pair.key)
        return self._tls

    def gated(self, name: str, *containers: Document, **spec: Any) -> Document:
        """A pod that begins when its targets are there."""
        gate = sh(GATE.format(name=name), "gate", **WITH_NOTES)
        inits = [gate, *spec.pop("initContainers", ())]
        return self.pod(name, *containers, initContainers=inits, **spec)

    def pod(self, name: str, *containers: Document, **spec: Any) -> Document:
        """A pod that can write notes."""
        volumes = [{"name": "notes", "hostPath": {"path": str(self.directory)}}]
        return pod(name, *containers, volumes=volumes, **spec)

    def open(self, name: str, full: str, *targets: Target) -> None:
        """Put targets at the address of a pod, and let it begin; ``full`` is its whole name."""
        pid = sandbox_of(self._containerd, full, self._namespace)
        for target in targets:
            target.attach(pid)
        (self.directory / f"{name}.open").touch()

    # Notes of containers.

    def lines(self) -> list[str]:
        """What containers wrote into ``/notes/lines`` so far."""
        path = self.directory / "lines"
        return path.read_text().splitlines() if path.exists() else []

    def touch(self, name: str) -> None:
        """Make a file that containers look for."""
        (self.directory / name).touch()


@contextmanager
def scene(containerd: Containerd, directory: Path, namespace: str = "default") -> Iterator[Scene]:
    """A scene of a test; no server of it is left."""
    made = Scene(containerd, directory, namespace)
    try:
        yield made
    finally:
        made.servers.close()


def probe(target: Target, **more: Any) -> Document:
    """A probe that asks a target once a second, and is sure at once."""
    given = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1, **more}
    return {**target.handler, **given}


def run(script: str, **more: Any) -> Document:
    """A probe that runs a shell script once a second, and is sure at once."""
    given = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1, **more}
    return {"exec": {"command": ["sh", "-c", script]}, **given}


def failed(kind: str, target: Target, mode: Mode) -> re.Pattern[str]:
    """The message of the event about a failed probe (B-16)."""
    return re.compile(rf"{kind} probe failed: {target.words(mode)}\n?", re.DOTALL)


def ready_of(status: Document) -> str:
    """What a status says of the pod's readiness."""
    found = (c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready")
    return str(next(found, ""))
