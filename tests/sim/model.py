"""What the simulated runtime keeps: sandboxes and containers, and how they are written to disk."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from kubelet.cri import api_pb2 as pb

CREATED = pb.CONTAINER_CREATED
RUNNING = pb.CONTAINER_RUNNING
EXITED = pb.CONTAINER_EXITED
READY = pb.SANDBOX_READY
NOT_READY = pb.SANDBOX_NOTREADY


class SimError(Exception):
    """A call that fails: the name of a gRPC status code and words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class Sandbox:
    """A pod sandbox."""

    id: str
    config: pb.PodSandboxConfig
    created_at: int
    runtime_handler: str = ""
    state: int = READY
    ip: str = ""
    pid: int = 0
    frame: bytes | None = field(default=None, repr=False)  # how it stands in a list
    record: str | None = field(default=None, repr=False)  # how it stands in the state file

    def touch(self) -> None:
        """Forget the prepared forms: something changed."""
        self.frame = self.record = None

    @property
    def name(self) -> str:
        """The name that no other sandbox may have."""
        meta = self.config.metadata
        return f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"

    def to_json(self) -> str:
        """The record for the state file."""
        if self.record is None:
            self.record = _to_json(self, ("config",))
        return self.record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Sandbox:
        """The sandbox of a record."""
        config = pb.PodSandboxConfig.FromString(base64.b64decode(record.pop("config")))
        return cls(config=config, **record)


@dataclass(slots=True)
class Container:
    """A container."""

    id: str
    sandbox_id: str
    config: pb.ContainerConfig
    created_at: int
    image_id: str = ""
    image_ref: str = ""
    log_path: str = ""
    state: int = CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    pid: int = 0
    pod: str = ""  # the sandbox's name, for the container's own
    frame: bytes | None = field(default=None, repr=False)
    record: str | None = field(default=None, repr=False)

    def touch(self) -> None:
        """Forget the prepared forms: something changed."""
        self.frame = self.record = None

    @property
    def name(self) -> str:
        """The name that no other container may have."""
        meta = self.config.metadata
        return f"{meta.name}_{self.pod}_{meta.attempt}"

    def to_json(self) -> str:
        """The record for the state file."""
        if self.record is None:
            self.record = _to_json(self, ("config",))
        return self.record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Container:
        """The container of a record."""
        config = pb.ContainerConfig.FromString(base64.b64decode(record.pop("config")))
        return cls(config=config, **record)


def _to_json(thing: Sandbox | Container, messages: tuple[str, ...]) -> str:
    record: dict[str, Any] = {}
    for name in thing.__slots__:
        if name in ("frame", "record"):
            continue
        value = getattr(thing, name)
        if name in messages:
            value = base64.b64encode(value.SerializeToString()).decode()
        record[name] = value
    return json.dumps(record, separators=(",", ":"))
