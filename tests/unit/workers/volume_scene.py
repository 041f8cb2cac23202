"""A worker of a pod with volumes, on a real table that somebody else writes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kubelet.api import codec
from kubelet.api.defaults import with_defaults
from kubelet.api.pod import Pod
from kubelet.channels.waiting import Waiters
from kubelet.pods.rows import MOUNTS, MountsRow, VolumeRow
from kubelet.process.tables import Tables
from procs.syncloop.workers import state
from procs.syncloop.workers.book import Book
from procs.syncloop.workers.worker import Worker
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME

NOW = 1_700_000_000 * 10**9
UID = "u1"


def pod(*volumes: str, container: dict[str, Any] | None = None) -> Pod:
    """A pod with volumes of these names."""
    spec = {
        "containers": [{"name": "main", "image": "i:1", **(container or {})}],
        "volumes": [{"name": name, "emptyDir": {}} for name in volumes],
    }
    meta = {"name": "p", "namespace": "n", "uid": UID}
    return with_defaults(codec.read(Pod, {"metadata": meta, "spec": spec}))


class Scene:
    """One pod, its worker, and the hand of ``volumes``."""

    def __init__(self, directory: Any, wanted: Pod) -> None:
        self.pod = wanted
        self.now = NOW
        self.events: list[tuple[str, str, str]] = []
        self.writer = Writer.attach(directory, BY_NAME[MOUNTS])
        self.tables = Tables(directory, "syncloop")
        self.waiters = Waiters()
        self.asked: list[Any] = []
        self.answer: Callable[[Any], Any] = lambda _request: None
        process: Any = SimpleNamespace(
            quarantined=frozenset(),
            record=lambda *_: None,
            put=lambda *_: None,
            delete=lambda *_: None,
            tables=self.tables,
            waiters=self.waiters,
            channels=SimpleNamespace(ask=self._ask),
        )
        kit: Any = SimpleNamespace(
            process=process,
            wall=lambda: self.now,
            started_ns=0,
            emit=lambda _pod, _type, reason, text, of: self.events.append((reason, text, of)),
        )
        book = Book(process, kit.wall)
        book.put(state.born(wanted, "local", NOW))
        peers: Any = SimpleNamespace(moved=lambda: None)
        self.worker = Worker(kit, book, UID, peers)

    def close(self) -> None:
        """Give the tables back."""
        self.tables.close()
        self.writer.close()

    def write(self, *volumes: VolumeRow, version: int = 1) -> None:
        """Write the pod's row as ``volumes`` does, and have it seen."""
        self.writer.put(UID, pack(MountsRow(UID, version, volumes).to_wire()))
        self.waiters.notify(MOUNTS, UID)

    async def _ask(self, kind: str, request: Any, timeout: float) -> Any:  # noqa: ASYNC109 - as it is called
        assert kind == "volumes"
        assert timeout > 0
        self.asked.append(request)
        return self.answer(request)
