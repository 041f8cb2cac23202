"""Volumes in use, from table ``mounts`` to the node's status (L-13)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.rows import MOUNTS, MountsRow, VolumeRow
from procs.node.nodeobject import inuse, status
from procs.node.nodeobject.patch import between
from procs.node.nodeobject.tree import Tree
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME
from tests.unit.node.nodeobject_scene import (
    FACTS,
    NAME,
    SECOND,
    SETTINGS,
    WELL,
    Scene,
    process_of,
    soon,
)

A, B = "kubernetes.io/csi/a^1", "kubernetes.io/csi/b^2"
ATTACHED = [{"name": A, "devicePath": ""}]


def node(*in_use):
    said = {"volumesInUse": list(in_use)} if in_use else {}
    return {"metadata": {"name": NAME}, "status": {"volumesAttached": ATTACHED, **said}}


@pytest.mark.parametrize(
    ("said", "rows", "settled", "found"),
    [
        ((), {A}, True, [A]),
        ((), {B, A}, False, [A, B]),
        ((A,), {B}, True, [B]),
        ((A,), {B}, False, [A, B]),
        ((A,), set(), True, None),
        ((A,), set(), False, [A]),
        ((), set(), True, None),
    ],
)
def test_what_is_said_to_be_in_use(said, rows, settled, found):
    """Sorted, and nothing is taken back before all are known; what is attached is not ours."""
    facts = replace(FACTS, in_use=frozenset(rows), in_use_settled=settled)
    before = status.compute(node(*said), FACTS, SETTINGS)
    after = status.compute(before, facts, SETTINGS)
    assert after["status"].get("volumesInUse") == found
    assert after["status"]["volumesAttached"] == ATTACHED
    news = between(before, after).news.get("status", {})
    assert "volumesAttached" not in json.dumps(between(before, after).body)
    assert news == ({} if list(said) == (found or []) else {"volumesInUse": found})


@pytest.mark.parametrize("odd", [None, "x", [3, None], {}])
def test_odd_words_of_others_are_passed_over(odd):
    """What is no name is not in use."""
    before = {"metadata": {"name": NAME}, "status": {"volumesInUse": odd}}
    facts = replace(FACTS, in_use=frozenset({A}))
    assert status.compute(before, facts, SETTINGS)["status"]["volumesInUse"] == [A]


def test_the_rows_count_when_their_writer_has_run_for_a_while(tmp_path):
    """While it looks through the disk, a row that is missing says nothing."""
    scene = Scene(tmp_path)
    tree = Tree(str(tmp_path / "run"))
    assert inuse.settles_ns(None) == 0
    scene.tree(process_of("volumes", started_ns=7 * SECOND))
    assert inuse.settles_ns(tree.look()) == 17 * SECOND
    scene.tree(process_of("volumes", pid=0, state="backoff"))
    assert inuse.settles_ns(tree.look()) == 0
    scene.close()


def test_a_device_is_in_the_nodes_status_at_once(tmp_path):
    """A mount waits for it: the hint is enough, and the node's row has it too."""
    scene = Scene(tmp_path)
    scene.tree(process_of("volumes"))
    volumes = Writer.attach(tmp_path / "run" / "tables", BY_NAME[MOUNTS])

    def mounted(uid, *devices, key=None):
        rows = tuple(VolumeRow(f"v{n}", device=device) for n, device in enumerate(devices))
        volumes.put(uid, pack(MountsRow(uid, 1, rows).to_wire()))
        for callback in scene.process.hints:
            callback(Hint(MOUNTS, key or uid, 0))

    def said():
        return scene.server.node["status"].get("volumesInUse", [])

    async def work():
        async with asyncio.timeout(30):
            await scene.server.start()
            scene.runtime(WELL)
            await scene.start()
            await scene.server.until(lambda: scene.server.ready() == "True")
            mounted("u1", A, "", A)
            await scene.server.until(lambda: said() == [A])
            await soon(lambda: scene.kit.view.document["status"].get("volumesInUse") == [A])
            mounted("u2", B, A, key=ANY_KEY)
            await scene.server.until(lambda: said() == [A, B])
            mounted("u1")
            mounted("u2")
            await scene.server.until(lambda: said() == [])
            await scene.kill()
            await scene.server.stop()

    asyncio.run(work())
    volumes.close()
    scene.close()


def test_a_new_node_waits_for_its_storage(tmp_path):
    """N-14: it is not ready until CSINode is there, and says so; one that was ready stays so."""
    scene = Scene(tmp_path)
    problem = ["CSINode is not yet initialized"]

    async def work():
        async with asyncio.timeout(30):
            await scene.server.start()
            scene.runtime(WELL)
            await scene.start()
            scene.node._gathering._storage = lambda: problem[0]
            await scene.server.until(lambda: scene.server.ready() == "False")
            ready = scene.server.node["status"]["conditions"][-1]
            assert ready["message"] == "CSINode is not yet initialized"
            problem[0] = ""
            scene.node.look()
            await scene.server.until(lambda: scene.server.ready() == "True")
            problem[0] = "failed to initialize CSINode: no"
            await scene.settled()
            await scene.look()
            assert scene.server.ready() == "True"
            await scene.kill()
            await scene.server.stop()

    asyncio.run(work())
    scene.close()
