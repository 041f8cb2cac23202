"""What stays when the simulator is killed, and what it costs with thousands of pods."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from kubelet.cri import api_pb2 as pb

from .process import Sim
from .test_sim_lifecycle import until


def test_state_is_kept_over_a_kill(make_sim, connect):
    """Sandboxes, containers, images and addresses are there again, and programs went on."""
    sim = make_sim(keep=True)
    cri = connect(sim)
    pod = cri.run_pod(hostname="web-0")
    running = cri.run(pod, "sh", "-c", "touch /tmp/x; sleep 1000", name="r")
    ended = cri.run(pod, "top", name="e")
    short = cri.run(pod, "sh", "-c", "sleep 0.3; exit 5", name="s")
    cri.stop(ended)
    before = sim.control.truth()
    sim.kill()
    time.sleep(0.3)  # the short program ends while nobody is there
    sim.start()
    cri = connect(sim)
    assert [s.id for s in cri.sandboxes()] == [pod]
    after = {c["id"]: c for c in sim.control.truth()["containers"]}
    for old in before["containers"]:
        if old["id"] != short:
            assert after[old["id"]] == old
    assert cri.status(short).exit_code == 5
    assert cri.exec_sync(running, "cat", "/tmp/x").exit_code == 0
    assert len(cri.images.ListImages(pb.ListImagesRequest()).images) == 1
    events = cri.events()
    cri.stop(running)
    until(events, pb.CONTAINER_STOPPED_EVENT, running)


def test_every_answered_call_is_kept(make_sim, connect):
    """Killed right after an answer, again and again: what was answered is there."""
    sim = make_sim(keep=True)
    made = []
    for number in range(5):
        made.append(connect(sim).run_pod(f"pod-{number}"))
        sim.restart()
    assert sorted(s.id for s in connect(sim).sandboxes()) == sorted(made)


def test_processes_outlive_the_simulator(make_sim, connect):
    """With a state file the real processes go on, and one that was killed meanwhile is seen."""
    sim = make_sim("--real-pids", keep=True)
    cri = connect(sim)
    pod = cri.run_pod()
    one, two = cri.run(pod, "top", name="one"), cri.run(pod, "top", name="two")
    pids = [json.loads(cri.info(c).info["info"])["pid"] for c in (one, two)]
    sim.kill()
    os.kill(pids[0], signal.SIGKILL)
    sim.start()
    cri = connect(sim)
    assert cri.status(one).exit_code == 137
    assert cri.status(two).state == pb.CONTAINER_RUNNING
    events = cri.events()
    os.kill(pids[1], signal.SIGKILL)
    until(events, pb.CONTAINER_STOPPED_EVENT, two)


def test_a_killed_simulator_leaves_no_process(make_sim, connect):
    """Without a state file the real processes end with it, whatever ends it."""
    sim = make_sim("--real-pids")
    cri = connect(sim)
    container = cri.run(cri.run_pod(), "top")
    pidfd = os.pidfd_open(json.loads(cri.info(container).info["info"])["pid"])
    try:
        sim.kill()
        import select

        assert select.select([pidfd], [], [], 10)[0], "the process did not end"
    finally:
        os.close(pidfd)
        sim.start()


def test_a_bad_state_file_is_an_error_in_words(make_sim):
    """The simulator does not start over what it cannot read."""
    sim = make_sim(keep=True, start=False)
    sim.state.write_text('{"schema": 99}')
    with pytest.raises(AssertionError, match="not a state file of schema 1"):
        sim.start()


def test_two_do_not_share_a_socket(sim, sim_directory):
    """The second says so and leaves the first alone."""
    second = Sim(sim_directory, "s0")
    with pytest.raises(AssertionError, match="another simulator serves"):
        second.start()
    assert sim.control.do("ping")["pid"] == sim.pid


@pytest.mark.parametrize("pods", [500, 2500])
def test_thousands_of_pods_are_cheap(make_sim, connect, pods):
    """The lists hold every pod; what they cost is printed."""
    sim = make_sim()
    cri = connect(sim)
    seeded = sim.control.seed_pods(pods, containers=2)
    assert len(set(seeded["uids"])) == pods
    before = sim.control.stats()["cpu_seconds"]
    began = time.perf_counter()
    rounds = 5
    for _ in range(rounds):
        assert len(cri.containers()) == 2 * pods
        assert len(cri.sandboxes()) == pods
    wall = (time.perf_counter() - began) / rounds
    stats = sim.control.stats()
    cpu = (stats["cpu_seconds"] - before) / rounds
    print(
        f"\n{pods} pods: made in {seeded['seconds']:.2f}s; both lists: {wall * 1e3:.0f} ms for the"
        f" client, {cpu * 1e3:.0f} ms of server CPU; {stats['max_rss_kib'] // 1024} MiB"
    )
    assert sim.control.remove_pods() == pods
    assert cri.containers() == []
