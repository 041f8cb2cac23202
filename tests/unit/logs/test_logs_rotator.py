"""The rotator as the process runs it: from the pod status cache to calls of the runtime (I-40)."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kubelet import config
from kubelet.cri import api_pb2 as pb
from kubelet.pods.cache import Seen
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.logs import Rotator
from tests.unit.cri.runtime import pair


class Process:
    """As much of a process as the rotator uses; ``noted`` is set at the first note."""

    def __init__(self, *flags: str) -> None:
        self.config = config.load(list(flags)).config
        self.tasks: list[asyncio.Task[None]] = []
        self.notes: list[tuple[str, ...]] = []
        self.noted = asyncio.Event()

    def spawn(self, work, name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    def record(self, *note: str) -> None:
        self.notes.append(note)
        self.noted.set()


class Cache:
    """Pods as they were seen last."""

    def __init__(self, *records: PodRecord) -> None:
        self._records = {record.uid: record for record in records}

    def uids(self) -> list[str]:
        return list(self._records)

    def get(self, uid: str) -> Seen:
        return Seen(self._records.get(uid), 1)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short directory on a tmpfs, as socket addresses want it."""
    made = Path(tempfile.mkdtemp(prefix="logs-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def test_logs_of_running_containers_are_rotated(directory: Path):
    """Those that are too large, at the first look; the others are not touched."""
    paths = {name: directory / "ns_pod_uid" / name / "0.log" for name in ("a", "b", "c")}
    for path in paths.values():
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 2000)
    paths["b"].write_bytes(b"x")
    records = (
        ContainerRecord("id-a", "a", state=ContainerState.RUNNING, log_path=str(paths["a"])),
        ContainerRecord("id-b", "b", state=ContainerState.RUNNING, log_path=str(paths["b"])),
        ContainerRecord("id-c", "c", state=ContainerState.EXITED, log_path=str(paths["c"])),
        ContainerRecord("id-d", "d", state=ContainerState.RUNNING),
    )
    leftover = paths["c"].with_name("0.log.20260102-030405.tmp")
    leftover.touch()

    async def main() -> Process:
        process = Process("--container-log-max-size=1Ki")
        cache = Cache(PodRecord("uid", "pod", "ns", containers=records))
        async with asyncio.timeout(20), pair(directory) as (runtime, client, _images):
            runtime.answers["ReopenContainerLog"] = pb.ReopenContainerLogResponse()
            site = lambda: SimpleNamespace(logs_dir=str(directory))  # noqa: E731 - one word of it
            Rotator(process, client, cache, site).start()
            await process.noted.wait()
            asked = pb.ReopenContainerLogRequest.FromString(runtime.requests[-1][1])
            assert asked.container_id == "id-a"
            process.tasks[0].cancel()
            await asyncio.wait(process.tasks)
        return process

    process = asyncio.run(main())
    [moved] = paths["a"].parent.iterdir()
    assert moved.name.startswith("0.log.2")
    assert process.notes == [("log rotated", f"a: {moved}", "uid")]
    assert paths["b"].exists()
    assert paths["c"].exists()
    assert not leftover.exists()


def test_negative_size_turns_it_off():
    """Nothing is started then."""

    async def main() -> None:
        process = Process("--container-log-max-size=-1")
        Rotator(process, None, Cache(), None).start()
        assert process.tasks == []

    asyncio.run(main())
