"""Garbage collection carried out: calls to the runtime in their order, and real files."""

from __future__ import annotations

import asyncio
import os

import pytest

from kubelet.cri.errors import Code, CriError
from kubelet.pods.cache import Seen
from kubelet.pods.rows import WorkerState
from kubelet.pods.runtime import PodRecord
from procs.syncloop.gc import ContainerGc, GcPolicy, KnownPod
from procs.syncloop.site import Site
from tests.unit.plan.made import SECOND, UNKNOWN, box, done, rec

SYNC = KnownPod(WorkerState.SYNC)


class Runtime:
    """Notes what it is asked for; some ids it will not let go."""

    def __init__(self):
        self.calls = []
        self.stubborn = set()
        self.gate = None

    async def _call(self, what, id_):
        if self.gate is not None:
            await self.gate.wait()
        self.calls.append(f"{what} {id_}")
        if id_ in self.stubborn:
            raise CriError(Code.INTERNAL, "busy", what, id_)
        return True

    async def stop_container(self, container_id, grace):
        return await self._call(f"stop({grace})", container_id)

    async def remove_container(self, container_id):
        return await self._call("remove", container_id)

    async def stop_pod_sandbox(self, sandbox_id):
        return await self._call("stop-box", sandbox_id)

    async def remove_pod_sandbox(self, sandbox_id):
        return await self._call("remove-box", sandbox_id)


class Cache:
    """The pod status cache as a dictionary."""

    def __init__(self):
        self.pods = {}
        self.looked_ns = 1

    def get(self, uid):
        return Seen(self.pods.get(uid), self.looked_ns)

    def uids(self):
        return list(self.pods)

    def full_look_ns(self):
        return self.looked_ns


class World:
    """A collector over both, with directories for logs."""

    def __init__(self, root):
        self.site = Site("n", (), f"{root}/k", f"{root}/pods", f"{root}/containers")
        self.runtime, self.cache, self.said = Runtime(), Cache(), []
        self.gc = ContainerGc(
            self.runtime,
            self.cache,
            lambda: self.site,
            GcPolicy(),
            self.said.append,
            wall=lambda: 1000 * SECOND,
        )
        os.makedirs(self.site.logs_dir)
        os.makedirs(self.site.links_dir)

    def hold(self, uid, *containers, boxes=()):
        self.cache.pods[uid] = PodRecord(uid, "web", "default", tuple(boxes), containers)

    def log(self, uid, name, *files):
        directory = f"{self.site.pod_logs_dir('default', 'web', uid)}/{name}"
        os.makedirs(directory, exist_ok=True)
        for file in files:
            with open(f"{directory}/{file}", "w", encoding="utf-8") as made:
                made.write("x")
        return directory

    def link(self, name, target):
        os.symlink(target, f"{self.site.links_dir}/{name}")

    def collect(self, known=None, ready=True):
        asyncio.run(self.gc.collect(known or {}, ready))


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_death_prunes_older_instances_with_their_logs(world):
    """The files of the removed instance go, rotated ones and the link too (I-5, I-41)."""
    world.hold("u", done("a", attempt=11), done("a", attempt=1, id_="old"), done("b"))
    directory = world.log("u", "a", "11.log", "1.log", "1.log.20260102-030405.gz")
    world.link("web_default_a-old.log", f"{directory}/1.log")
    world.link("web_default_a-a-11.log", f"{directory}/11.log")
    asyncio.run(world.gc.prune("u", "a"))
    assert world.runtime.calls == ["remove old"]
    assert os.listdir(directory) == ["11.log"]
    assert os.listdir(world.site.links_dir) == ["web_default_a-a-11.log"]
    assert world.said == []


def test_the_whole_pod_can_be_pruned(world):
    """With a record at hand or with what the cache has; nothing is no error."""
    world.hold("u", done("a", attempt=1), done("a"), done("b", attempt=1), done("b"))
    asyncio.run(world.gc.prune_pod("u"))
    asyncio.run(world.gc.prune_pod("u", world.cache.pods["u"]))
    asyncio.run(world.gc.prune_pod("nobody"))
    asyncio.run(world.gc.prune("nobody", "a"))
    assert world.runtime.calls == ["remove a-0", "remove b-0"] * 2


def test_what_may_be_running_is_stopped_first(world):
    """I-5."""
    world.hold("u", done("a", attempt=1), rec("a", UNKNOWN, id_="x"))
    asyncio.run(world.gc.prune("u", "a"))
    assert world.runtime.calls == ["stop(2) x", "remove x"]


def test_all_of_a_pod_that_nobody_wants_goes(world):
    """Containers, then sandboxes, stopped before they are removed, then logs (I-2..I-4)."""
    world.hold("u", done("a"), boxes=[box("s", ready=False)])
    directory = world.log("u", "a", "0.log")
    world.link("web_default_a-a-0.log", f"{directory}/0.log")
    world.collect()
    assert world.runtime.calls == ["remove a-0", "stop-box s", "remove-box s"]
    assert os.listdir(world.site.logs_dir) == []
    assert os.listdir(world.site.links_dir) == []


def test_what_is_wanted_stays(world):
    """Its last containers, its sandbox and all logs."""
    world.hold("u", done("a"), boxes=[box("s", ready=False)])
    directory = world.log("u", "a", "0.log")
    world.link("web_default_a-a-0.log", f"{directory}/0.log")
    world.collect({"u": SYNC})
    assert world.runtime.calls == []
    assert os.listdir(directory) == ["0.log"]
    assert os.listdir(world.site.links_dir) == ["web_default_a-a-0.log"]


def test_before_all_sources_have_spoken_nobody_is_unknown(world):
    """I-2."""
    world.hold("u", done("a"), boxes=[box("s", ready=False)])
    world.log("x", "a", "0.log")
    world.collect(ready=False)
    assert world.runtime.calls == []
    assert os.listdir(world.site.logs_dir) == ["default_web_x"]


def test_before_the_first_look_nothing_is_garbage(world):
    """A cache that says nothing does not say that nothing is there."""
    world.cache.looked_ns = 0
    world.log("x", "a", "0.log")
    world.collect()
    assert os.listdir(world.site.logs_dir) == ["default_web_x"]


def test_a_failure_is_told_and_the_rest_goes_on(world):
    """In one sentence for the node's event (I-6); what stays keeps its logs and sandbox."""
    world.hold("u", done("a"), boxes=[box("s", ready=False)])
    world.hold("v", done("b", id_="b1", sandbox="t"), boxes=[box("t", ready=False)])
    world.log("u", "a", "0.log")
    world.log("v", "b", "0.log")
    world.runtime.stubborn = {"a-0", "t"}
    world.collect()
    assert world.runtime.calls == ["remove a-0", "remove b1", "stop-box t"]
    assert world.said == ["remove a-0: Internal: busy; stop-box t: Internal: busy"]
    assert os.listdir(world.site.logs_dir) == ["default_web_u"]


def test_many_failures_are_counted(world):
    """The sentence stays one that can be read."""
    world.hold("u", *(done("a", attempt=n) for n in range(8)))
    world.runtime.stubborn = {f"a-{n}" for n in range(8)}
    world.collect()
    (said,) = world.said
    assert said.count("busy") == 5
    assert said.endswith("; and 3 more")


def test_files_that_cannot_be_deleted_are_told(world):
    """The container is gone all the same."""
    world.hold("u", done("a"))
    directory = world.log("u", "a")
    os.mkdir(f"{directory}/0.log")
    asyncio.run(world.gc._remove_all(_dead(world), failures := []))
    assert world.runtime.calls == ["remove a-0"]
    assert failures[0].startswith("logs of container a-0: ")


def _dead(world):
    from procs.syncloop.gc.containers import DeadContainer

    pod = world.cache.pods["u"]
    return [DeadContainer(pod, c) for c in pod.containers]


def test_only_dangling_links_of_ended_containers_go(world):
    """A running container's log may be moved away just now (I-4)."""
    world.hold("u", rec("a", id_="aaa"))
    for name in ("web_default_a-aaa.log", "web_default_a-bbb.log", "theirs"):
        world.link(name, "/nowhere/0.log")
    world.collect({"u": SYNC})
    assert sorted(os.listdir(world.site.links_dir)) == ["theirs", "web_default_a-aaa.log"]


def test_logs_can_be_kept(world):
    """When all containers are restarted (P-81); the file of its last words goes."""
    world.hold("u", done("a"))
    directory = world.log("u", "a", "0.log")
    pod = world.cache.pods["u"]
    asyncio.run(world.gc.remove(pod, pod.containers[0], keep_logs=True))
    assert os.listdir(directory) == ["0.log"]


def test_two_runs_do_not_remove_the_same_container(world):
    """A runtime that is asked twice at once complains."""
    world.hold("u", done("a", attempt=1), done("a"))

    async def both():
        world.runtime.gate = asyncio.Event()
        first = asyncio.create_task(world.gc.prune("u", "a"))
        second = asyncio.create_task(world.gc.collect({"u": SYNC}, True))
        await asyncio.sleep(0)
        world.runtime.gate.set()
        await asyncio.gather(first, second)

    asyncio.run(both())
    assert world.runtime.calls == ["remove a-0"]


def test_missing_directories_are_no_failure(world):
    """There were no logs yet."""
    os.rmdir(world.site.logs_dir)
    os.rmdir(world.site.links_dir)
    world.collect()
    assert world.said == []
