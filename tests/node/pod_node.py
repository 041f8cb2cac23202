"""A whole kubelet on a private containerd, and its pods as its tables show them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubelet.cri import api_pb2
from kubelet.cri.api_pb2_grpc import RuntimeServiceStub
from kubelet.cri.info import init_pid
from kubelet.pods.rows import EventsRow, PodRow, SourcesRow, StatusRow, WorkRow
from kubelet.pods.runtime import PodRecord
from shm.codec import unpack
from shm.reader import Reader
from shm.tables import BY_NAME
from tests.node.containerd import Containerd
from tests.node.images import BUSYBOX
from tests.processes.node import Node, wait_for
from tests.processes.pleg_node import Cache

NODE_NAME = "testnode"
SECONDS = 60.0  # that anything may take on a machine that has other things to do
SLEEP = "trap 'exit 0' TERM; sleep 100000 & wait"  # ends at once when told to
PAUSE = 0.02  # between two looks: what is looked at needs the processor, too
Document = dict[str, Any]


def sh(script: str, name: str = "c", **more: Any) -> Document:
    """A container that runs a shell script."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", script], **more}


def sleeper(name: str = "c", **more: Any) -> Document:
    """A container that runs until it is told to end, and ends at once then."""
    return sh(SLEEP, name, **more)


def pod(name: str, *containers: Document, meta: Document | None = None, **spec: Any) -> Document:
    """A pod's document."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"containers": list(containers) or [sleeper()], **spec},
    }


class PodNode(Node):
    """A node with a directory of manifests, whose pods are watched through the tables."""

    def __init__(
        self,
        root: Path,
        name: str,
        arguments: tuple[str, ...] = (),
        *,
        containerd: Containerd,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.containerd = containerd
        self.disk = containerd.directory / f"kubelet-{name}"  # containers must reach it
        self.root_dir = self.disk / "root"
        self.manifests = self.disk / "manifests"
        self.logs = self.disk / "logs"
        for directory in (self.root_dir, self.manifests, self.logs):
            directory.mkdir(parents=True, exist_ok=True)
        given = {
            "containerRuntimeEndpoint": containerd.endpoint,
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self.logs),
            "cgroupRoot": containerd.cgroup_parent,
            **(config or {}),
        }
        flags = (f"--root-dir={self.root_dir}", f"--hostname-override={NODE_NAME}", *arguments)
        super().__init__(root, name, flags, config=given, **options)
        self._readers: dict[str, Reader] = {}
        self._cache: Cache | None = None

    # What the user does.

    def write(self, document: Document, file: str | None = None) -> str:
        """Put a manifest there at once, as careful writers do; the name of the pod to come."""
        name = str(document["metadata"]["name"])
        path = self.manifests / (file or f"{name}.yaml")
        temporary = self.disk / ".new"
        temporary.write_text(json.dumps(document))
        temporary.rename(path)
        return f"{name}-{NODE_NAME}"

    def remove(self, name: str) -> None:
        """Take a manifest away."""
        (self.manifests / f"{name}.yaml").unlink()

    def apply(self, document: Document) -> str:
        """Submit a pod over the kubelet's own socket; its name."""
        path = self.disk / ".apply.json"
        path.write_text(json.dumps(document))
        done = self.ctl("apply", "-f", str(path))
        assert done.returncode == 0, done.stdout + done.stderr
        return str(document["metadata"]["name"])

    def delete(self, name: str, *options: str) -> None:
        """End a pod that was applied, and return at once."""
        done = self.ctl("delete", "pod", name, "--wait=false", *options)
        assert done.returncode == 0, done.stdout + done.stderr

    def stop(self) -> int:
        """Ask it to stop; the exit code. Its pods run on."""
        code = super().stop()
        self._detach()
        return code

    def end(self) -> None:
        """Make sure that nothing of it runs."""
        super().end()
        self._detach()

    def _detach(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    # What the tables say.

    def _rows(self, table: str) -> dict[str, Any]:
        reader = self._readers.get(table)
        if reader is None:
            path = self.run_dir / "tables" / table
            wait_for(f"table {table}", path.exists)
            reader = self._readers[table] = Reader.attach(path.parent, BY_NAME[table])
        reader.refresh()
        return {entry.key: unpack(entry.payload) for entry in reader.items()}

    def pods(self) -> dict[str, PodRow]:
        """The rows of all pods, by name."""
        return {row.name: row for row in self.rows()}

    def rows(self) -> list[PodRow]:
        """The rows of all pods, those last that were seen last."""
        rows = [PodRow.from_wire(value) for value in self._rows("pods").values()]
        return sorted(rows, key=lambda row: row.seen_ns)

    def uid(self, name: str) -> str:
        """The uid of a pod."""
        found = wait_for(f"pod {name} is known", lambda: self.pods().get(name), SECONDS, PAUSE)
        return str(found.uid)

    def status(self, name: str) -> Document:  # type: ignore[override]
        """The status of a pod; nothing while it has none."""
        rows = [StatusRow.from_wire(value) for value in self._rows("status").values()]
        known = {row.uid: row for row in rows}
        row = self.pods().get(name)
        found = known.get(row.uid) if row is not None else None
        status: Document = json.loads(found.document) if found is not None else {}
        return status

    def statuses(self) -> dict[str, Document]:
        """The statuses of all pods that have one, by name."""
        names = {row.uid: row.name for row in self.rows()}
        rows = (StatusRow.from_wire(value) for value in self._rows("status").values())
        return {names[row.uid]: json.loads(row.document) for row in rows if row.uid in names}

    def events(self, name: str) -> list[Document]:  # type: ignore[override]
        """What happened to a pod, oldest first."""
        row = self.pods().get(name)
        value = self._rows("events").get(row.uid) if row is not None else None
        events = EventsRow.from_wire(value).events if value is not None else ()
        return [
            {"type": e.type, "reason": e.reason, "message": e.message, "count": e.count}
            for e in events
        ]

    def reasons(self, name: str) -> list[str]:
        """The reasons of a pod's events, oldest first."""
        return [event["reason"] for event in self.events(name)]

    def sources(self) -> SourcesRow:
        """What the sources of pods say of themselves."""
        value = self._rows("events").get("sources")
        return SourcesRow.from_wire(value) if value is not None else SourcesRow()

    def work(self, name: str) -> WorkRow:
        """What the worker of a pod is at."""
        uid = self.uid(name)
        value = self._rows("inflight").get(uid)
        return WorkRow.from_wire(value) if value is not None else WorkRow(uid)

    @property
    def cache(self) -> Cache:
        """The pod status cache."""
        if self._cache is None:
            self._cache = Cache(self)
        return self._cache

    def record(self, name: str) -> PodRecord | None:
        """What the runtime holds of a pod."""
        row = self.pods().get(name)
        return self.cache.pod(row.uid).record if row is not None else None

    # Waiting.

    def await_status(
        self, name: str, what: str, check: Callable[[Document], Any], seconds: float = SECONDS
    ) -> Document:
        """Wait for a status that the check likes, and return it."""
        seen: list[Document] = [{}]

        def look() -> Document | None:
            seen[0] = self.status(name)
            return seen[0] if seen[0] and check(seen[0]) else None

        try:
            found: Document = wait_for(what, look, seconds, PAUSE)
        except AssertionError as err:
            text = json.dumps(seen[0], indent=1)
            tail = "\n".join(self.log().splitlines()[-30:])
            raise AssertionError(f"{err}\n{text}\n{self.events(name)}\n{tail}") from None
        return found

    def await_phase(self, name: str, phase: str, seconds: float = SECONDS) -> Document:
        """Wait for a phase."""
        return self.await_status(
            name, f"{name} is {phase}", lambda s: s.get("phase") == phase, seconds
        )

    def await_ready(self, name: str, seconds: float = SECONDS) -> Document:
        """Wait until a pod is ready."""
        return self.await_status(name, f"{name} is ready", is_ready, seconds)

    def await_gone(self, name: str, seconds: float = SECONDS) -> None:
        """Wait until nobody knows a pod any more."""
        wait_for(f"{name} is gone", lambda: name not in self.pods(), seconds, PAUSE)

    def await_event(self, name: str, reason: str, seconds: float = SECONDS) -> Document:
        """Wait for an event of a pod."""

        def look() -> Document | None:
            return next((e for e in self.events(name) if e["reason"] == reason), None)

        found: Document = wait_for(f"event {reason} of {name}", look, seconds, PAUSE)
        return found

    def await_settled(self) -> None:
        """Wait until every source has spoken and no worker has anything to do."""

        def look() -> bool:
            delivered = self.sources().delivered
            rows = self._rows("inflight")
            at_rest = all(
                uid in rows and not WorkRow.from_wire(rows[uid]).step for uid in self._rows("pods")
            )
            return bool(delivered) and all(delivered.values()) and at_rest

        wait_for("everything is at rest", look, SECONDS, PAUSE)

    # The containers themselves.

    def container(self, name: str, container: str = "c") -> Document:
        """The status of a container of a pod."""
        status = self.status(name)
        kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        every = [c for kind in kinds for c in status.get(kind, [])]
        return next(c for c in every if c["name"] == container)

    def pid_of(self, name: str, container: str = "c") -> int:
        """The first process of a container that runs."""

        def look() -> int:
            record = self.record(name)
            found = record.containers if record is not None else ()
            return next((c.pid for c in found if c.name == container and c.pid), 0)

        return int(wait_for(f"{container} of {name} runs", look, SECONDS, PAUSE))

    def sandbox_pid(self, name: str) -> int:
        """The process that holds a pod's sandbox."""
        record = self.record(name)
        assert record is not None
        asked = api_pb2.PodSandboxStatusRequest(pod_sandbox_id=record.sandboxes[0].id, verbose=True)
        with self.containerd.channel() as channel:
            answer = RuntimeServiceStub(channel).PodSandboxStatus(asked, timeout=SECONDS)
        pid = init_pid(answer)
        assert pid is not None
        return pid

    def output(self, name: str, container: str = "c", attempt: int = 0) -> str:
        """What a container has written so far."""
        row = self.pods().get(name)
        if row is None:
            return ""
        path = self.logs / f"{row.namespace}_{name}_{row.uid}" / container / f"{attempt}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return "".join(line.split(" ", 3)[3] + "\n" for line in lines)

    def await_output(self, name: str, text: str, container: str = "c", attempt: int = 0) -> str:
        """Wait until a container has written something."""
        found: str = wait_for(
            f"{name} writes {text!r}",
            lambda: next((o for o in [self.output(name, container, attempt)] if text in o), None),
            SECONDS,
            PAUSE,
        )
        return found


def is_ready(status: Document) -> bool:
    """Whether a status says that the pod is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))


@contextmanager
def pod_node(
    containerd: Containerd, root: Path, name: str = "n0", **options: Any
) -> Iterator[PodNode]:
    """A node on a containerd; at the end nothing of it is left."""
    node = PodNode(root, name, containerd=containerd, **options)
    try:
        yield node
    finally:
        node.end()
        unmount_below(node.disk)
        node.assert_nothing_left()
        shutil.rmtree(node.disk)
        remove_links(node.disk)


def unmount_below(directory: Path) -> None:
    """Unmount what is mounted below a directory, the deepest first."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        points = [line.split()[4] for line in mounts]
    for point in sorted((p for p in points if p.startswith(f"{directory}/")), reverse=True):
        subprocess.run(["umount", "-l", point], check=True)


def remove_links(directory: Path) -> None:
    """Remove the legacy links of logs that pointed below a directory."""
    links = Path("/var/log/containers")
    for link in links.iterdir() if links.is_dir() else ():
        if link.is_symlink() and os.readlink(link).startswith(f"{directory}/"):
            link.unlink()
