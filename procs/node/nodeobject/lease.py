"""The node's lease: the heartbeat that keeps it from being given up (N-30).

It waits for nothing and nobody: whatever the other parts of this process and the other processes
do, it is renewed for as long as this process lives, and again as soon as its successor does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from kubelet import logging as klog
from procs.node.apiserver.types import ApiError, Json, Purpose
from procs.node.kit import Kit
from procs.node.nodeobject import cadence, odd
from procs.node.nodeobject.calls import Calls
from procs.node.nodeobject.settings import Settings

log = klog.get_logger(__name__)

NAMESPACE: Final = "kube-node-lease"
COLLECTION: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
TRIES: Final = 5
_WHAT: Final = "lease"


def micro_time(wall_ns: int) -> str:
    """Return a moment as the API writes it to the microsecond."""
    moment = datetime.fromtimestamp(wall_ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 1000 % 10**6:06d}Z"


def renewed(before: Json | None, settings: Settings, uid: str, wall_ns: int) -> Json:
    """Return the lease as it is to be; ``before`` is the one that is there. Pure."""
    metadata = {**odd.part(before, "metadata")}
    metadata |= {"name": settings.node, "namespace": NAMESPACE}
    owner = {"apiVersion": "v1", "kind": "Node", "name": settings.node, "uid": uid}
    if uid and uid not in [one.get("uid") for one in odd.maps(metadata, "ownerReferences")]:
        # None, or that of a node that is gone: with it the lease would go.
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            **odd.part(before, "spec"),
            "holderIdentity": settings.node,
            "leaseDurationSeconds": settings.lease_seconds,
            "renewTime": micro_time(wall_ns),
        },
    }


class Lease:
    """Keeps the lease."""

    def __init__(
        self, kit: Kit, settings: Settings, calls: Calls, drop: Callable[[Purpose], None]
    ) -> None:
        self._kit = kit
        self._settings = settings
        self._calls = calls
        self._drop = drop
        self._path = f"{COLLECTION}/{settings.node}"
        self._lease: Json | None = None  # as the server has it, for all we know
        self._pause = 0.0  # seconds until the next try, after failures
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Renew at once: the node is another, or is there now."""
        self._wake.set()

    def retry(self) -> None:
        """Have a renewal that failed tried at once: the server is back."""
        if self._pause:
            self._wake.set()

    async def run(self) -> None:
        """Renew for ever."""
        while True:
            self._wake.clear()
            if not self._kit.view.uid:
                await self._wake.wait()  # without a node there is nothing to keep alive
                continue
            seconds = await self._round()
            await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        """Wait, or until somebody has news."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _round(self) -> float:
        """Renew, and return how long to wait then."""
        error: ApiError | None = None
        for _ in range(1 if self._pause else TRIES):
            error = await self._try()
            if error is None or error.forbidden or error.unauthorized or error.retry_after:
                break
        if error is None:
            self._pause = 0.0
            return cadence.next_look(self._settings.renew_seconds, self._kit.random.uniform)
        self._kit.process.row.count("lease_failures")
        self._kit.troubles.tell(_WHAT, error)
        if error.unreachable:
            self._drop(Purpose.HEARTBEAT)
        self._pause = cadence.next_retry(self._pause, cadence.LEASE_RETRY)
        # However long the server asks us to wait: the node is given up when the lease is over.
        return max(self._pause, min(error.retry_after or 0.0, self._settings.lease_seconds / 2))

    async def _try(self) -> ApiError | None:
        """Renew once; the failure, if it is one."""
        wall_ns = self._kit.wall()
        try:
            if self._lease is None:
                self._lease = await self._calls.get(self._path)
            lease = renewed(self._lease, self._settings, self._kit.view.uid, wall_ns)
            self._lease = await self._calls.replace(self._path, lease)
        except ApiError as err:
            self._lease = None  # it is another now, or none: the next try looks
            return await self._create() if err.not_found else err
        self._done(wall_ns)
        return None

    async def _create(self) -> ApiError | None:
        wall_ns = self._kit.wall()
        lease = renewed(None, self._settings, self._kit.view.uid, wall_ns)
        try:
            self._lease = await self._calls.create(COLLECTION, lease)
        except ApiError as err:
            return err
        log.info("Lease created", node=self._settings.node)
        self._done(wall_ns)
        return None

    def _done(self, wall_ns: int) -> None:
        self._kit.process.row.count("lease_renewals")
        self._kit.troubles.tell(_WHAT, None)
        self._kit.troubles.note(lease_ns=wall_ns)
