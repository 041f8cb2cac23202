"""Looking at the runtime: at everything each second, at one pod when asked.

A full look lists all sandboxes and containers and compares them with what is known. Only pods
that differ, or that could not be inspected before (G-4), cost more calls and a write.

Nothing waits for one pod: a full look goes on without those whose inspection gets no answer. They
are inspected further meanwhile, and are named as unseen until that is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kubelet import logging as klog
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError, ResourceExhausted
from kubelet.pods.runtime import PodRecord
from kubelet.process import Process
from procs.pleg import convert
from procs.pleg.book import Book
from procs.pleg.inspector import Inspector
from procs.pleg.listing import UID_LABEL, Listing, PodListing, shape_seen, sort_out
from procs.pleg.looks import Looked
from procs.pleg.together import both

log = klog.get_logger(__name__)

PERIOD: Final = 1.0  # G-1: seconds from the start of a full look to the start of the next
REST: Final = 0.1  # ... but at least these between two that take longer
PATIENCE: Final = 5.0  # seconds that a full look waits while no inspection makes progress
MAX_UNSEEN: Final = 100  # pods that a full look may leave out and still count as one


class UnseenError(Exception):
    """Too many pods could not be inspected for the look to count as a full one."""


class Relister:
    """Looks, and hands what it finds to the book."""

    def __init__(
        self,
        process: Process,
        client: RuntimeClient,
        book: Book,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._process = process
        self._client = client
        self._book = book
        self._clock = clock
        self.inspector = Inspector(process, client, book.records.get)
        self._inspecting: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, str] = {}  # pod -> why its last inspection failed
        self._progress_ns = 0
        self._foreign_said = -1
        self._failure = klog.every(60)
        self.foreign: tuple[str, ...] = ()
        self.last_ms = 0

    # A look at everything.

    async def full(self) -> None:
        """Look at everything; a CriError or UnseenError says why that did not work."""
        began_ns = self._clock()
        listing = sort_out(*await self._lists())
        await self._inspect_all(self._changed(listing), began_ns)
        for uid in self._book.uids:
            if uid not in listing.pods:
                self._book.remove(uid, began_ns)
        # Also of pods that were never known: there is nothing to inspect any more.
        self._failed = {uid: why for uid, why in self._failed.items() if uid in listing.pods}
        unseen = {uid for uid in self._unseen() if uid in listing.pods}
        if len(unseen) > MAX_UNSEEN:
            raise UnseenError(self.problem or f"{len(unseen)} pods are not inspected yet")
        self._book.looked_in_full(began_ns, unseen)
        self._note_foreign(listing.foreign)
        self.last_ms = (self._clock() - began_ns) // 1_000_000
        self._process.row.count("relists")

    def _unseen(self) -> set[str]:
        return {*self._failed, *self._inspecting, *self._process.quarantined}

    def _changed(self, listing: Listing) -> list[PodListing]:
        shapes = self._book.shapes
        return [
            pod
            for uid, pod in listing.pods.items()
            if shapes.get(uid) != pod.shape
            and uid not in self._inspecting
            and uid not in self._process.quarantined
        ]

    async def _inspect_all(self, pods: list[PodListing], began_ns: int) -> None:
        self._progress_ns = self._clock()
        done = asyncio.Event()
        left = len(pods)

        def finished(_task: asyncio.Task[None]) -> None:
            nonlocal left
            left -= 1
            self._progress_ns = self._clock()
            if not left:
                done.set()

        for pod in pods:
            task = self._process.spawn(self._inspect(pod, began_ns), name=f"inspect {pod.uid}")
            self._inspecting[pod.uid] = task
            task.add_done_callback(finished)
        while left and self._clock() - self._progress_ns < PATIENCE * 1e9:
            waited = (self._clock() - self._progress_ns) / 1e9
            await _quietly(done.wait(), max(0.001, PATIENCE - waited))

    async def _inspect(self, pod: PodListing, began_ns: int) -> None:
        try:
            await self._take(pod, began_ns, asked=False)
        except CriError as err:
            self._note_failure(pod.uid, err)
        finally:
            self._inspecting.pop(pod.uid, None)

    def _note_failure(self, uid: str, err: CriError) -> None:
        """Keep the old record, and look again at the next full look (G-4)."""
        self._book.mark(uid)
        self._failed[uid] = str(err)
        self._process.row.count("inspect_errors")
        if self._failure.ready():
            more = self._failure.skipped
            log.warning("Pod could not be inspected", pod=uid, err=err, more=more)

    @property
    def problem(self) -> str:
        """Say which pods could not be inspected; "" if all could."""
        if not self._failed:
            return ""
        uid, why = next(iter(self._failed.items()))
        more = f" and {len(self._failed) - 1} more" if len(self._failed) > 1 else ""
        return f"pod {uid}{more} could not be inspected: {why}"

    # A look at one pod.

    async def pod(self, uid: str, asked: bool) -> Looked:
        """Look at one pod; a CriError says why that did not work."""
        began_ns = self._clock()
        if uid in self._process.quarantined:
            return Looked(self._book.seen_ns(uid), changed=False)
        with self._process.doing("relist", pod=uid):
            try:
                found = sort_out(*await self._lists(uid)).pods.get(uid) or PodListing(uid)
                changed = await self._take(found, began_ns, asked=asked)
            except CriError as err:
                self._note_failure(uid, err)
                raise
        return Looked(began_ns, changed)

    def ended(self, uid: str, status: pb.ContainerStatus) -> None:
        """Take the status of a container that has ended, ahead of a look at its pod."""
        record = self._book.records.get(uid)
        known = (c for c in record.containers if c.id == status.id) if record is not None else ()
        for container in known:
            self._book.amend(uid, convert.container(status, container.sandbox_id))

    async def _take(self, pod: PodListing, began_ns: int, *, asked: bool) -> bool:
        """Inspect a pod and write down what was found."""
        if pod.shape:
            record = await self.inspector.inspect(pod)
        else:
            record = PodRecord(pod.uid)  # stands for "gone" until a newer full look
            if not asked and pod.uid not in self._book.records:
                return False
        self._failed.pop(pod.uid, None)
        return self._book.commit(record, began_ns, shape_seen(pod.shape, record), asked=asked)

    # Listing.

    async def _lists(self, uid: str = "") -> tuple[list[pb.PodSandbox], list[pb.Container]]:
        """List sandboxes and containers side by side, all of them or those of one pod."""
        chosen = {UID_LABEL: uid} if uid else {}
        sandboxes = pb.PodSandboxFilter(label_selector=chosen) if uid else None
        containers = pb.ContainerFilter(label_selector=chosen) if uid else None
        doing = self._process.doing
        with doing("ListPodSandbox", uid), doing("ListContainers", uid):
            return await both(
                self._client.list_pod_sandbox(sandboxes), self._containers(containers)
            )

    async def _containers(self, chosen: pb.ContainerFilter | None) -> list[pb.Container]:
        """List containers; when there are too many for one message, in parts."""
        try:
            return await self._client.list_containers(chosen)
        except ResourceExhausted as err:
            if chosen is not None:
                raise
            first = err
        self._process.row.count("lists_too_long")
        try:
            return await self._client.stream_containers()
        except ResourceExhausted:
            log.v(2, "The list of containers is too long, listed by sandbox", err=first)
        found: list[pb.Container] = []
        for sandbox in await self._client.list_pod_sandbox():
            part = pb.ContainerFilter(pod_sandbox_id=sandbox.id)
            found += await self._client.list_containers(part)
        return found

    def _note_foreign(self, ids: list[str]) -> None:
        """Say that there is something that no kubelet made; it is never touched."""
        self.foreign = tuple(ids)
        if len(ids) == self._foreign_said or (not ids and self._foreign_said < 0):
            return
        self._foreign_said = len(ids)
        shown = ", ".join(id_[:13] for id_ in ids[:5])
        log.info(
            "The runtime holds what no kubelet made, it is left alone", count=len(ids), ids=shown
        )
        self._process.record("foreign", f"{len(ids)}: {shown}" if ids else "none")


async def _quietly(waiting: Coroutine[Any, Any, object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return
