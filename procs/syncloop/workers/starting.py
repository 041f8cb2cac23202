"""Carries out what the plan wants started: the sandbox, then containers in their order.

Before each call that changes the runtime, the journal (``WorkRow.calls``) says so; after it, what
came of it. A successor reads that and goes on from there: nothing is created or pulled twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kubelet import logging as klog
from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import Cancelled, CriError, TimedOut, Unavailable
from kubelet.pods.rows import Backoff, Call, CallStep, MountsRow, Wait
from kubelet.pods.runtime import ContainerRecord, Handler, PodRecord
from procs.syncloop.configs import files, needs
from procs.syncloop.configs.container import ContainerContext, container_config, image_info
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.sandbox import sandbox_config
from procs.syncloop.events import NORMAL, WARNING
from procs.syncloop.images.manager import Ensured
from procs.syncloop.runtime import backoff
from procs.syncloop.runtime.kinds import find
from procs.syncloop.runtime.plan import Plan, Start, StartKind
from procs.syncloop.workers.asking import with_volumes
from procs.syncloop.workers.calls import finish
from procs.syncloop.workers.cluster import known
from procs.syncloop.workers.imaging import StartImages
from procs.syncloop.workers.instances import last_ended, target_of
from procs.syncloop.workers.post_start import run_post_start
from procs.syncloop.workers.retry import Result, RetryError, crash_wait
from procs.syncloop.workers.worker import Worker

log = klog.get_logger(__name__)

SANDBOX: Final = ""  # the journal's name of the sandbox
_UNCLEAR: Final = (Unavailable, TimedOut, Cancelled)  # the call may have been carried out
_OUTAGE_NS: Final = 10**9  # before a try after one that found no runtime; a look comes first
_RESERVED: Final = "is reserved for"  # a call of a dead predecessor is still being given up


class Starter:
    """One run of a plan for one pod."""

    def __init__(
        self, worker: Worker, pod: Pod, record: PodRecord | None, mounts: MountsRow
    ) -> None:
        self._worker = worker
        self._kit = worker.kit
        self._book = worker.book
        self._pod = pod
        self._record = record
        self._mounts = mounts
        self._site = worker.kit.site()
        self._lookup = worker.kit.lookup.of(pod)
        self._handler_found: str | None = None
        self._backoffs: dict[str, Backoff] = dict(worker.work.backoffs)
        self._images = StartImages(worker, pod, self._lookup, self._backoffs)
        self.result = Result()

    async def run(self, plan: Plan) -> Result:
        """Start what is to be started."""
        try:
            await self._run(plan)
        except RetryError as err:
            self.result.failures.append(err)
        finally:
            await self._images.drop()
            self._images.save()
        return self.result

    async def _run(self, plan: Plan) -> None:
        attempt = plan.sandbox_attempt
        await known(self._worker, self._lookup, needs.for_sandbox(self._pod))
        built = self._sandbox_config(attempt)
        self._images.begin(plan.start, built, self._remaining)
        if plan.new_sandbox:
            self._worker.step("waiting for its turn to start")
            async with self._kit.turns.turn():
                sandbox_id = await self._run_sandbox(built, attempt)
                await self._run_containers(plan, built, sandbox_id)
        else:
            await self._run_containers(plan, built, plan.sandbox_id)

    async def _run_containers(
        self, plan: Plan, built: pb.PodSandboxConfig, sandbox_id: str
    ) -> None:
        if not plan.start:
            return
        ips = await self._ips(sandbox_id)
        held = False  # an init container failed: those after it wait (P-75)
        for start in plan.start:
            if held and start.kind is StartKind.INIT:
                continue
            context = ContainerContext(
                sandbox_id=sandbox_id,
                sandbox=built,
                pod_ips=ips,
                volumes={v.name: v for v in self._mounts.volumes},
                target_id=target_of(find(self._pod, start.name), self._containers()),
                handler=self._handler(),
                lookup=self._lookup,
                policy=self._kit.policy,
                warn=self._warn,
            )
            try:
                await self._start(start, context)
            except RetryError as err:
                self.result.failures.append(err)
                held = held or start.kind is StartKind.INIT

    # The sandbox.

    def _sandbox_config(self, attempt: int) -> pb.PodSandboxConfig:
        try:
            users = self._kit.users.mappings(self._pod, self._handler())
            built = sandbox_config(
                self._pod,
                attempt,
                self._site,
                users=users,
                volumes=self._mounts.volumes,
                policy=self._kit.policy,
            )
        except (ConfigError, OSError) as err:
            self._lookup.tell(needs.for_sandbox(self._pod), self._worker.wake)
            raise self._sandbox_failed(str(err)) from None
        for reason, message in built.warnings:
            self._kit.emit(self._pod, WARNING, reason, message, "")
        return built.config

    def _handler(self) -> Handler | None:
        """Return the runtime handler of the pod and what it can do, as far as is known."""
        return self._kit.site.handler(self._handler_name())

    def _handler_name(self) -> str:
        """Return the name of the pod's runtime handler; "" is the runtime's default (P-164)."""
        if self._handler_found is None:  # once: a class may be gone by the next step
            self._handler_found = self._lookup.runtime_handler(self._pod)
        return self._handler_found

    def _warn(self, reason: str, message: str) -> None:
        self._kit.emit(self._pod, WARNING, reason, message, "")

    async def _run_sandbox(self, config: pb.PodSandboxConfig, attempt: int) -> str:
        pod, worker = self._pod, self._worker
        if attempt > 0:
            text = "Pod sandbox changed, it will be killed and re-created."
            self._kit.emit(pod, NORMAL, "SandboxChanged", text, "")
        self._book.call(pod.uid, SANDBOX, Call(CallStep.SANDBOX, attempt))
        worker.step("creating the sandbox")
        self._kit.reached("sandbox:before", pod.uid)
        try:
            files.ensure_log_directory(pod, self._site)
            sandbox_id = await finish(
                self._kit.client.run_pod_sandbox(config, self._handler_name())
            )
        except CriError as err:
            self._book.call(pod.uid, SANDBOX, None)
            raise self._sandbox_error(err) from None
        except OSError as err:
            self._book.call(pod.uid, SANDBOX, None)
            raise self._sandbox_failed(str(err)) from None
        finally:
            worker.acted()
            self.result.acted = True
        self._kit.reached("sandbox:after", pod.uid)
        self._book.call(pod.uid, SANDBOX, None)
        worker.record("sandbox", sandbox_id[:13])
        return sandbox_id

    def _sandbox_error(self, err: CriError) -> RetryError:
        if _RESERVED in err.message:
            return RetryError(err.go_text, soon=True)
        return self._sandbox_failed(err.go_text, self._when_back(err))

    def _when_back(self, err: CriError) -> int:
        """Return when to try again after an outage: as soon as the runtime can be looked at."""
        return self._kit.wall() + _OUTAGE_NS if isinstance(err, Unavailable) else 0

    def _sandbox_failed(self, message: str, until_ns: int = 0) -> RetryError:
        text = f"Failed to create pod sandbox: {message}"
        self._kit.emit(self._pod, WARNING, "FailedCreatePodSandBox", text, "")
        return RetryError(message, until_ns, wait=Wait("its sandbox to be created"))

    async def _ips(self, sandbox_id: str) -> tuple[str, ...]:
        """Return the pod's addresses: what its containers' environment and hosts file name."""
        if self._pod.spec.host_network:
            return self._site.ips
        for sandbox in self._record.sandboxes if self._record else ():
            if sandbox.id == sandbox_id and sandbox.ips:
                return sandbox.ips
        try:
            answer = await self._kit.client.pod_sandbox_status(sandbox_id)
        except CriError as err:
            text = f"Unable to get pod sandbox status: {err.go_text}"
            self._kit.emit(self._pod, WARNING, "FailedPodSandBoxStatus", text, "")
            wait = Wait("its sandbox to be looked at")
            raise RetryError(str(err), wait=wait) from None
        network = answer.status.network
        return tuple(filter(None, (network.ip, *(more.ip for more in network.additional_ips))))

    # Containers.

    async def _start(self, start: Start, context: ContainerContext) -> None:
        container = find(self._pod, start.name)
        self._check_backoff(start, container)
        if start.adopt:
            container_id = start.adopt
        else:
            image = await self._images.of_container(start, context.sandbox)
            volumes = await self._images.of_volumes(container, context.sandbox)
            context = replace(context, images=volumes)
            start = replace(start, attempt=start.attempt or self._attempt_by_logs(start))
            container_id = await self._create(start, container, image, context)
        await self._start_created(start, container_id)
        self._book.reason(self._pod.uid, start.name)
        await self._post_start(container, start, container_id, context)

    def _remaining(self, start: Start) -> int:
        """Return for how long a container is still in back-off, in nanoseconds (P-90)."""
        last = last_ended(self._containers(), start.name)
        if last is None:
            return 0
        entry = self._backoffs.get(backoff.crash_key(self._pod, find(self._pod, start.name)))
        return backoff.in_backoff(entry, last.finished_at_ns, self._kit.wall())

    def _check_backoff(self, start: Start, container: Container) -> None:
        ended = last_ended(self._containers(), start.name)
        if ended is None or start.adopt:
            return
        key = backoff.crash_key(self._pod, container)
        now = self._kit.wall()
        left = self._remaining(start)
        if left <= 0:
            return
        text = backoff.crash_message(self._pod, container, self._backoffs[key])
        said = backoff.crash_event(self._pod, container)
        self._kit.emit(self._pod, WARNING, "BackOff", said, start.name)
        self._book.reason(self._pod.uid, start.name, "CrashLoopBackOff", text)
        wait = crash_wait(start.name, ended, self._backoffs[key].delay_ns, now + left)
        raise RetryError(text, now + left, wait=wait)

    def _raise_backoff(self, container: Container) -> None:
        """Have the container's next end cost more; a start that is not made yet costs nothing."""
        ended = last_ended(self._containers(), container.name)
        if ended is None:
            return
        key, now = backoff.crash_key(self._pod, container), self._kit.wall()
        limits, entry = backoff.crash_limits(self._kit.process.config), self._backoffs.get(key)
        at, longest = ended.finished_at_ns, limits.max_ns
        self._backoffs[key] = backoff.crashed(entry, at, longest, limits.base_ns, now)
        self._images.save()

    async def _create(
        self, start: Start, container: Container, image: Ensured, context: ContainerContext
    ) -> str:
        pod, worker = self._pod, self._worker
        attempt = start.attempt
        wanted = needs.for_variables(pod, container)
        await known(worker, self._lookup, wanted)
        try:
            context = await with_volumes(worker, pod, container, context, self._site)
            files.prepare(pod, container, attempt, context.pod_ips, self._site)
            info = image_info(image.image, image.ref, container.image)
            config = container_config(pod, container, attempt, info, context, self._site)
        except (ConfigError, OSError) as err:
            self._failed(start.name, "CreateContainerConfigError", str(err))
            self._kit.emit(pod, WARNING, "Failed", f"Error: {err}", start.name)
            self._lookup.tell(wanted, worker.wake)
            wait = Wait(f"container {start.name} to be created")
            raise RetryError(str(err), wait=wait) from None
        self._raise_backoff(container)
        worker.step(f"creating container {start.name}")
        call = Call(CallStep.CREATE, attempt, image.ref, image=container.image)
        self._book.call(pod.uid, start.name, call)
        self._kit.reached("create:before", pod.uid)
        try:
            container_id = await finish(
                self._kit.client.create_container(context.sandbox_id, config, context.sandbox)
            )
        except CriError as err:
            raise self._call_failed(start, "CreateContainerError", err) from None
        finally:
            worker.acted()
            self.result.acted = True
        self._kit.reached("create:after", pod.uid)
        call = replace(call, step=CallStep.CREATED, container_id=container_id)
        self._book.call(pod.uid, start.name, call)
        self._kit.emit(pod, NORMAL, "Created", "Container created", start.name)
        worker.record("created", f"{start.name} {container_id[:13]}")
        return container_id

    def _attempt_by_logs(self, start: Start) -> int:
        """Return the restart count of a container that left nothing but logs (P-82)."""
        call = self._worker.work.calls.get(start.name)
        if call is not None or any(c.name == start.name for c in self._containers()):
            return start.attempt
        return files.attempt_by_logs(self._pod, start.name, self._site)

    def _containers(self) -> tuple[ContainerRecord, ...]:
        return self._record.containers if self._record else ()

    async def _start_created(self, start: Start, container_id: str) -> None:
        pod, worker = self._pod, self._worker
        worker.step(f"starting container {start.name}")
        before = worker.work.calls.get(start.name) or Call(CallStep.START)
        call = replace(
            before, step=CallStep.START, attempt=start.attempt, container_id=container_id
        )
        self._book.call(pod.uid, start.name, call)
        self._kit.reached("start:before", pod.uid)
        try:
            await finish(self._kit.client.start_container(container_id))
        except _UNCLEAR as err:  # it may run: the journal keeps the call until that is known
            wait = Wait(f"container {start.name} to be started")
            raise RetryError(str(err), wait=wait) from None
        except CriError as err:
            raise self._call_failed(start, "RunContainerError", err) from None
        finally:
            worker.acted()
            self.result.acted = True
        self.result.started = True
        self._kit.reached("start:after", pod.uid)
        self._kit.emit(pod, NORMAL, "Started", "Container started", start.name)
        worker.record("started", f"{start.name} {container_id[:13]}")
        try:
            files.link_log(pod, start.name, start.attempt, container_id, self._site)
        except OSError as err:
            log.warning("Link to a container's log cannot be made", pod=str(pod), err=err)

    async def _post_start(
        self, container: Container, start: Start, container_id: str, context: ContainerContext
    ) -> None:
        pod, book = self._pod, self._book
        handler = container.lifecycle.post_start if container.lifecycle else None
        if handler is None:
            book.call(pod.uid, start.name, None)
            return
        book.call(pod.uid, start.name, Call(CallStep.STARTED, start.attempt, "", container_id))
        await run_post_start(self._worker, pod, container, container_id, context.pod_ips)

    def _call_failed(self, start: Start, reason: str, err: CriError) -> RetryError:
        if _RESERVED in err.message:
            return RetryError(err.go_text, soon=True)
        self._book.call(self._pod.uid, start.name, None)
        self._failed(start.name, reason, err.message)
        self._kit.emit(self._pod, WARNING, "Failed", f"Error: {err.message}", start.name)
        done = "created" if reason == "CreateContainerError" else "started"
        wait = Wait(f"container {start.name} to be {done}")
        return RetryError(str(err), self._when_back(err), wait=wait)

    def _failed(self, name: str, reason: str, message: str) -> None:
        self._book.reason(self._pod.uid, name, reason, message)
        self._worker.record("failed", f"{name}: {reason}: {message}")
