"""The runtime's state machine: what each call does to sandboxes and containers. Nothing here waits.

    sandbox     READY -- stop, or its own death --> NOTREADY -- remove --> gone
    container   CREATED -- start --> RUNNING -- exit --> EXITED -- remove --> gone

Every change is told to ``observe``; refusals are ``SimError`` with the words that containerd uses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kubelet.cri import api_pb2 as pb

from .model import CREATED, EXITED, NOT_READY, READY, RUNNING, Container, Sandbox, SimError

# No process can have a number above the kernel's PID_MAX_LIMIT: a made-up one is nobody's.
FIRST_FAKE_PID = 4194304 + 1
POD_ADDRESSES = 200 * 254  # 127.16.0.1 and up

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """Something happened to a sandbox or a container."""

    kind: int  # a ContainerEventType
    id: str
    sandbox_id: str
    at: int


class World:
    """Every sandbox and container of the runtime."""

    def __init__(
        self,
        clock: Callable[[], int],
        seed: int = 0,
        observe: Callable[[Change], None] | None = None,
    ) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self.members: dict[str, set[str]] = {}  # sandbox -> its containers
        self.boots = 0
        self._names: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._clock = clock
        self._seed = seed
        self._random = random.Random(f"{seed}/0")
        self._observe = observe or (lambda _change: None)
        self._next_pid = FIRST_FAKE_PID
        self._next_address = 0

    # Sandboxes.

    def run_sandbox(self, config: pb.PodSandboxConfig, handler: str = "") -> Sandbox:
        """A new sandbox, ready."""
        if not config.HasField("metadata") or not config.metadata.name:
            raise SimError("UNKNOWN", "sandbox config must include metadata")
        sandbox = Sandbox(self.new_id(), config, self._clock(), handler)
        self._reserve("sandbox", sandbox.name, sandbox.id)
        if config.linux.security_context.namespace_options.network != pb.NODE:
            sandbox.ip = self._address(sandbox.id)
        sandbox.pid = self.fake_pid()
        self.sandboxes[sandbox.id] = sandbox
        self.members[sandbox.id] = set()
        self._tell(pb.CONTAINER_CREATED_EVENT, sandbox.id, sandbox.id)
        self._tell(pb.CONTAINER_STARTED_EVENT, sandbox.id, sandbox.id)
        return sandbox

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """The sandbox with this ID, or the only one that it is the beginning of."""
        return _find(self.sandboxes, sandbox_id, "sandbox")

    def sandbox_ended(self, sandbox: Sandbox) -> None:
        """A sandbox that is no longer ready: it was stopped, or it died."""
        if sandbox.state == NOT_READY:
            return
        sandbox.state, sandbox.pid = NOT_READY, 0
        self._addresses.pop(sandbox.ip, None)
        sandbox.touch()
        self._tell(pb.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox.id)

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Take it away, with what is left of its containers (which run no more)."""
        for container_id in sorted(self.members.get(sandbox.id, ())):
            self.remove(self.containers[container_id])
        self.sandbox_ended(sandbox)
        self.sandboxes.pop(sandbox.id, None)
        self.members.pop(sandbox.id, None)
        self._release(sandbox.name, sandbox.id)
        self._tell(pb.CONTAINER_DELETED_EVENT, sandbox.id, sandbox.id)

    # Containers.

    def create(
        self, sandbox_id: str, config: pb.ContainerConfig, image_id: str, image_ref: str
    ) -> Container:
        """A new container, not yet started."""
        sandbox = self.sandbox(sandbox_id)
        if sandbox.state != READY:
            raise SimError("UNKNOWN", f'sandbox container "{sandbox.id}" is not running')
        if not config.HasField("metadata") or not config.metadata.name:
            raise SimError("UNKNOWN", "container config must include metadata")
        container = Container(self.new_id(), sandbox.id, config, self._clock())
        container.pod = sandbox.name
        container.image_id, container.image_ref = image_id, image_ref
        if config.log_path and sandbox.config.log_directory:
            container.log_path = f"{sandbox.config.log_directory.rstrip('/')}/{config.log_path}"
        self._reserve("container", container.name, container.id)
        self.add(container)
        self._tell(pb.CONTAINER_CREATED_EVENT, container.id, sandbox.id)
        return container

    def add(self, container: Container) -> None:
        """Take a container in as it is; its sandbox may be unknown."""
        self.containers[container.id] = container
        self.members.setdefault(container.sandbox_id, set()).add(container.id)

    def container(self, container_id: str) -> Container:
        """The container with this ID, or the only one that it is the beginning of."""
        return _find(self.containers, container_id, "container")

    def start(self, container: Container, pid: int) -> None:
        """It runs."""
        self.check_startable(container)
        container.state, container.pid = RUNNING, pid
        container.started_at = self._clock()
        container.touch()
        self._tell(pb.CONTAINER_STARTED_EVENT, container.id, container.sandbox_id)

    def check_startable(self, container: Container) -> None:
        """Refuse a container that was started before, or that has no place to run in."""
        if container.state != CREATED:
            known = pb.ContainerState.DESCRIPTOR.values_by_number.get(container.state)
            state = known.name if known else container.state
            raise SimError("UNKNOWN", f'container "{container.id}" is in {state} state')
        sandbox = self.sandboxes.get(container.sandbox_id)
        if sandbox is None or sandbox.state != READY:
            text = f'sandbox container "{container.sandbox_id}" is not running'
            raise SimError("UNKNOWN", text)

    def exited(self, container: Container, code: int, reason: str = "", message: str = "") -> None:
        """It ended, by itself or by force."""
        if container.state == EXITED:
            return
        container.state, container.pid = EXITED, 0
        container.exit_code, container.message = code, message
        container.reason = reason or ("Completed" if code == 0 else "Error")
        container.finished_at = self._clock()
        container.touch()
        self._tell(pb.CONTAINER_STOPPED_EVENT, container.id, container.sandbox_id)

    def remove(self, container: Container) -> None:
        """Take it away."""
        self.containers.pop(container.id, None)
        self.members.get(container.sandbox_id, set()).discard(container.id)
        self._release(container.name, container.id)
        self._tell(pb.CONTAINER_DELETED_EVENT, container.id, container.sandbox_id)

    def in_sandbox(self, sandbox_id: str) -> list[Container]:
        """The containers of a sandbox, oldest first."""
        found = (self.containers[i] for i in self.members.get(sandbox_id, ()))
        return sorted(found, key=lambda c: (c.created_at, c.id))

    # Identity.

    def new_id(self) -> str:
        """An ID as runtimes give them: 64 hexadecimal digits."""
        while True:
            made = f"{self._random.getrandbits(256):064x}"
            if made not in self.sandboxes and made not in self.containers:
                return made

    def fake_pid(self) -> int:
        """A process number that nobody has."""
        self._next_pid += 1
        return self._next_pid

    def _reserve(self, kind: str, name: str, owner: str) -> None:
        holder = self._names.setdefault(name, owner)
        if holder != owner:
            text = (
                f'failed to reserve {kind} name "{name}": name "{name}" is reserved for "{holder}"'
            )
            raise SimError("UNKNOWN", text)

    def _release(self, name: str, owner: str) -> None:
        if self._names.get(name) == owner:
            del self._names[name]

    def _address(self, owner: str) -> str:
        for _ in range(POD_ADDRESSES):
            number = self._next_address % POD_ADDRESSES
            self._next_address += 1
            ip = f"127.{16 + number // (254 * 254)}.{number // 254 % 254}.{number % 254 + 1}"
            if self._addresses.setdefault(ip, owner) == owner:
                return ip
        raise SimError("UNKNOWN", "failed to setup network: no free address in the pod subnet")

    def _tell(self, kind: int, thing: str, sandbox_id: str) -> None:
        self._observe(Change(kind, thing, sandbox_id, self._clock()))

    # The state file.

    def records(self) -> Iterator[str]:
        """Every record, each a JSON object that names its kind."""
        yield f'{{"boots":{self.boots},"next_address":{self._next_address}}}'
        for sandbox in self.sandboxes.values():
            yield f'{{"sandbox":{sandbox.to_json()}}}'
        for container in self.containers.values():
            yield f'{{"container":{container.to_json()}}}'

    def load(self, records: list[dict[str, Any]]) -> None:
        """Take the records of an earlier life. IDs of this life differ from those of that one."""
        for record in records:
            if "boots" in record:
                self.boots = record["boots"] + 1
                self._next_address = record["next_address"]
                self._random = random.Random(f"{self._seed}/{self.boots}")
            elif "sandbox" in record:
                sandbox = Sandbox.from_json(record["sandbox"])
                self.sandboxes[sandbox.id] = sandbox
                self.members.setdefault(sandbox.id, set())
                self._names.setdefault(sandbox.name, sandbox.id)
                if sandbox.ip and sandbox.state == READY:
                    self._addresses[sandbox.ip] = sandbox.id
            elif "container" in record:
                container = Container.from_json(record["container"])
                self.add(container)
                self._names.setdefault(container.name, container.id)


def _find(things: dict[str, T], wanted: str, kind: str) -> T:
    found = things.get(wanted)
    if found is None and wanted:
        matches = [value for key, value in things.items() if key.startswith(wanted)]
        found = matches[0] if len(matches) == 1 else None
    if found is None:
        text = f'an error occurred when try to find {kind} "{wanted}": not found'
        raise SimError("NOT_FOUND", text)
    return found
