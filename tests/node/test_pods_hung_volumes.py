"""A file system that does not answer holds the pod that wants it, and nobody else.

The hang is real: a file server that takes requests and answers none, so that the kernel lets go of
nobody who waits for it, not even when he is killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubelet.pods.rows import MountsRow, VolumeRow, VolumeState
from tests.node.containerd import Containerd
from tests.node.fixtures import need, sayer
from tests.node.fuse_server import FuseServer
from tests.node.pod_node import PAUSE, SECONDS, SLEEP, Document, PodNode, pod, pod_node, sh, sleeper
from tests.node.silent_server import HOST, SilentServer
from tests.node.traffic import full, traces
from tests.processes.conftest import run_root
from tests.processes.node import NAMES, alive, wait_for
from tests.tools.install import ensure_packages

__all__ = ["run_root"]

OTHERS = int(os.environ.get("KUBELET_HUNG_PODS", "20"))


@pytest.fixture
def node(containerd24: Containerd, run_root: Path) -> Iterator[PodNode]:
    """A node that is up."""
    with pod_node(containerd24, run_root) as made:
        yield made.start()


@pytest.fixture
def server(node: PodNode) -> Iterator[FuseServer]:
    """A file system on a directory of the node."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("this machine has no /dev/fuse")
    found = FuseServer(node.disk / "far")
    yield found
    found.close()


@pytest.fixture
def silent(node: PodNode, request: pytest.FixtureRequest) -> Iterator[SilentServer]:
    """An NFS server that says nothing."""
    del node  # nothing of it asks the server any more when that ends
    need(ensure_packages("nfs-common", say=sayer(request.config)))
    found = SilentServer()
    yield found
    found.close()


# The pods.


def other(name: str) -> Document:
    """A pod whose volumes need nobody."""
    item = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "d", "emptyDir": {}},
        {"name": "m", "emptyDir": {"medium": "Memory"}},
        {"name": "w", "downwardAPI": {"items": [item]}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    container = sleeper(volumeMounts=mounts)
    return pod(name, container, volumes=volumes, terminationGracePeriodSeconds=5)


def wanting(name: str, path: Path, kind: str = "", script: str = SLEEP, part: str = "") -> Document:
    """A pod that wants a path of the node, or a part of it."""
    mount = {"name": "v", "mountPath": "/v", **({"subPath": part} if part else {})}
    volumes = [{"name": "v", "hostPath": {"path": str(path), "type": kind}}]
    container = sh(script, volumeMounts=[mount])
    return pod(name, container, volumes=volumes, terminationGracePeriodSeconds=2)


def come(node: PodNode, prefix: str, count: int = OTHERS) -> float:
    """Have others start, and return how many seconds it took until all were ready."""
    began = time.monotonic()
    for number in range(count):
        node.write(other(f"{prefix}{number}"))
    for number in range(count):
        node.await_ready(full(f"{prefix}{number}"), 2 * SECONDS)
    return time.monotonic() - began


def go(node: PodNode, prefix: str, count: int = OTHERS) -> None:
    """Have others end, with all that they had."""
    uids = [node.uid(full(f"{prefix}{number}")) for number in range(count)]
    for number in range(count):
        node.remove(f"{prefix}{number}")
    for number in range(count):
        node.await_gone(full(f"{prefix}{number}"), 2 * SECONDS)
    for uid in uids:
        wait_for(f"{uid} is gone whole", lambda uid=uid: traces(node, uid) == [], 90)


# What is seen of it.


def mounts_of(node: PodNode) -> dict[str, MountsRow]:
    """What volumes tells, by uid."""
    rows = node._rows("mounts").values()
    return {row.uid: row for row in map(MountsRow.from_wire, rows)}


def volume_of(node: PodNode, name: str) -> VolumeRow | None:
    """What volumes tells of the first volume of a pod."""
    row = mounts_of(node).get(node.uid(name))
    return row.volumes[0] if row is not None and row.volumes else None


def reason_of(node: PodNode, name: str) -> str:
    """Why the first volume of a pod is not as it should be."""
    found = volume_of(node, name)
    return found.reason if found is not None else ""


def under_way(node: PodNode, name: str, words: str) -> VolumeRow:
    """Wait until an operation for a pod takes so long that it is told; what is told."""

    def look() -> VolumeRow | None:
        found = volume_of(node, name)
        return found if found is not None and words in found.operation else None

    found: VolumeRow = wait_for(f"{words} is told", look, SECONDS, PAUSE)
    return found


def workers(node: PodNode) -> list[int]:
    """The processes of operations: those that hold a lock of theirs."""
    below = f"{node.run_dir}/operations/"
    everybody = filter(str.isdigit, os.listdir("/proc"))
    ours = node.pids().values()
    return sorted(int(pid) for pid in everybody if int(pid) not in ours and _holds(pid, below))


def _holds(pid: str, below: str) -> bool:
    try:
        files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:  # it has ended
        return False
    return any(path.startswith(below) for path in files)


def command_of(pid: int) -> str:
    """The name of a process's program."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def shows(node: PodNode, *words: str) -> str:
    """Wait until ``kubeletctl status`` says something; all that it says."""

    def look() -> str | None:
        text = node.ctl("status").stdout
        return text if all(word in text for word in words) else None

    return str(wait_for(f"kubeletctl status says {words}", look, SECONDS))


def explains(node: PodNode, name: str, *words: str) -> str:
    """Wait until ``kubeletctl why`` says something of a pod; all that it says."""
    said = [""]

    def look() -> str | None:
        said[0] = node.ctl("why", name).stdout
        return said[0] if all(word in said[0] for word in words) else None

    try:
        return str(wait_for(f"kubeletctl why {name} says {words}", look, SECONDS))
    except AssertionError as err:
        raise AssertionError(f"{err}; it says:\n{said[0]}") from None


def assert_hearts_beat(node: PodNode, *killed: str) -> None:
    """Every process goes on, and none but these had to be replaced."""
    before = {name: node.row(name) for name in NAMES}
    for name, row in before.items():
        assert row is not None, name
        wait_for(f"{name} goes on", lambda n=name, b=row.beats: node.row(n).beats > b, SECONDS)
    died = {name for name, process in node.processes().items() if process["restarts"]}
    assert died == set(killed), (died, "\n".join(node.log().splitlines()[-60:]))


def kill_volumes(node: PodNode) -> None:
    """Kill the process volumes, and wait until its successor works."""
    pid = node.pids()["volumes"]
    os.kill(pid, signal.SIGKILL)
    wait_for("volumes is back", lambda: node.beating("volumes", pid), SECONDS)


@pytest.mark.timeout(600)
def test_a_pod_that_wants_a_hung_file_system_is_the_only_one_that_waits(
    node: PodNode, server: FuseServer
) -> None:
    """Others come and go; who looks is told; a death in between begins nothing a second time."""
    alone = come(node, "a")
    go(node, "a")
    server.hang()
    stuck = node.write(wanting("stuck", server.directory / "part", "Directory"))
    under_way(node, stuck, "mounting hostPath")
    [worker] = workers(node)
    beside = come(node, "b")
    print(f"{OTHERS} pods were ready after {alone:.1f} s, and beside a hang after {beside:.1f} s")
    assert workers(node) == [worker]
    assert volume_of(node, stuck).state is VolumeState.PENDING
    shows(node, "mounting hostPath is under way for", stuck)
    explains(node, stuck, "volume v to be mounted: mounting hostPath under way since")
    assert_hearts_beat(node)

    before = {uid: row for uid, row in mounts_of(node).items() if uid != node.uid(stuck)}
    kill_volumes(node)
    wait_for("it is tried again", lambda: "has not come back" in reason_of(node, stuck), SECONDS)
    assert alive(worker)
    assert workers(node) == [worker]
    assert before == {uid: row for uid, row in mounts_of(node).items() if uid != node.uid(stuck)}
    come(node, "c", 2)
    go(node, "b")
    explains(node, stuck, "check, begun", "has not come back yet")
    assert workers(node) == [worker]
    assert_hearts_beat(node, "volumes")

    server.go()
    node.await_ready(stuck, 3 * SECONDS)
    assert workers(node) == []
    node.remove("stuck")
    node.await_gone(stuck)


@pytest.mark.timeout(600)
def test_what_a_pod_has_of_a_hung_file_system_holds_up_no_other(
    node: PodNode, server: FuseServer
) -> None:
    """Its own end waits for no more than what hangs, says for what, and comes with the answer."""
    holds = f"exec 3< /v/file; echo opened; {SLEEP}"
    quiet = node.write(wanting("quiet", server.directory, part="part"))
    holder = node.write(wanting("holder", server.directory, script=holds))
    node.await_ready(quiet)
    node.await_output(holder, "opened")
    come(node, "a", 4)
    uids = [node.uid(name) for name in (quiet, holder)]
    server.hang()
    go(node, "a", 4)
    come(node, "b", 4)
    assert_hearts_beat(node)
    node.remove("quiet")
    node.remove("holder")
    node.await_gone(quiet)  # nobody needs the server to let go of it
    assert traces(node, uids[0]) == []
    shows(node, f"{holder} Terminating: waits for container c to end")
    explains(node, holder, "It waits for container c to end since")
    kill_volumes(node)
    go(node, "b", 4)
    assert node.cache.pod(uids[1]).record is not None
    assert_hearts_beat(node, "volumes")
    server.go()
    node.await_gone(holder)
    wait_for("it is gone whole", lambda: traces(node, uids[1]) == [], 90)


@pytest.mark.timeout(600)
def test_a_part_of_a_hung_file_system_holds_up_no_other(node: PodNode, server: FuseServer) -> None:
    """Parts of other volumes are bound meanwhile, and this one when the server answers again."""
    server.hang()
    stuck = node.write(wanting("stuck", server.directory, part="part"))
    [worker] = wait_for("it hangs", lambda: workers(node), SECONDS)
    (node.disk / "near").mkdir()
    near = [node.write(wanting(f"n{n}", node.disk / "near", part=f"x{n}")) for n in range(3)]
    for name in near:
        node.await_ready(name)
    assert_hearts_beat(node)
    shows(node, f"{stuck} ContainerCreating: waits for parts of volumes of container c")
    explains(node, stuck, "It waits for parts of volumes of container c to be mounted since")

    kill_volumes(node)
    for n in range(3):
        node.remove(f"n{n}")
    for name in near:
        node.await_gone(name)
    explains(node, stuck, 'failed to prepare subPath "part"', "has not come back yet")
    assert workers(node) == [worker]
    assert_hearts_beat(node, "volumes")

    server.go()
    node.await_ready(stuck, 3 * SECONDS)
    assert workers(node) == []


@pytest.mark.timeout(600)
def test_a_pod_that_is_deleted_while_its_volume_hangs(node: PodNode, server: FuseServer) -> None:
    """It is told what its end waits for, and it ends with the hang."""
    server.hang()
    stuck = node.write(wanting("stuck", server.directory / "part", "Directory"))
    under_way(node, stuck, "mounting hostPath")
    [worker] = workers(node)
    uid = node.uid(stuck)
    node.remove("stuck")
    explains(node, stuck, "It waits for volume v to be unmounted: mounting hostPath under way")
    shows(node, f"{stuck}: volume v is unmounting: mounting hostPath is under way for")
    come(node, "a", 2)
    assert workers(node) == [worker]
    assert_hearts_beat(node)

    server.go()
    node.await_gone(stuck)
    wait_for("it is gone whole", lambda: traces(node, uid) == [], 90)
    assert workers(node) == []


@pytest.mark.timeout(600)
def test_an_nfs_server_that_never_answers_holds_up_no_other(
    node: PodNode, silent: SilentServer
) -> None:
    """The program that mounts waits for it, alone; when it is refused, its words are the event."""
    volume = {"name": "v", "nfs": {"server": HOST, "path": "/exported"}}
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    stuck = node.write(pod("stuck", sleeper(**mounted), volumes=[volume]))
    words = f"mounting {HOST}:/exported"
    under_way(node, stuck, words)
    assert silent.asked.is_set()
    before = workers(node)
    assert {command_of(pid) for pid in before} == {"mount", "mount.nfs"}
    come(node, "a", 6)
    shows(node, f"{stuck}: volume v is pending: {words} is under way for")
    explains(node, stuck, f"volume v to be mounted: {words} under way since")
    assert workers(node) == before
    assert_hearts_beat(node)

    kill_volumes(node)
    wait_for("it is tried again", lambda: "mount, begun" in reason_of(node, stuck), SECONDS)
    [orphan] = workers(node)  # it asks on, and nobody asks beside it
    assert command_of(orphan) == "mount.nfs"
    assert orphan in before
    go(node, "a", 6)
    assert workers(node) == [orphan]
    assert_hearts_beat(node, "volumes")

    silent.refuse()
    refused = "requested NFS version or transport protocol is not supported"

    def event() -> Document | None:
        return next((e for e in node.events(stuck) if refused in e["message"]), None)

    found = wait_for("an event with the words of mount.nfs", event, 2 * SECONDS)
    assert found["reason"] == "FailedMount"
    assert f"Mounting arguments: -t nfs {HOST}:/exported" in found["message"]
    uid = node.uid(stuck)
    node.remove("stuck")
    node.await_gone(stuck)
    wait_for("it is gone whole", lambda: traces(node, uid) == [], 90)
    assert workers(node) == []


@pytest.mark.timeout(600)
def test_a_file_system_that_dies_after_it_has_hung(node: PodNode, server: FuseServer) -> None:
    """What waited for it fails with the kernel's word, and the pod comes up when it can."""
    server.hang()
    path = server.directory / "part"
    stuck = node.write(wanting("stuck", path, "Directory"))
    under_way(node, stuck, "mounting hostPath")
    kill_volumes(node)
    wait_for("it is tried again", lambda: "has not come back" in reason_of(node, stuck), SECONDS)
    server.die()
    wait_for("it has failed", lambda: "not connected" in reason_of(node, stuck), SECONDS)
    message = node.await_event(stuck, "FailedMount")["message"]
    assert message.startswith('MountVolume.SetUp failed for volume "v" : ')
    explains(node, stuck, "Transport endpoint is not connected")
    server.close()
    path.mkdir()
    node.await_ready(stuck, 3 * SECONDS)
    assert workers(node) == []
    assert_hearts_beat(node, "volumes")


@pytest.mark.timeout(600)
def test_a_kubelet_that_stops_while_a_volume_hangs(node: PodNode, server: FuseServer) -> None:
    """It does not wait for what the kernel keeps; started again, it knows what hangs."""
    server.hang()
    stuck = node.write(wanting("stuck", server.directory / "part", "Directory"))
    under_way(node, stuck, "mounting hostPath")
    [worker] = workers(node)
    assert node.stop() == 0
    assert alive(worker)
    node.start()
    wait_for("it is tried again", lambda: "has not come back" in reason_of(node, stuck), SECONDS)
    assert workers(node) == [worker]
    come(node, "a", 2)
    assert_hearts_beat(node)
    server.go()
    node.await_ready(stuck, 3 * SECONDS)
    assert workers(node) == []
