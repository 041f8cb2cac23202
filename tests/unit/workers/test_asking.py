"""What a container needs out of volumes is asked of their process (L-32, P-174)."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.channels.errors import PeerGoneError
from kubelet.channels.messages import FileKeyRead, PrepareSubPath, ReadFileKey, SubPathPrepared
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs.context import FileKey
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.workers.asking import with_volumes
from procs.syncloop.workers.retry import RetryError
from tests.unit.configs.config_pods import context, site
from tests.unit.workers.volume_scene import NOW, UID, Scene, pod

KEY = {"fileKeyRef": {"volumeName": "v", "path": "env", "key": "K"}}
CONTAINER = {
    "env": [{"name": "A", "valueFrom": KEY}],
    "volumeMounts": [
        {"name": "v", "mountPath": "/whole"},
        {"name": "v", "mountPath": "/1", "subPathExpr": "of/$(A)"},
        {"name": "v", "mountPath": "/2", "subPath": "two"},
    ],
}


@pytest.fixture
def make(tmp_path):
    """Return a pod's scene."""
    made = []

    def new(container):
        made.append(Scene(tmp_path, pod("v", container=container)))
        return made[-1]

    yield new
    for scene in made:
        scene.close()


def surroundings(scene):
    """What the container is made with."""
    around = context(volumes={"v": VolumeRow("v", host_path="/host/v")})
    container = scene.pod.spec.containers[0]
    return asyncio.run(with_volumes(scene.worker, scene.pod, container, around, site()))


def answer(request):
    """What ``volumes`` says."""
    if isinstance(request, ReadFileKey):
        return FileKeyRead("one")
    return SubPathPrepared(f"/prepared/{request.index}")


def test_who_needs_nothing_asks_nothing(make):
    """L-32: a container without parts of volumes costs no message, and says nothing."""
    scene = make({"volumeMounts": [{"name": "v", "mountPath": "/whole"}]})
    assert surroundings(scene).subpaths == {}
    assert scene.asked == []
    assert scene.worker.work.step == ""


def test_variables_come_before_the_parts_that_they_name(make):
    """L-32, P-174: variables are read first, because a subPathExpr may be made of them."""
    scene = make(CONTAINER)
    scene.answer = answer
    found = surroundings(scene)
    assert found.subpaths == {1: "/prepared/1", 2: "/prepared/2"}
    assert found.file_keys == {FileKey("v", "env", "K"): "one"}
    assert scene.asked == [
        ReadFileKey(UID, "v", "env", "K"),
        PrepareSubPath(UID, "main", 1, "v", "of/one"),
        PrepareSubPath(UID, "main", 2, "v", "two"),
    ]


@pytest.mark.parametrize("kind", [ReadFileKey, PrepareSubPath])
def test_what_cannot_be_had_is_an_error_of_the_container(make, kind):
    """L-32, P-174: the words of ``volumes`` are what the pod's user reads."""
    scene = make(CONTAINER)
    bad = {ReadFileKey: FileKeyRead(error="no"), PrepareSubPath: SubPathPrepared("", "no")}
    scene.answer = lambda one: bad[kind] if isinstance(one, kind) else answer(one)
    with pytest.raises(ConfigError, match=r"^no$"):
        surroundings(scene)


def test_a_death_of_volumes_is_tried_again(make):
    """L-32: without an answer the pod waits and says for what; it is asked again in a second."""
    scene = make(CONTAINER)

    def die(_request):
        raise PeerGoneError("volumes is gone")

    scene.answer = die
    with pytest.raises(RetryError, match="volumes is gone") as caught:
        surroundings(scene)
    assert caught.value.until_ns == NOW + 10**9
    assert caught.value.wait.what == "variables of container main to be read"
    assert scene.worker.work.step == "waiting for parts of volumes"


def test_a_volume_that_hangs_holds_its_own_pod_alone(make):
    """L-32: while there is no answer, others go on; a pod that ends meanwhile is let go."""
    scene = make(CONTAINER)
    forever = asyncio.Event()

    async def ask(_kind, _request, timeout):  # noqa: ASYNC109 - as it is called
        del timeout
        await forever.wait()

    scene.worker.kit.process.channels.ask = ask
    around = context(volumes={"v": VolumeRow("v", host_path="/host/v")})

    async def main():
        container = scene.pod.spec.containers[0]
        asking = with_volumes(scene.worker, scene.pod, container, around, site())
        task = asyncio.ensure_future(asking)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
