"""The control socket: JSON lines from a test, each a change to the running simulator."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any

from kubelet.cri import api_pb2 as pb

from .engine import Engine
from .faults import Fault, Faults
from .model import Container, Sandbox, SimError
from .runtime_service import RuntimeService
from .seeds import Seeds

_FAULT_FIELDS = ("call", "seconds", "code", "message", "times", "about", "after")


class ControlServer:
    """Does what the lines say. An error in one is answered, and costs nothing else."""

    def __init__(self, engine: Engine, faults: Faults, service: RuntimeService) -> None:
        self._engine = engine
        self._world = engine.world
        self._faults = faults
        self._service = service
        self._seeds = Seeds(engine)
        self._server: asyncio.Server | None = None
        self._actions: dict[str, Callable[..., Any]] = {
            name.removeprefix("do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }
        for kind in ("latency", "error", "hang", "garbage"):
            self._actions[kind] = self._fault

    async def start(self, path: str) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, path, limit=1 << 20)
        os.chmod(path, 0o600)

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            action = self._actions.get(asked["do"])
            if action is None:
                known = ", ".join(sorted(self._actions))
                return {"ok": False, "error": f"do {asked['do']!r} is not one of {known}"}
            name = asked.pop("do")
            fields = {"kind": name, **asked} if action == self._fault else asked
            made = action(**fields)
            answer = await made if asyncio.iscoroutine(made) else made
        except (ValueError, KeyError, TypeError, AttributeError, SimError) as err:
            return {"ok": False, "error": f"{type(err).__name__}: {err}"}
        self._engine.store.settle()
        return {"ok": True, **(answer or {})}

    # Faults.

    def _fault(self, kind: str, **fields: Any) -> None:
        if unknown := set(fields) - set(_FAULT_FIELDS):
            raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
        known = {m.name for s in pb.DESCRIPTOR.services_by_name.values() for m in s.methods} | {"*"}
        if fields["call"] not in known:
            raise ValueError(f"call {fields['call']!r} is not an RPC")
        self._faults.add(Fault(kind, **fields))

    def do_release(self, call: str = "*") -> dict[str, Any]:
        return {"lifted": self._faults.release(call)}

    def do_drop_events(self, count: int | None = None) -> None:
        self._engine.events.to_drop = count

    def do_end_streams(self) -> dict[str, Any]:
        return {"ended": self._engine.events.end_streams()}

    def do_condition(
        self, *, status: bool, reason: str = "", message: str = "", **fields: str
    ) -> None:
        kind = fields["type"]
        self._service.conditions[kind] = pb.RuntimeCondition(
            type=kind, status=status, reason=reason, message=message
        )

    # Things that happen.

    def do_kill(self, container: str, code: int = 137, reason: str = "") -> dict[str, Any]:
        found = self._container(container)
        self._engine.kill(found, code, reason)
        return {"id": found.id, "at": time.time()}

    async def do_kill_sandbox(self, sandbox: str) -> dict[str, Any]:
        found = self._sandbox(sandbox)
        await self._engine.stop_sandbox(found)
        return {"id": found.id, "at": time.time()}

    def do_create_foreign(self, kind: str, **fields: Any) -> dict[str, Any]:
        of = fields.pop("of", "")
        return {"id": self._seeds.foreign(kind, self._container(of) if of else None, **fields)}

    async def do_seed_pods(self, count: int, **fields: Any) -> dict[str, Any]:
        return await self._seeds.pods(count, **fields)

    async def do_remove_pods(self, prefix: str = "seed") -> dict[str, Any]:
        found = [
            s for s in self._world.sandboxes.values() if s.config.metadata.name.startswith(prefix)
        ]
        for sandbox in found:
            await self._engine.remove_sandbox(sandbox)
        return {"removed": len(found)}

    def do_image(self, pattern: str, **fields: Any) -> None:
        self._engine.images.set(pattern, **fields)

    # What is so.

    def do_ping(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    def do_exit(self) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return {"pid": os.getpid()}

    def do_reset_stats(self) -> None:
        self._faults.calls.clear()

    def do_stats(self) -> dict[str, Any]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        events = self._engine.events
        return {
            "calls": dict(self._faults.calls),
            "hanging": {k: v for k, v in self._faults.hanging.items() if v},
            "events": {
                "sent": events.sent,
                "dropped": events.dropped,
                "listeners": events.listeners,
            },
            "sandboxes": len(self._world.sandboxes),
            "containers": len(self._world.containers),
            "running": len(self._engine.runners),
            "images": len(self._engine.images.images),
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "max_rss_kib": usage.ru_maxrss,
        }

    def do_truth(self) -> dict[str, Any]:
        return {
            "sandboxes": [_sandbox_truth(s) for s in self._world.sandboxes.values()],
            "containers": [_container_truth(c) for c in self._world.containers.values()],
        }

    def _container(self, wanted: str) -> Container:
        for container in self._world.containers.values():
            if container.config.metadata.name == wanted:
                return container
        return self._world.container(wanted)

    def _sandbox(self, wanted: str) -> Sandbox:
        for sandbox in self._world.sandboxes.values():
            if sandbox.config.metadata.name == wanted:
                return sandbox
        return self._world.sandbox(wanted)


def _sandbox_truth(sandbox: Sandbox) -> dict[str, Any]:
    meta = sandbox.config.metadata
    return {
        "id": sandbox.id,
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "state": sandbox.state,
        "ip": sandbox.ip,
        "created_at": sandbox.created_at,
    }


def _container_truth(container: Container) -> dict[str, Any]:
    return {
        "id": container.id,
        "sandbox_id": container.sandbox_id,
        "name": container.config.metadata.name,
        "attempt": container.config.metadata.attempt,
        "state": container.state,
        "exit_code": container.exit_code,
        "reason": container.reason,
        "pid": container.pid,
        "created_at": container.created_at,
        "started_at": container.started_at,
        "finished_at": container.finished_at,
    }
