"""Pleg in the real tree, on the simulated runtime: what it knows, how fast, and through what."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import threading
import time

import pytest

from kubelet.channels.client import call
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import Relist
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from tests.processes.node import NAMES, Node, alive, descriptors, wait_for
from tests.processes.pleg_node import PROGRAM, SWITCH, Cache, Follower, Simulator

KILLS = int(os.environ.get("KUBELET_PLEG_KILLS", "100"))
FREEZE = float(os.environ.get("KUBELET_FREEZE_SECONDS", "2"))


@pytest.fixture
def make_sim(run_root):
    """A maker of simulated runtimes."""
    made = []

    def make(*options, **more):
        made.append(Simulator(run_root, *options, **more))
        return made[-1]

    yield make
    for sim in made:
        sim.stop()


@pytest.fixture
def on(make_node):
    """A maker of nodes on a runtime, with their caches."""
    caches = []

    def make(endpoint, without=None, **config):
        config = {"containerRuntimeEndpoint": endpoint, **config}
        odd = {"program": PROGRAM, "environ": {SWITCH: without or ""}}
        node = make_node(config=config, **odd).start()
        caches.append(Cache(node))
        return node, caches[-1]

    yield make
    for cache in caches:
        cache.close()


def counter(node: Node, name: str) -> int:
    """What pleg has counted."""
    return node.row("pleg").counters.get(name, 0)


def containers(sim: Simulator) -> list[tuple[str, str, int]]:
    """The running containers: pod, id, pid."""
    found = sim.control.truth()
    owners = {s["id"]: s["uid"] for s in found["sandboxes"]}
    return [
        (owners[c["sandbox_id"]], c["id"], c["pid"]) for c in found["containers"] if c["state"] == 1
    ]


def test_the_cache_is_what_the_runtime_holds(make_sim, on):
    """Every sandbox and container, with details, and the runtime itself."""
    sim = make_sim(pods=5).start()
    _node, cache = on(sim.endpoint)
    cache.await_full_look()
    assert cache.content() == sim.truth()
    record = cache.pod(cache.uids()[0]).record
    assert record.namespace == "default"
    assert record.name.startswith("seed-")
    assert record.sandboxes[0].ips
    assert {c.name for c in record.containers} == {"c0", "c1"}
    assert record.containers[0].annotations["io.kubernetes.container.hash"] == "1a2b3c4d"
    wait_for("the status is known", lambda: cache.runtime().healthy)
    runtime = cache.runtime()
    assert (runtime.name, runtime.cgroup_driver) == ("simulated", "cgroupfs")
    assert runtime.cgroup_driver_source == "runtime"
    assert cache.problem() == ""


def test_c10_without_runtime_config_the_configured_driver_counts(make_sim, on):
    """C-10: Unimplemented is no trouble."""
    sim = make_sim("--no-runtime-config").start()
    _node, cache = on(sim.endpoint, cgroupDriver="systemd")
    wait_for("the driver is known", lambda: cache.runtime().cgroup_driver)
    assert cache.runtime().cgroup_driver == "systemd"
    assert cache.runtime().cgroup_driver_source == "fallback"


def test_an_unchanged_pod_costs_no_call_and_no_write(make_sim, on):
    """G-1: two lists a second, and nothing else."""
    sim = make_sim(pods=5).start()
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    cache.await_full_look(cache.full_look_ns())
    writes, generation = counter(node, "writes"), cache.reader.generation
    sim.control.reset_stats()
    began = cache.full_look_ns()
    wait_for("three more looks", lambda: cache.full_look_ns() > began + 2_500_000_000)
    calls = sim.control.stats()["calls"]
    assert set(calls) <= {"ListContainers", "ListPodSandbox", "Status"}
    assert counter(node, "writes") == writes
    assert cache.reader.generation - generation <= 5  # the stamp of the full look alone


@pytest.mark.parametrize(
    ("options", "without", "bar"),
    [
        (("--real-pids", "--no-events"), "", 0.1),
        ((), "exits", 0.1),
        (("--real-pids", "--no-events"), "exits", 2.0),
    ],
    ids=["pidfd", "events", "neither"],
)
def test_an_exit_is_seen(make_sim, on, options, without, bar):
    """By the kernel's word, by the runtime's, and without both by the full look alone."""
    sim = make_sim(*options, pods=6).start()
    node, cache = on(sim.endpoint, without)
    cache.await_full_look()
    if "--real-pids" in options and not without:
        wait_for("every process is watched", lambda: node.row("pleg").queues.get("pidfds") == 12)
    if "--no-events" not in options:
        wait_for("events are followed", lambda: sim.control.stats()["events"]["listeners"] == 1)
    took = []
    for uid, id_, pid in containers(sim)[:6]:
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL) if pid and "--real-pids" in options else sim.control.kill(id_)
        wait_for("the exit is in the cache", lambda uid=uid, id_=id_: cache.exited(uid, id_), 5)
        took.append(time.monotonic() - began)
    assert sorted(took)[len(took) // 2] < bar, took
    record = next(c for c in cache.pod(uid).record.containers if c.id == id_)
    assert (record.exit_code, record.pid) == (137, 0)


def test_descriptors_go_with_their_containers(make_sim, on):
    """A hundred containers that come and go leave nothing open."""
    sim = make_sim("--real-pids").start()
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    wait_for("events are followed", lambda: sim.control.stats()["events"]["listeners"] == 1)
    left = []
    for _ in range(2):
        sim.control.seed_pods(50, prefix="gone")
        wait_for("all are watched", lambda: node.row("pleg").queues.get("pidfds") == 100)
        assert descriptors(node.pids()["pleg"]) >= 100
        sim.control.remove_pods("gone")
        wait_for("none is watched", lambda: node.row("pleg").queues.get("pidfds") == 0)
        left.append(descriptors(node.pids()["pleg"]))
    assert left[0] < 100
    assert left[1] <= left[0]


def relist(node: Node, uid: str):
    """Ask for a look at a pod, as the operator's command does."""
    return call(node.run_dir, "pleg", Relist(uid), timeout=5)


def test_g6_a_look_on_request_is_newer_than_the_request(make_sim, on):
    """G-6: what was changed before asking is in the cache when the answer comes."""
    sim = make_sim("--no-events", pods=2).start()
    node, cache = on(sim.endpoint, "exits")
    cache.await_full_look()
    uid, id_, _ = containers(sim)[0]
    for _ in range(5):
        asked_ns = time.monotonic_ns()
        looked = relist(node, uid)
        assert looked.stamp_ns > asked_ns
        assert cache.pod(uid).stamp_ns >= looked.stamp_ns
    sim.control.kill(id_)
    relist(node, uid)
    assert cache.exited(uid, id_)


def test_g6_a_pod_that_is_gone_is_known_as_gone_at_once(make_sim, on):
    """A worker that removed a pod need not wait for the full look to see it gone."""
    sim = make_sim(pods=1).start()
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    (uid,) = cache.uids()
    sim.control.remove_pods("seed")
    asked_ns = time.monotonic_ns()
    relist(node, uid)
    seen = cache.pod(uid)
    assert seen.record is None
    assert seen.stamp_ns > asked_ns
    wait_for("its entry goes", lambda: uid not in cache.reader)
    assert cache.pod(uid).stamp_ns > asked_ns


def test_a_reader_may_wait_for_a_full_look(make_sim, on):
    """An unchanged pod without a request still becomes newer than any action."""
    sim = make_sim(pods=1).start()
    _node, cache = on(sim.endpoint)
    cache.await_full_look()
    (uid,) = cache.uids()
    now_ns = time.monotonic_ns()
    wait_for("it is newer", lambda: cache.pod(uid).stamp_ns > now_ns, 3)
    assert cache.pod(uid).record is not None


# Bad input.


def test_a_runtime_that_comes_late_is_met(make_sim, on):
    """Missing at the start: said in words with the path, tried again, never an exit."""
    sim = make_sim(pods=2)
    node, cache = on(sim.endpoint)
    wait_for("it is said", lambda: "there is no such socket" in cache.problem())
    assert sim.endpoint in cache.problem()
    pid = node.pids()["pleg"]
    sim.start()
    wait_for("it is looked at", lambda: len(cache.uids()) == 2, 5)
    wait_for("all is well", lambda: cache.problem() == "")
    assert node.pids()["pleg"] == pid


@pytest.mark.parametrize("speech", [b"SSH-2.0-OpenSSH_9.2\r\n", None], ids=["garbage", "silence"])
def test_something_else_at_the_socket(make_sim, on, speech):
    """Garbage and silence are named; the right runtime in their place is found."""
    sim = make_sim(pods=1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sim.socket)
        listener.listen(16)
        stop = threading.Event()

        def talk():
            held = []
            listener.settimeout(0.1)
            while not stop.is_set():
                try:
                    held.append(listener.accept()[0])
                except TimeoutError:
                    continue
                if speech is not None:
                    held[-1].sendall(speech)
            for one in held:
                one.close()

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            node, cache = on(sim.endpoint)
            says = "does not speak gRPC" if speech else "Version has not answered"
            wait_for("it is said", lambda: says in cache.problem(), 10)
            assert not cache.runtime().healthy
            pid = node.pids()["pleg"]
        finally:
            stop.set()
            thread.join()
    os.unlink(sim.socket)
    sim.start()
    wait_for("all is well", lambda: cache.runtime().healthy, 15)
    wait_for("it is looked at", lambda: len(cache.uids()) == 1)
    assert node.pids()["pleg"] == pid


def test_an_endpoint_that_cannot_be_one(on):
    """Said in words; the rest of the kubelet runs."""
    node, cache = on("http://localhost:1")
    wait_for("it is said", lambda: "only unix:///" in cache.problem())
    wait_for("everybody runs", node.all_running)


def test_odd_things_in_the_runtime(make_sim, on):
    """What no kubelet made is counted and left alone; odd pods are kept, and said to be odd."""
    sim = make_sim(pods=1).start()
    (uid, id_, _), _ = containers(sim)
    control = sim.control
    foreign = {control.create_foreign("sandbox"), control.create_foreign("orphan")}
    control.create_foreign("container")
    control.create_foreign("orphan", uid="lonely", name="orphan")
    control.create_foreign("duplicate", of=id_)
    strange = control.create_foreign("unknown", of=id_, state=77)
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    assert set(cache.uids()) == {uid, "lonely"}
    assert cache.runtime().foreign == 4
    odd = " ".join(cache.pod(uid).record.problems)
    assert "2 containers" in odd
    assert "the state 77" in odd
    assert cache.states(uid)[strange] == "unknown"
    assert "has no sandbox" in " ".join(cache.pod("lonely").record.problems)
    said = [e.text for e in node.events() if e.what == "odd-pod"]
    assert any("has no sandbox" in text for text in said)
    cache.await_full_look(time.monotonic_ns())
    calls = counter(node, "status_calls")
    cache.await_full_look(time.monotonic_ns())
    assert counter(node, "status_calls") == calls  # odd is not a reason to ask each second
    found = {s["id"] for s in control.truth()["sandboxes"]}
    found |= {c["id"] for c in control.truth()["containers"]}
    assert foreign <= found


def test_twenty_thousand_dead_containers(make_sim, on):
    """Bounded calls, entries and memory; the looks go on, each within its second."""
    sim = make_sim().start()
    sim.control.seed_pods(10, containers=2, dead=1000)
    node, cache = on(sim.endpoint)
    cache.await_full_look(seconds=60)
    assert counter(node, "status_calls") <= 10 * (1 + 2 * 4) + 20
    record = cache.pod(cache.uids()[0]).record
    assert record.left_out == 2000 - 100
    assert len(record.containers) == 102
    assert max(len(e.payload) for e in cache.reader.items()) < 64 * 1024
    began = cache.full_look_ns()
    wait_for("looks go on", lambda: cache.full_look_ns() > began + 2_000_000_000, 20)
    assert node.processes()["pleg"]["restarts"] == 0
    uid, id_, _ = containers(sim)[0]
    sim.control.kill(id_)
    wait_for("an exit is seen", lambda: cache.exited(uid, id_), 10)


@pytest.mark.parametrize("fault", ["garbage", "error", "hang"])
def test_one_call_that_does_not_work(make_sim, on, fault):
    """Statuses fail or hang: the old record stays, it is said, and mends itself (G-4)."""
    sim = make_sim("--no-events", pods=3).start()
    node, cache = on(sim.endpoint, "exits")
    cache.await_full_look()
    uid, id_, _ = containers(sim)[0]
    other, other_id, _ = containers(sim)[-1]
    getattr(sim.control, fault)("ContainerStatus", about=id_)
    sim.control.kill(id_)
    says = "ContainerStatus has not answered" if fault == "hang" else "could not be inspected"
    wait_for("it is said", lambda: says in cache.problem(), 12)
    assert cache.states(uid)[id_] == "running"
    stale = cache.pod(uid).stamp_ns
    sim.control.kill(other_id)
    wait_for("others are looked at", lambda: cache.exited(other, other_id), 12)
    assert cache.pod(uid).stamp_ns == stale  # nobody claims to have seen it
    sim.control.release()
    wait_for("it is seen", lambda: cache.exited(uid, id_), 5)
    wait_for("all is well", lambda: cache.problem() == "", 12)
    assert node.processes()["pleg"]["restarts"] == 0


def test_a_runtime_that_restarts(make_sim, on):
    """Away: said, cache kept. Back: found, with what changed, and events are followed again."""
    sim = make_sim(pods=3, keep=True).start()
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    before = cache.content()
    sim.stop()
    wait_for("it is said", lambda: "nobody listens" in cache.problem(), 5)
    assert cache.content() == before
    sim.start()
    back_ns = time.monotonic_ns()
    cache.await_full_look(back_ns, seconds=6)
    wait_for("all is well", lambda: cache.problem() == "", 6)
    wait_for("it is as the runtime is", lambda: cache.content() == sim.truth(), 5)
    wait_for("events are followed", lambda: sim.control.stats()["events"]["listeners"] == 1, 5)
    assert node.processes()["pleg"]["restarts"] == 0


def test_a_stopped_runtime_stops_nobody_else(make_sim, on):
    """SIGSTOP under load: heartbeats go on, the reason names the call; SIGCONT: well within 2 s."""
    sim = make_sim("--no-events", pods=50).start()
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    uid, id_, _ = containers(sim)[0]
    sim.signal(signal.SIGSTOP)
    for other in cache.uids()[:20]:
        threading.Thread(target=_relist_quietly, args=(node, other)).start()
    wait_for("the call is named", lambda: "has not answered for" in cache.problem(), 10)
    assert cache.runtime().waiting_for.startswith("List")
    beats = {kind: node.row(kind).beats for kind in NAMES}
    time.sleep(FREEZE)  # what is to be seen is that time passes for the others
    for kind in NAMES:
        row = node.row(kind)
        assert row.beats >= beats[kind] + 2, kind
        assert row.lag_ns < 500_000_000
    began = time.monotonic()
    assert node.ctl("status").stdout
    assert time.monotonic() - began < 2
    assert len(cache.uids()) == 50
    sim.signal(signal.SIGCONT)
    began_ns = time.monotonic_ns()
    sim.control.kill(id_)
    wait_for("it is well again", lambda: cache.problem() == "" and cache.exited(uid, id_), 2)
    cache.await_full_look(began_ns, seconds=2)
    assert {p["restarts"] for p in node.processes().values()} == {0}


def _relist_quietly(node: Node, uid: str) -> None:
    with contextlib.suppress(ChannelError):  # it times out, as it should
        relist(node, uid)


class Churn(threading.Thread):
    """Containers that start and die, as a kubelet would have it."""

    def __init__(self, sim: Simulator, steady: set[str]) -> None:
        super().__init__()
        self._sim = sim
        self._steady = steady
        self.done = threading.Event()
        self.turn = threading.Lock()  # held by whoever wants the runtime to stand still
        self.started: list[str] = []
        self.died: list[str] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as err:  # noqa: BLE001 - raised in the test
            self.failure = err

    async def _run(self) -> None:
        choose = random.Random(4)
        async with await RuntimeClient.connect(self._sim.endpoint) as client:
            pods = {s.metadata.uid: s for s in await client.list_pod_sandbox()}
            attempt = 10
            while not self.done.is_set():
                attempt += 1
                sandbox = pods[choose.choice(sorted(self._steady))]
                with self.turn:
                    id_ = await self._start(client, sandbox, attempt)
                    self.started.append(id_)
                await asyncio.sleep(choose.random() * 0.05)
                if choose.random() < 0.7:
                    with self.turn:
                        await client.stop_container(id_, 0)
                        self.died.append(id_)

    async def _start(self, client, sandbox, attempt) -> str:
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="churn", attempt=attempt),
            image=pb.ImageSpec(image="registry.k8s.io/sim/app:1"),
            labels={**sandbox.labels, "io.kubernetes.container.name": "churn"},
        )
        id_ = await client.create_container(
            sandbox.id, config, pb.PodSandboxConfig(metadata=sandbox.metadata)
        )
        await client.start_container(id_)
        return id_


def test_killed_a_hundred_times_while_containers_start_and_die(make_sim, on):
    """After each restart the cache is the runtime's truth; no change missed, no hole seen."""
    sim = make_sim(pods=20).start()
    node, cache = on(sim.endpoint)
    cache.await_full_look()
    steady = set(cache.uids())
    assert len(steady) == 20
    follower = Follower(cache)
    churn = Churn(sim, steady)
    churn.start()
    choose = random.Random(2)
    back = []
    try:
        for _ in range(KILLS):
            old = node.row("pleg").pid
            killed_ns = time.monotonic_ns()
            os.kill(old, signal.SIGKILL)

            until = time.monotonic() + choose.random() * 0.08
            while time.monotonic() < until:  # containers go on while nobody looks
                follower.read(steady, steady)
            with churn.turn:
                still_ns = time.monotonic_ns()

                def looked(old=old, since_ns=still_ns):
                    follower.read(steady, steady)
                    row = node.row("pleg")
                    return cache.full_look_ns() > since_ns and row.pid != old and alive(row.pid)

                wait_for("it is back and has looked", looked, 20)
                back.append((time.monotonic_ns() - killed_ns) / 1e6)
                assert cache.content() == sim.truth()
            # One that lived for a second is replaced at once; some must die younger than that.
            life = choose.random() * 0.1 if choose.random() < 0.2 else 1.0
            while time.monotonic_ns() < node.row("pleg").started_ns + life * 1e9:
                follower.read(steady, steady)
    finally:
        churn.done.set()
        churn.join()
    assert churn.failure is None
    now_ns = time.monotonic_ns()
    cache.await_full_look(now_ns)
    follower.read(steady, steady)
    assert cache.content() == sim.truth()
    assert follower.holes == []
    missed = [i for i in churn.died if (i, "ContainerDied") not in follower.happened]
    assert missed == []
    seen = {id_ for id_, _type in follower.happened}
    assert [i for i in churn.started if i not in seen] == []
    assert node.processes()["pleg"]["restarts"] >= KILLS
    back.sort()
    print(
        f"\n{KILLS} kills, {len(churn.started)} containers, {follower.reads} reads; looked again "
        f"after p50 {back[len(back) // 2]:.0f} ms, p99 {back[int(len(back) * 0.99)]:.0f} ms"
    )
