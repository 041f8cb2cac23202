"""Carries out what the selections name: one failure never keeps the rest from going (I-6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from kubelet import logging as klog
from kubelet.cri.errors import CriError
from kubelet.pods.cache import RuntimeCache
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.gc import files, logs
from procs.syncloop.gc.containers import DeadContainer, select_containers, select_extra
from procs.syncloop.gc.policy import GcPolicy, KnownPod, Owners
from procs.syncloop.gc.sandboxes import select_sandboxes
from procs.syncloop.runtime.killing import MIN_RUNTIME_GRACE
from procs.syncloop.site import Site

log = klog.get_logger(__name__)

_SHOWN: Final = 5  # failures of one run that the sentence names


class Runtime(Protocol):
    """The calls of the runtime that are made here."""

    async def stop_container(self, container_id: str, grace: int) -> bool:
        """Stop a container."""

    async def remove_container(self, container_id: str) -> bool:
        """Remove a container."""

    async def stop_pod_sandbox(self, sandbox_id: str) -> bool:
        """Stop a sandbox."""

    async def remove_pod_sandbox(self, sandbox_id: str) -> bool:
        """Remove a sandbox."""


class ContainerGc:
    """Removes dead containers, old sandboxes and the logs of both."""

    def __init__(  # noqa: PLR0913 - its tools, by name
        self,
        client: Runtime,
        cache: RuntimeCache,
        site: Callable[[], Site],
        policy: GcPolicy,
        report: Callable[[str], None],
        *,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client = client
        self._cache = cache
        self._site = site
        self._policy = policy
        self._report = report  # called with a sentence when something could not be removed
        self._wall = wall
        self._removing: set[str] = set()  # by another run: a runtime dislikes to be asked twice

    async def prune(self, uid: str, name: str) -> None:
        """Remove the dead instances of a container that a new death has made too many (I-5)."""
        record = self._cache.get(uid).record
        if record is not None:
            await self._prune(select_extra(record, self._policy, name))

    async def prune_pod(self, uid: str, record: PodRecord | None = None) -> None:
        """Do the same for all containers of a pod."""
        record = record or self._cache.get(uid).record
        if record is not None:
            await self._prune(select_extra(record, self._policy))

    async def collect(self, known: Mapping[str, KnownPod], sources_ready: bool) -> None:
        """Remove all garbage of the node (I-1..I-4); to be called each minute."""
        if not self._cache.full_look_ns():
            return  # what the runtime holds is not known: nothing is garbage by that
        owners = Owners(known, sources_ready)
        failures: list[str] = []
        pods = self._pods()
        dead = select_containers(pods, owners, self._policy, self._wall())
        removed = await self._remove_all(dead, failures)
        for sandbox_id in select_sandboxes(pods, owners, removed):
            await self._remove_sandbox(sandbox_id, failures)
        await asyncio.to_thread(self._clean_logs, pods, owners, removed, failures)
        self._tell(failures)

    async def remove(
        self, pod: PodRecord, container: ContainerRecord, *, keep_logs: bool = False
    ) -> None:
        """Remove one container with its logs (I-41); CriError or OSError when that fails.

        One in an unknown state may be running: it is stopped first (I-5).
        """
        if container.state is ContainerState.UNKNOWN:
            await self._client.stop_container(container.id, MIN_RUNTIME_GRACE)
        await self._client.remove_container(container.id)
        site = self._site()
        await asyncio.to_thread(files.delete_last_words, site, pod, container)
        if not keep_logs:
            await asyncio.to_thread(files.delete_logs, site, pod, container)
        log.v(4, "Container removed", pod=pod.uid, container=container.name, id=container.id)

    async def _prune(self, dead: tuple[DeadContainer, ...]) -> None:
        failures: list[str] = []
        await self._remove_all(dead, failures)
        self._tell(failures)

    async def _remove_all(
        self, dead: Iterable[DeadContainer], failures: list[str]
    ) -> frozenset[str]:
        """Remove containers; return those that are gone."""
        removed = set()
        for found in dead:
            id_ = found.container.id
            if id_ in self._removing:
                continue
            self._removing.add(id_)
            try:
                await self.remove(found.pod, found.container)
            except CriError as err:
                failures.append(str(err))
                continue
            except OSError as err:  # the container is gone, its logs are not
                failures.append(f"logs of container {id_}: {err}")
            finally:
                self._removing.discard(id_)
            removed.add(id_)
        return frozenset(removed)

    async def _remove_sandbox(self, sandbox_id: str, failures: list[str]) -> None:
        try:
            await self._client.stop_pod_sandbox(sandbox_id)
            await self._client.remove_pod_sandbox(sandbox_id)
        except CriError as err:
            failures.append(str(err))
            return
        log.v(4, "Sandbox removed", id=sandbox_id)

    def _clean_logs(
        self, pods: list[PodRecord], owners: Owners, removed: frozenset[str], failures: list[str]
    ) -> None:
        site = self._site()
        held = frozenset(p.uid for p in pods if any(c.id not in removed for c in p.containers))
        try:
            directories = files.pod_directories(site)
            for name in logs.select_log_directories(directories, owners, held):
                _try(files.delete_directory, site, name, failures)
            for name in logs.select_links(files.dangling_links(site), pods):
                _try(files.delete_link, site, name, failures)
        except OSError as err:
            failures.append(f"logs of pods cannot be listed: {err}")

    def _pods(self) -> list[PodRecord]:
        found = (self._cache.get(uid).record for uid in self._cache.uids())
        return [record for record in found if record is not None]

    def _tell(self, failures: list[str]) -> None:
        if not failures:
            return
        more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
        self._report("; ".join(failures[:_SHOWN]) + more)


def _try(delete: Callable[[Site, str], None], site: Site, name: str, failures: list[str]) -> None:
    try:
        delete(site, name)
    except OSError as err:
        failures.append(f"{name}: {err}")
