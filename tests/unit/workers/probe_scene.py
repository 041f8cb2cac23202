"""A pod whose containers run, its worker and manager, and the hand of prober on a real table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kubelet.api import codec
from kubelet.api.defaults import with_defaults
from kubelet.api.pod import Pod
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.cache import Seen
from kubelet.pods.probes import PROBES, Finding, ProbeKind, ProbesRow, Verdict
from kubelet.pods.rows import STATUS, StatusRow
from kubelet.pods.runtime import (
    TABLE,
    ContainerRecord,
    ContainerState,
    PodRecord,
    RuntimeRecord,
    SandboxRecord,
    SandboxState,
)
from kubelet.process.tables import Tables
from procs.syncloop.manager import Manager
from procs.syncloop.probes.results import Results
from procs.syncloop.workers import state
from procs.syncloop.workers.book import Book
from procs.syncloop.workers.worker import Worker
from shm.codec import pack, unpack
from shm.table import Writer
from shm.tables import BY_NAME

NOW = 1_700_000_000 * 10**9
UID = "u1"
PROBE: dict[str, Any] = {"tcpSocket": {"port": 80}}
SUCCESS, FAILURE, UNKNOWN = Verdict.SUCCESS, Verdict.FAILURE, Verdict.UNKNOWN
LIVENESS, READINESS, STARTUP = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP


def probed(name: str = "app", *kinds: ProbeKind, **more: Any) -> dict[str, Any]:
    """A container with these probes."""
    return {"name": name, "image": "i:1", **{f"{kind}Probe": PROBE for kind in kinds}, **more}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **meta: Any) -> Pod:
    """A pod of these containers."""
    spec = {"containers": list(containers), "initContainers": list(init)}
    document = {"metadata": {"name": "p", "namespace": "n", "uid": UID, **meta}, "spec": spec}
    return with_defaults(codec.read(Pod, document))


def runs(name: str, attempt: int = 0) -> ContainerRecord:
    """A container that runs."""
    running = ContainerState.RUNNING
    return ContainerRecord(f"{name}-{attempt}", name, attempt, running, sandbox_id="s")


def findings(id_: str, pod_: str = UID, **found: Verdict) -> ProbesRow:
    """A row with these verdicts by kind."""
    said = {kind: Finding(verdict, NOW, "connection refused") for kind, verdict in found.items()}
    return ProbesRow(id_, pod_, id_.partition("-")[0], said)


class Scene:
    """One pod that was let in, and those around it."""

    def __init__(self, directory: Any, wanted: Pod, *containers: ContainerRecord) -> None:
        self.prober = Writer.attach(directory, BY_NAME[PROBES])
        self.tables = Tables(directory, "syncloop")
        self.closed = False
        self.written: list[StatusRow] = []
        self.recorded: list[str] = []
        self.see(*containers)
        process: Any = SimpleNamespace(
            quarantined=frozenset(),
            record=lambda what, text="", _pod="": self.recorded.append(f"{what} {text}"),
            put=self._put,
            delete=lambda *_: None,
            on_hint=lambda hinted: setattr(self, "hinted", hinted),
            tables=self.tables,
        )
        self.kit: Any = SimpleNamespace(
            process=process,
            wall=lambda: NOW,
            started_ns=0,
            probes=Results(self.tables),
            cache=SimpleNamespace(get=lambda _uid: self.seen, runtime=RuntimeRecord, raw=self._raw),
            site=lambda: SimpleNamespace(ips=("192.0.2.1",)),
            reached=lambda *_: None,
        )
        self.book = Book(process, self.kit.wall)
        row = state.apply(state.born(wanted, "api", NOW), state.Admitted(), NOW).row
        self.book.put(row)
        nobody: Any = SimpleNamespace()
        self.manager = Manager(self.kit, self.book, nobody)
        self.worker = Worker(self.kit, self.book, UID, self.manager)
        self.manager._workers[UID] = self.worker

    def close(self) -> None:
        """Give the tables back; again it does nothing."""
        if self.closed:
            return
        self.closed = True
        self.tables.close()
        self.prober.close()

    def see(self, *containers: ContainerRecord, stamp_ns: int = 1) -> None:
        """Have pleg find these."""
        box = SandboxRecord("s", state=SandboxState.READY, ips=("10.0.0.2",))
        self.seen = Seen(PodRecord(UID, "p", "n", (box,), containers), stamp_ns)

    def find(self, row: ProbesRow, *, hint: str | None = None) -> None:
        """Write a row as prober does, and have it seen."""
        self.prober.put(row.id, pack(row.to_wire()))
        self.hint(PROBES, row.id if hint is None else hint)

    def hint(self, table: str = TABLE, key: str = ANY_KEY) -> None:
        """Tell that a table has changed."""
        hinted: Any = self.hinted  # type: ignore[attr-defined]
        hinted(Hint(table, key, 0))

    @property
    def woken(self) -> bool:
        """Whether the worker is to work."""
        return self.worker._woken.is_set()

    def container(self, name: str = "app") -> tuple[bool | None, bool]:
        """Return whether a container has started and is ready, as it was published last."""
        status = self.written[-1].status
        every = (*status.init_container_statuses, *status.container_statuses)
        found = next(one for one in every if one.name == name)
        return found.started, bool(found.ready)

    def condition(self, type_: str = "Ready") -> tuple[str, str, str]:
        """Return a condition of the pod as it was published last."""
        conditions = self.written[-1].status.conditions
        return next((c.status, c.reason, c.message) for c in conditions if c.type == type_)

    def _put(self, table: str, _key: str, value: Any, *_: Any) -> None:
        if table == STATUS:
            self.written.append(StatusRow.from_wire(unpack(pack(value))))

    def _raw(self, _uid: str) -> bytes:
        return repr(self.seen.record).encode()
