"""Pods that are there without a kubelet's calls: many at once, and odd ones."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from kubelet.cri import api_pb2 as pb

from . import messages
from .engine import Engine
from .model import EXITED, NOT_READY, READY, Container
from .programs import ANNOTATION

IMAGE = "registry.k8s.io/sim/app:1"
TURN = 50  # pods made before others get a turn


def pod_labels(name: str, namespace: str, uid: str, container: str = "") -> dict[str, str]:
    """The labels that a kubelet gives what it makes."""
    labels = {
        "io.kubernetes.pod.name": name,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.uid": uid,
    }
    if container:
        labels["io.kubernetes.container.name"] = container
    return labels


class Seeds:
    """Makes pods in the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._world = engine.world
        self._made: dict[str, int] = {}

    async def pods(
        self,
        count: int,
        *,
        containers: int = 2,
        program: str = "run",
        dead: int = 0,
        prefix: str = "seed",
        namespace: str = "default",
        log_directory: str = "",
    ) -> dict[str, Any]:
        """Running pods as a kubelet makes them; their UIDs."""
        began = time.perf_counter()
        self._engine.images.pull(IMAGE)
        uids = []
        first = self._made.get(prefix, 0)
        self._made[prefix] = first + count
        for number in range(first, first + count):
            name = f"{prefix}-{number}"
            uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace}/{name}"))
            uids.append(uid)
            sandbox_id = self._sandbox(name, namespace, uid, log_directory)
            for index in range(containers):
                await self._container(
                    sandbox_id, (name, namespace, uid), f"c{index}", program, dead
                )
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)
        # Lists are asked for at once: their parts are made here, not in the first answer.
        messages.container_list(self._world.containers.values())
        messages.sandbox_list(self._world.sandboxes.values())
        return {"uids": uids, "seconds": round(time.perf_counter() - began, 3)}

    def _sandbox(self, name: str, namespace: str, uid: str, log_directory: str) -> str:
        config = pb.PodSandboxConfig(hostname=name, labels=pod_labels(name, namespace, uid))
        config.metadata.name, config.metadata.namespace, config.metadata.uid = name, namespace, uid
        if log_directory:
            config.log_directory = f"{log_directory}/{namespace}_{name}_{uid}"
        config.annotations["kubernetes.io/config.source"] = "api"
        return self._engine.run_sandbox(config, "").id

    async def _container(
        self, sandbox_id: str, pod: tuple[str, str, str], name: str, program: str, dead: int
    ) -> None:
        for attempt in range(dead + 1):
            config = pb.ContainerConfig(labels=pod_labels(*pod, name))
            config.metadata.name, config.metadata.attempt = name, attempt
            config.image.image = IMAGE
            config.annotations[ANNOTATION] = program
            config.annotations["io.kubernetes.container.restartCount"] = str(attempt)
            config.annotations["io.kubernetes.container.hash"] = "1a2b3c4d"
            config.log_path = f"{name}/{attempt}.log"
            container = self._engine.create(sandbox_id, config)
            await self._engine.start(container)
            if attempt < dead:
                self._engine.kill(container, 1)

    def foreign(self, kind: str, of: Container | None, **fields: Any) -> str:
        """Something that no kubelet made, or that should not be; its ID."""
        makers = {
            "sandbox": self._foreign_sandbox,
            "container": self._foreign_container,
            "orphan": self._orphan,
            "duplicate": self._duplicate,
            "unknown": self._unknown,
        }
        if kind not in makers:
            raise ValueError(f"kind {kind!r} is not one of {', '.join(makers)}")
        if kind in ("duplicate", "unknown"):
            if of is None:
                raise ValueError(f"{kind} needs a container in 'of'")
            return makers[kind](of, **fields)
        return makers[kind](**fields)

    def _foreign_sandbox(self, name: str = "foreign", *, ready: bool = True) -> str:
        config = pb.PodSandboxConfig()
        config.metadata.name, config.metadata.uid = name, f"{name}-{self._world.new_id()[:8]}"
        sandbox = self._world.run_sandbox(config)
        if not ready:
            sandbox.state = NOT_READY
            sandbox.touch()
        return sandbox.id

    def _foreign_container(self, name: str = "foreign", state: int = pb.CONTAINER_RUNNING) -> str:
        sandbox_id = self._foreign_sandbox(f"{name}-pod")
        return self._put(sandbox_id, name, {}, state)

    def _orphan(
        self,
        name: str = "orphan",
        uid: str = "",
        state: int = pb.CONTAINER_RUNNING,
        namespace: str = "default",
    ) -> str:
        labels = pod_labels(name, namespace, uid, name) if uid else {}
        return self._put(self._world.new_id(), name, labels, state)

    def _duplicate(self, of: Container) -> str:
        """The same name and attempt in the same pod, which no runtime should allow."""
        made = self._copy(of)
        made.created_at = of.created_at
        return made.id

    def _unknown(self, of: Container, state: int = pb.CONTAINER_UNKNOWN) -> str:
        made = self._copy(of)
        made.config.metadata.attempt += 1000
        made.state = state
        return made.id

    def _copy(self, of: Container) -> Container:
        config = pb.ContainerConfig()
        config.CopyFrom(of.config)
        made = Container(self._world.new_id(), of.sandbox_id, config, time.time_ns())
        made.image_id, made.image_ref, made.pod = of.image_id, of.image_ref, of.pod
        made.state, made.started_at, made.finished_at = of.state, of.started_at, of.finished_at
        self._world.add(made)
        self._engine.changed()
        return made

    def _put(self, sandbox_id: str, name: str, labels: dict[str, str], state: int) -> str:
        config = pb.ContainerConfig(labels=labels)
        config.metadata.name = name
        config.image.image = IMAGE
        made = Container(self._world.new_id(), sandbox_id, config, time.time_ns())
        made.state, made.started_at = state, time.time_ns()
        if state == EXITED:
            made.finished_at = time.time_ns()
        sandbox = self._world.sandboxes.get(sandbox_id)
        made.pod = sandbox.name if sandbox and sandbox.state in (READY, NOT_READY) else name
        self._world.add(made)
        self._engine.changed()
        return made.id
