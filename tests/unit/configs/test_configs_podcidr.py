"""The runtime is told which addresses the node's pods get (N-22)."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubelet.channels.wire import Hint
from kubelet.cluster.rows import CLUSTER, NODE_KEY, NodeRow
from kubelet.cri.errors import Code, CriError
from kubelet.process.tables import Tables
from procs.syncloop import podcidr
from procs.syncloop.podcidr import PodCidr, cidrs_in
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, ""),
        (5, ""),
        ({"spec": None}, ""),
        ({"spec": {"podCIDR": "10.1.0.0/24"}}, "10.1.0.0/24"),
        ({"spec": {"podCIDRs": ["10.1.0.0/24"], "podCIDR": "x"}}, "10.1.0.0/24"),
        ({"spec": {"podCIDRs": ["10.1.0.0/24", "2001:db8::/64"]}}, "10.1.0.0/24,2001:db8::/64"),
        ({"spec": {"podCIDRs": 5, "podCIDR": 5}}, ""),
        ({"spec": {"podCIDRs": [5]}}, ""),
    ],
)
def test_what_a_node_says_of_its_pods(document, expected):
    """N-22: all of them with commas between; what is odd is not there."""
    assert cidrs_in(document) == expected


class Runtime:
    """Notes what it is told; fails as often as it is asked to."""

    def __init__(self, failures=0):
        self.failures = failures
        self.told = []
        self.news = asyncio.Event()

    async def update_runtime_config(self, config):
        self.told.append(config.network_config.pod_cidr)
        self.news.set()
        if self.failures:
            self.failures -= 1
            raise CriError(Code.UNAVAILABLE, "no socket", "UpdateRuntimeConfig")

    async def count(self, number):
        async with asyncio.timeout(10):
            while len(self.told) < number:
                self.news.clear()
                await self.news.wait()


class Process:
    """A process that reads the table, and the hand that writes it."""

    def __init__(self, directory):
        self.writer = Writer.attach(directory, BY_NAME[CLUSTER])
        self.tables = Tables(directory, "syncloop")
        self.hints = []
        self.task = None

    def on_hint(self, callback):
        self.hints.append(callback)

    def spawn(self, work, name):
        self.task = asyncio.get_running_loop().create_task(work, name=name)

    def node(self, *cidrs, document=None):
        found = document or json.dumps({"spec": {"podCIDRs": list(cidrs)}}).encode()
        self.writer.put(NODE_KEY, pack(NodeRow("n", "u", found).to_wire()))
        for callback in self.hints:
            callback(Hint(CLUSTER, NODE_KEY, 0))

    def close(self):
        self.task.cancel()
        self.tables.close()
        self.writer.close()


@pytest.fixture
def tell(tmp_path, monkeypatch):
    """Run a story with a process and a runtime."""
    monkeypatch.setattr(podcidr, "_FIRST_PAUSE", 0.01)

    def run(story, failures=0):
        async def work():
            process, runtime = Process(tmp_path), Runtime(failures)
            part = PodCidr(process, runtime)
            await story(process, runtime, part)
            process.close()

        asyncio.run(work())

    return run


def test_the_runtime_is_told_at_the_start_and_on_a_change(tell):
    """N-22: once for each; a node that is gone or unreadable takes no addresses away."""

    async def story(process, runtime, part):
        process.node("10.1.0.0/24")
        part.start()
        await runtime.count(1)
        process.node("10.1.0.0/24")
        process.node(document=b"{")
        process.node()
        process.node("10.2.0.0/24", "2001:db8::/64")
        await runtime.count(2)
        assert runtime.told == ["10.1.0.0/24", "10.2.0.0/24,2001:db8::/64"]

    tell(story)


def test_a_runtime_that_does_not_answer_is_told_again(tell):
    """And what is told then is the newest."""

    async def story(process, runtime, part):
        part.start()
        process.node("10.1.0.0/24")
        await runtime.count(1)
        process.node("10.2.0.0/24")
        await runtime.count(3)
        assert runtime.told == ["10.1.0.0/24", "10.2.0.0/24", "10.2.0.0/24"]

    tell(story, failures=2)
