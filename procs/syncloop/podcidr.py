"""Tells the runtime which addresses the node's pods get (N-22)."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import CLUSTER, NODE_KEY, NodeRow
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process

log = klog.get_logger(__name__)

_FIRST_PAUSE: Final = 0.5  # seconds between two tries
_LAST_PAUSE: Final = 30.0


def cidrs_in(document: Any) -> str:
    """Return the address ranges of a node's object, with commas between; "" if it has none."""
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict):
        return ""
    listed = spec.get("podCIDRs")
    found = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    single = spec.get("podCIDR")
    return ",".join(found) or (single if isinstance(single, str) else "")


class PodCidr:
    """Keeps the runtime told; each start tells it again, as the runtime may have forgotten."""

    def __init__(self, process: Process, client: RuntimeClient) -> None:
        self._process = process
        self._client = client
        self._wanted = ""
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Begin."""
        self._process.on_hint(self._hinted)
        self._read()
        self._process.spawn(self._run(), name="pod addresses of the runtime")

    def _hinted(self, hint: Hint) -> None:
        if hint.table == CLUSTER and hint.key in (NODE_KEY, ANY_KEY):
            self._read()

    def _read(self) -> None:
        value = self._process.tables.value(CLUSTER, NODE_KEY)
        try:
            row = NodeRow.from_wire(value) if value is not None else None
            found = cidrs_in(json.loads(row.document)) if row is not None and row.document else ""
        except (BadRecordError, ValueError) as err:
            log.error("The node's object cannot be read, taken as not there", err=err)
            return
        if found and found != self._wanted:  # a node that is gone takes no addresses away
            self._wanted = found
            self._changed.set()

    async def _run(self) -> None:
        pause = 0.0
        while True:
            if not pause:
                await self._changed.wait()
            self._changed.clear()
            pause = 0.0 if await self._tell(self._wanted) else _next(pause)
            if pause:
                await asyncio.sleep(pause)

    async def _tell(self, cidr: str) -> bool:
        try:
            network = pb.NetworkConfig(pod_cidr=cidr)
            await self._client.update_runtime_config(pb.RuntimeConfig(network_config=network))
        except CriError as err:
            log.error("The runtime does not take the pods' addresses yet", cidr=cidr, err=err)
            return False
        log.info("Runtime has the pods' addresses", cidr=cidr)
        return True


def _next(pause: float) -> float:
    return min(_LAST_PAUSE, pause * 2) if pause else _FIRST_PAUSE
