"""The runtime at work: the state machine, running programs, images, events and the state file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from kubelet.cri import api_pb2 as pb

from . import messages, programs
from .events import Broadcast
from .images import Image, Images
from .listeners import Listeners
from .logs import Log
from .model import CREATED, EXITED, RUNNING, Container, Sandbox, SimError
from .processes import Processes, start_time
from .runner import Hooks, Runner
from .shell import Shell
from .store import Store
from .world import Change, World

KILLED = 137


@dataclass(frozen=True, slots=True)
class Settings:
    """What is fixed at the start."""

    state: str = ""
    seed: int = 0
    real_pids: bool = False
    handlers: tuple[str, ...] = ("", "runc")
    mountpoint: str = "/"


class Engine:
    """Every call's work. It lives in one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.world = World(time.time_ns, settings.seed, self._observe)
        self.images = Images()
        self.events = Broadcast()
        self.listeners = Listeners()
        self.store = Store(settings.state, self._records)
        self.outputs: dict[str, set[asyncio.Queue[tuple[str, bytes] | None]]] = {}
        self.runners: dict[str, Runner] = {}
        self._files: dict[str, dict[str, str]] = {}  # what a container wrote in its own root
        self._ended: dict[str, asyncio.Event] = {}
        self._processes: Processes | None = None
        if settings.real_pids:
            self._processes = Processes(self._process_ended, survive=bool(settings.state))

    # Sandboxes.

    def run_sandbox(self, config: pb.PodSandboxConfig, handler: str) -> Sandbox:
        """A new sandbox; the handler must be a known one."""
        if handler not in self.settings.handlers:
            text = f'failed to get sandbox runtime: no runtime for "{handler}" is configured'
            raise SimError("UNKNOWN", text)
        _check_sandbox(config)
        return self.world.run_sandbox(config, handler)

    async def stop_sandbox(self, sandbox: Sandbox) -> None:
        """End its containers by force, then itself."""
        for container in self.world.in_sandbox(sandbox.id):
            self.kill(container)
        self.world.sandbox_ended(sandbox)

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Take it away with all that is in it."""
        await self.stop_sandbox(sandbox)
        for container in self.world.in_sandbox(sandbox.id):
            self._files.pop(container.id, None)
        self.world.remove_sandbox(sandbox)

    # Containers.

    def create(self, sandbox_id: str, config: pb.ContainerConfig) -> Container:
        """A new container of an image that is here."""
        sandbox = self.world.sandbox(sandbox_id)
        image = self.images.find(config.image.image)
        if image is None:
            name = config.image.image
            raise SimError("UNKNOWN", f'failed to resolve image "{name}": not found')
        program = self._program(config, sandbox)
        if program.fail_create:
            raise SimError(
                "UNKNOWN", f"failed to create containerd container: {program.fail_create}"
            )
        _check_container(config)
        reference = image.digests[0] if image.digests else image.id
        return self.world.create(sandbox.id, config, image.id, reference)

    async def start(self, container: Container) -> None:
        """Run its program."""
        self.world.check_startable(container)
        sandbox = self.world.sandbox(container.sandbox_id)
        program = self._program(container.config, sandbox)
        if program.slow_start:
            await asyncio.sleep(program.slow_start)
            self.world.check_startable(container)
        if program.fail_start:
            self.world.exited(container, 128, "StartError", program.fail_start)
            text = f"failed to create containerd task: {program.fail_start}"
            raise SimError("UNKNOWN", text)
        pid = self._processes.spawn() if self._processes else self.world.fake_pid()
        self.world.start(container, pid)
        self._runner(container, sandbox).start()
        await asyncio.sleep(0)  # its first steps are done when the call is answered

    async def stop(self, container: Container, grace: float) -> None:
        """SIGTERM, a grace period, SIGKILL."""
        if container.state == CREATED:
            return
        runner = self.runners.get(container.id)
        if runner is not None and grace > 0:
            runner.term()
            ended = self._ended.setdefault(container.id, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), grace)
        self.kill(container)

    def kill(self, container: Container, code: int = KILLED, reason: str = "") -> None:
        """It ends now, if it runs."""
        runner = self.runners.get(container.id)
        if runner is not None:
            runner.kill(code, reason)
        elif container.state not in (CREATED, EXITED):
            self.world.exited(container, code, reason)

    async def remove(self, container: Container) -> None:
        """Take it away, by force if it runs."""
        self.kill(container)
        self._files.pop(container.id, None)
        self.world.remove(container)

    def _program(self, config: pb.ContainerConfig, sandbox: Sandbox | None) -> programs.Program:
        pod = sandbox.config if sandbox else pb.PodSandboxConfig()
        asked = config.image.user_specified_image or config.image.image
        try:
            return programs.choose(config, pod, self.images.picture(asked))
        except ValueError as err:
            text = f"annotation {programs.ANNOTATION}: {err}"
            raise SimError("INVALID_ARGUMENT", text) from err

    def shell(self, container: Container) -> Shell:
        """What exec in a container sees."""
        files = self._files.setdefault(container.id, {})
        shell = programs.shell_of(container, self.world.sandboxes.get(container.sandbox_id), files)
        shell.unknown = "fail"
        return shell

    def _runner(self, container: Container, sandbox: Sandbox | None) -> Runner:
        program = self._program(container.config, sandbox)
        shell = self.shell(container)
        shell.unknown = "run"

        def output(stream: str, data: bytes) -> None:
            for queue in self.outputs.get(container.id, ()):
                queue.put_nowait((stream, data))

        hooks = Hooks(
            ended=lambda code, reason: self._container_ended(container, code, reason),
            listen=lambda port: self.listeners.open(container.id, sandbox, port),
            output=output,
        )
        runner = Runner(program.block, shell, Log(container.log_path, time.time_ns), hooks)
        if not container.config.stdin:
            runner.feed(b"")
        self.runners[container.id] = runner
        return runner

    def _container_ended(self, container: Container, code: int, reason: str) -> None:
        self.runners.pop(container.id, None)
        self.listeners.close(container.id)
        if self._processes:
            self._processes.end(container.pid)
        self.world.exited(container, code, reason)
        for queue in self.outputs.pop(container.id, ()):
            queue.put_nowait(None)
        ended = self._ended.pop(container.id, None)
        if ended is not None:
            ended.set()

    def _process_ended(self, pid: int, code: int) -> None:
        for container in self.world.containers.values():
            if container.pid == pid and container.state == RUNNING:
                self.kill(container, code)
                return

    # Images.

    async def pull(self, reference: str, *, authenticated: bool) -> Image:
        """Have an image, after the time that its pull takes."""
        await asyncio.sleep(self.images.picture(reference).pull_seconds)
        image = self.images.pull(reference, authenticated=authenticated)
        self.changed()
        return image

    # What happened.

    def _observe(self, change: Change) -> None:
        self.changed()
        if not self.events.wanted():
            return
        event = pb.ContainerEventResponse(container_id=change.id, created_at=change.at)
        event.container_event_type = change.kind
        sandbox = self.world.sandboxes.get(change.sandbox_id)
        if sandbox is not None:
            event.pod_sandbox_status.CopyFrom(messages.sandbox_status(sandbox))
        members = self.world.in_sandbox(change.sandbox_id)
        event.containers_statuses.extend(messages.container_status(c) for c in members)
        self.events.send(event)

    def changed(self) -> None:
        """Write the state soon: a call writes it before its answer, a timer a moment later."""
        self.store.changed()
        if self.settings.state:
            asyncio.get_running_loop().call_soon(self.store.settle)

    # Life.

    def _records(self) -> Iterator[str]:
        yield from self.world.records()
        for image in self.images.records():
            yield json.dumps(image)
        if self._processes:
            running = (c for c in self.world.containers.values() if c.state == RUNNING)
            yield json.dumps({"processes": {c.pid: start_time(c.pid) for c in running}})

    def load(self) -> None:
        """Find the state of an earlier life, and go on with what has run all the time."""
        self.store.tidy()
        records = self.store.read()
        self.world.load(records)
        self.images.load(records)
        began: dict[str, str] = {}
        for record in records:
            began.update(record.get("processes", {}))
        for container in list(self.world.containers.values()):
            if container.state == RUNNING:
                self._resume(container, began.get(str(container.pid), ""))

    def _resume(self, container: Container, began: str) -> None:
        if self._processes and not self._processes.adopt(container.pid, began):
            self.world.exited(container, KILLED)
            return
        sandbox = self.world.sandboxes.get(container.sandbox_id)
        elapsed = (time.time_ns() - container.started_at) / 1e9
        self._runner(container, sandbox).resume(elapsed)

    async def close(self) -> None:
        """Let go of everything; with a state file, containers go on in the next life."""
        self.store.settle()
        for runner in list(self.runners.values()):
            runner.close()
        await self.listeners.close_all()
        if self._processes:
            self._processes.close()


def _check_sandbox(config: pb.PodSandboxConfig) -> None:
    """Refuse what every runtime refuses, though nothing here would need it."""
    context = config.linux.security_context
    if context.HasField("run_as_group") and not context.HasField("run_as_user"):
        raise SimError("UNKNOWN", "user is required when group is specified")
    users = context.namespace_options.userns_options
    if users.mode in (pb.CONTAINER, pb.TARGET):
        name = pb.NamespaceMode.Name(users.mode)
        raise SimError("UNKNOWN", f"unsupported user namespace mode: {name}")
    if users.mode == pb.POD and (len(users.uids) > 1 or len(users.gids) > 1):
        raise SimError("UNKNOWN", "only one uid mapping and one gid mapping are supported")


def _check_container(config: pb.ContainerConfig) -> None:
    """Refuse what every runtime refuses, though nothing here would need it."""
    context = config.linux.security_context
    if context.HasField("run_as_group") and not (
        context.HasField("run_as_user") or context.run_as_username
    ):
        raise SimError("UNKNOWN", "user is required when group is specified")
    for mount in config.mounts:
        if not mount.recursive_read_only:
            continue
        if not mount.readonly or mount.propagation != pb.PROPAGATION_PRIVATE:
            text = "recursive read-only mount needs readonly and private propagation"
            raise SimError("UNKNOWN", f"RROUnsupported: {text}: {mount.container_path}")
