"""A stand-in for syncloop that takes pods over its socket, and ends them, as the real one does.

A pod without containers is refused with two problems. A pod named "stuck" never ends, a pod named
"slow" is never ready, a pod named "bad" fails.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from kubelet.channels import messages
from kubelet.channels.channels import Channels
from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.peers import PeerBook
from kubelet.pods import rows
from shm.board import RowWriter
from tests.unit.kubeletctl import podfiles

END_SECONDS = 0.2


class Keeper:
    """Holds the tables and answers."""

    def __init__(self, root: Path) -> None:
        self._tables = podfiles.Tables(root).make("syncloop")
        self._pods: dict[tuple[str, str], rows.PodRow] = {}

    async def submit(self, request: messages.SubmitPod, *_caller) -> messages.Submitted:
        document = json.loads(request.document)
        if document.get("kind") != "Pod" or not document.get("spec", {}).get("containers"):
            raise HandlerError(
                "spec.containers: Required value; spec.x: Invalid value: 1", ErrorKind.BAD_REQUEST
            )
        name = document["metadata"]["name"]
        namespace = document["metadata"].get("namespace", "default")
        old = self._pods.get((namespace, name))
        if old is not None and old.document == request.document:
            return messages.Submitted(old.uid, name, namespace, "unchanged")
        row = rows.PodRow(f"uid-of-{name}", name, namespace, rows.LOCAL, document=request.document)
        self._pods[namespace, name] = row
        self._tables.pod(row, self._status(name))
        return messages.Submitted(
            row.uid, name, namespace, "configured" if old else "created", _warnings(document)
        )

    def _status(self, name: str) -> dict[str, object]:
        if name == "bad":
            return {"phase": "Failed", "reason": "Evicted", "message": "no room"}
        return podfiles.status(ready=name != "slow")

    async def delete(self, request: messages.DeletePod, *_caller) -> messages.Deleting:
        row = self._pods[request.namespace, request.name]
        if row.source != rows.LOCAL:
            raise HandlerError(f"pod {row.name} is of source {row.source}", ErrorKind.BAD_REQUEST)
        if row.name != "stuck":
            loop = asyncio.get_running_loop()
            loop.call_later(END_SECONDS, self._tables.remove, row.uid)
        return messages.Deleting(row.uid, 30 if request.grace is None else request.grace)

    def add_static(self) -> None:
        """Have a pod that may not be deleted."""
        row = rows.PodRow("uid-static", "static-node-1", "default", rows.FILE, document=b"{}")
        self._pods["default", "static-node-1"] = row
        self._tables.pod(row, podfiles.status(ready=True))


def _warnings(document: dict) -> tuple[str, ...]:
    return ('unknown field "spec.odd"',) if "odd" in document["spec"] else ()


def keep_pods(root: Path, row: RowWriter, until: int, started: int) -> None:
    """Answer until the descriptor says that it is over."""
    keeper = Keeper(root)
    keeper.add_static()

    async def main() -> None:
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(until, over.set)
        (root / "channels" / "syncloop").mkdir(parents=True)
        peers = PeerBook(root / "state.json", own_uid=os.geteuid())
        async with asyncio.TaskGroup() as group:
            channels = Channels("syncloop", root, peers, group.create_task)
            await channels.start()
            channels.handle(messages.SubmitPod, keeper.submit)
            channels.handle(messages.DeletePod, keeper.delete)
            os.write(started, b".")
            while not over.is_set():
                row.beat(1_500_000)
                await asyncio.sleep(0.05)
            await channels.close()

    asyncio.run(main())
