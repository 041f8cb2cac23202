"""Has the images of a pod's start there: those of its containers, and those that are volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import Backoff, Call, CallStep, Wait
from procs.syncloop.configs import needs
from procs.syncloop.configs.context import ImageInfo
from procs.syncloop.configs.lookup import Lookup
from procs.syncloop.events import WARNING
from procs.syncloop.images import policy
from procs.syncloop.images.errors import ImageError, Reason
from procs.syncloop.images.manager import Ensured, Wanted, backoff_key
from procs.syncloop.runtime.kinds import find
from procs.syncloop.runtime.plan import Start, StartKind
from procs.syncloop.workers.retry import RetryError
from procs.syncloop.workers.worker import Worker

_FAILURE_SHOWN_NS: Final = 10**9  # of a pull, before its back-off is what the status says


class StartImages:
    """The images of one run of a plan for one pod."""

    def __init__(
        self, worker: Worker, pod: Pod, lookup: Lookup, backoffs: dict[str, Backoff]
    ) -> None:
        self._worker = worker
        self._kit = worker.kit
        self._pod = pod
        self._lookup = lookup
        self._backoffs = backoffs
        self._sources = {v.name: v.image for v in pod.spec.volumes if v.image is not None}
        self._containers: dict[str, asyncio.Task[Ensured]] = {}
        self._volumes: dict[str, asyncio.Task[Ensured]] = {}

    def begin(
        self,
        starts: Iterable[Start],
        config: pb.PodSandboxConfig,
        resting: Callable[[Start], object],
    ) -> None:
        """Begin to fetch what is needed, beside the sandbox; init containers fetch one by one.

        Who is ``resting`` is not started now.
        """
        for start in starts:
            if start.adopt or resting(start):
                continue
            container = find(self._pod, start.name)
            self._begin_volumes(container, config)
            task = asyncio.create_task(self._ensure(container, config))
            self._containers[start.name] = task
            if start.kind is StartKind.INIT:
                return

    async def of_container(self, start: Start, config: pb.PodSandboxConfig) -> Ensured:
        """Return the image of a container when it is there; RetryError: it cannot be had now."""
        container = find(self._pod, start.name)
        task = self._containers.pop(start.name, None)
        if task is None:
            task = asyncio.create_task(self._ensure(container, config))
        what = f"image {container.image} for container {start.name}"
        try:
            found = await self._awaited(task, start.name, what, container.image)
        finally:
            task.cancel()
            self.save()
        if found.pulled:
            call = Call(CallStep.PULLED, start.attempt, found.ref, image=container.image)
            self._worker.book.call(self._pod.uid, start.name, call)
        return found

    async def of_volumes(
        self, container: Container, config: pb.PodSandboxConfig
    ) -> dict[str, ImageInfo]:
        """Return the images that a container mounts, when all are there (I-31)."""
        self._begin_volumes(container, config)
        found = {}
        for name in self._mounted(container):
            image = self._sources[name].reference
            what = f"image {image} for volume {name}"
            try:
                ensured = await self._awaited(self._volumes[name], container.name, what, image)
            except RetryError as err:
                reason = err.reason if isinstance(err, _ImageRetryError) else Reason.PULL
                text = policy.start_error(reason)
                self._kit.emit(self._pod, WARNING, policy.FAILED, text, container.name)
                raise
            finally:
                self.save()
            found[name] = ImageInfo(ensured.ref, image)
        return found

    async def drop(self) -> None:
        """Let go of what was begun and not used."""
        tasks = [*self._containers.values(), *self._volumes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._containers.clear()
        self._volumes.clear()

    def save(self) -> None:
        """Keep the back-offs for a successor."""
        if self._backoffs != self._worker.work.backoffs:
            self._worker.update_work(backoffs=dict(self._backoffs))

    def _mounted(self, container: Container) -> list[str]:
        names = (mount.name for mount in container.volume_mounts)
        return [name for name in dict.fromkeys(names) if name in self._sources]

    def _begin_volumes(self, container: Container, config: pb.PodSandboxConfig) -> None:
        """Begin to fetch what a container mounts: once, whoever else mounts it too."""
        for name in self._mounted(container):
            if name not in self._volumes:
                source = self._sources[name]
                wanted = Wanted(source.reference, source.pull_policy)
                self._volumes[name] = asyncio.create_task(self._ensure_image(wanted, config))

    async def _ensure(self, container: Container, config: pb.PodSandboxConfig) -> Ensured:
        call = self._worker.work.calls.get(container.name)
        already = call.image_ref if call is not None and call.image == container.image else ""
        await self._lookup.known(needs.for_pull(self._pod))
        return await self._kit.images.ensure(
            self._pod, container, config, self._backoffs, already=already
        )

    async def _ensure_image(self, wanted: Wanted, config: pb.PodSandboxConfig) -> Ensured:
        await self._lookup.known(needs.for_pull(self._pod))
        return await self._kit.images.ensure_image(self._pod, wanted, config, self._backoffs)

    async def _awaited(
        self, task: asyncio.Task[Ensured], name: str, what: str, image: str
    ) -> Ensured:
        then = "the container is created when the image is here"
        wait = self._worker.waiting(what, then=then)
        self._worker.step(f"getting image {image}", wait)
        try:
            return await task
        except ImageError as err:
            self._worker.book.reason(self._pod.uid, name, err.reason, err.message)
            self._worker.record("failed", f"{name}: {err.reason}: {err.message}")
            wait = self._wait(what, image, err)
            raise _ImageRetryError(err, self._again(err), wait) from None

    def _wait(self, what: str, image: str, err: ImageError) -> Wait:
        """Return the words for an image that could not be had: why, and when it is tried again."""
        entry = self._backoffs.get(backoff_key(image))
        tried = entry.error if err.reason is Reason.BACKOFF and entry is not None else ""
        then = "it is pulled again" if err.until_ns else "it is looked for again"
        return Wait(what, tried=tried or str(err), next=then, next_ns=err.until_ns)

    def _again(self, err: ImageError) -> int:
        """Return when to look again; soon after a failure, to show that it backs off (P-93)."""
        if err.reason is Reason.BACKOFF or not err.until_ns:
            return err.until_ns
        return min(err.until_ns, self._kit.wall() + _FAILURE_SHOWN_NS)


class _ImageRetryError(RetryError):
    """An image that cannot be had now."""

    def __init__(self, err: ImageError, until_ns: int, wait: Wait) -> None:
        super().__init__(str(err), until_ns, wait=wait)
        self.reason = err.reason
