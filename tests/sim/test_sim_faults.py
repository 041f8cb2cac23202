"""Everything that can be made to go wrong, and events."""

from __future__ import annotations

import threading
import time

import grpc
import pytest

from kubelet.cri import api_pb2 as pb

from .control import SimRefused
from .test_sim_lifecycle import refused, until


def test_a_call_can_be_slow(cri, sim):
    """Only the call that was named, until it is told otherwise."""
    sim.control.latency("ListContainers", 0.3)
    began = time.monotonic()
    cri.sandboxes()
    assert time.monotonic() - began < 0.3
    cri.containers()
    assert time.monotonic() - began >= 0.3
    sim.control.release()
    began = time.monotonic()
    cri.containers()
    assert time.monotonic() - began < 0.3


def test_a_call_can_fail_so_many_times(cri, sim):
    """The code and the words are those that were given."""
    sim.control.error("Version", "RESOURCE_EXHAUSTED", "too much", times=2)
    for _ in range(2):
        error = refused(cri.runtime.Version, pb.VersionRequest())
        assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")
    assert cri.runtime.Version(pb.VersionRequest()).runtime_name == "simulated"


def test_an_answer_can_be_lost_after_the_work(cri, sim):
    """The container is started although the call failed."""
    container = cri.create(cri.run_pod(), "top")
    sim.control.error("StartContainer", after=True)
    assert refused(cri.start, container).code() == grpc.StatusCode.UNAVAILABLE
    assert cri.status(container).state == pb.CONTAINER_RUNNING


def test_a_call_can_hang_for_one_object(cri, sim):
    """Status of one container is not answered until it is released; that of another is."""
    pod = cri.run_pod()
    one, two = cri.run(pod, "top", name="one"), cri.run(pod, "top", name="two")
    sim.control.hang("ContainerStatus", about=one)
    assert cri.status(two).id == two
    call = cri.runtime.ContainerStatus.future(pb.ContainerStatusRequest(container_id=one))
    arrived = threading.Event()
    call.add_done_callback(lambda _call: arrived.set())
    assert not arrived.wait(0.2)
    assert sim.control.stats()["hanging"] == {"ContainerStatus": 1}
    assert sim.control.release("ContainerStatus") == 1
    assert call.result(10).status.id == one


def test_an_answer_can_be_garbage(cri, sim):
    """The client cannot decode it, and the next one is fine."""
    sim.control.garbage("ListContainers", times=1)
    assert refused(cri.containers).code() == grpc.StatusCode.INTERNAL
    assert cri.containers() == []


def test_events_tell_the_whole_life(cri):
    """Created, started, stopped, deleted, for the sandbox and for the container."""
    events = cri.events()
    pod = cri.run_pod()
    container = cri.run(pod, "top")
    cri.stop(container)
    cri.runtime.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod))
    seen = [next(events) for _ in range(8)]
    assert [(e.container_event_type, e.container_id) for e in seen] == [
        (pb.CONTAINER_CREATED_EVENT, pod),
        (pb.CONTAINER_STARTED_EVENT, pod),
        (pb.CONTAINER_CREATED_EVENT, container),
        (pb.CONTAINER_STARTED_EVENT, container),
        (pb.CONTAINER_STOPPED_EVENT, container),
        (pb.CONTAINER_STOPPED_EVENT, pod),
        (pb.CONTAINER_DELETED_EVENT, container),
        (pb.CONTAINER_DELETED_EVENT, pod),
    ]


def test_events_can_be_lost_and_streams_broken(cri, sim):
    """What was lost never comes; a broken stream ends with an error."""
    events = cri.events()
    sim.control.drop_events(2)
    pod = cri.run_pod()  # two events, both lost
    container = cri.create(pod, "top")
    assert next(events).container_id == container
    assert sim.control.end_streams() == 1
    assert refused(next, events).code() == grpc.StatusCode.UNAVAILABLE


def test_a_runtime_may_lack_calls(make_sim, connect):
    """As containerd 1.6: no events and no runtime configuration."""
    cri = connect(make_sim("--no-events", "--no-runtime-config"))
    for error in (
        refused(cri.runtime.RuntimeConfig, pb.RuntimeConfigRequest()),
        refused(next, cri.runtime.GetContainerEvents(pb.GetEventsRequest())),
    ):
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_container_can_be_killed_by_name(cri, sim):
    """The control socket ends it with the code that was given."""
    events = cri.events()
    container = cri.run(cri.run_pod(), "top", name="victim")
    at = sim.control.kill("victim", code=139)
    until(events, pb.CONTAINER_STOPPED_EVENT, container)
    status = cri.status(container)
    assert status.exit_code == 139
    assert abs(status.finished_at / 1e9 - at) < 5


def test_odd_things_can_be_there(cri, sim):
    """Foreign ones lack a kubelet's label; names are double, states unknown, sandboxes missing."""
    pod = cri.run_pod()
    container = cri.run(pod, "top")
    foreign = sim.control.create_foreign("container")
    orphan = sim.control.create_foreign("orphan", uid="u1")
    double = sim.control.create_foreign("duplicate", of=container)
    unknown = sim.control.create_foreign("unknown", of=container)
    undreamt = sim.control.create_foreign("unknown", of=container, state=42)
    listed = {c.id: c for c in cri.containers()}
    assert "io.kubernetes.pod.uid" not in listed[foreign].labels
    sandboxes = {s.id for s in cri.sandboxes()}
    assert listed[foreign].pod_sandbox_id in sandboxes
    assert listed[orphan].pod_sandbox_id not in sandboxes
    assert listed[double].metadata == listed[container].metadata
    assert (listed[unknown].state, listed[undreamt].state) == (pb.CONTAINER_UNKNOWN, 42)


def test_conditions_can_be_set(cri, sim):
    """Status says what it is told to say."""
    sim.control.condition("NetworkReady", status=False, reason="NoPlugin", message="no cni")
    conditions = {c.type: c for c in cri.runtime.Status(pb.StatusRequest()).status.conditions}
    assert conditions["RuntimeReady"].status
    assert conditions["NetworkReady"].reason == "NoPlugin"


@pytest.mark.parametrize(
    ("action", "fields", "words"),
    [
        ("dance", {}, "is not one of"),
        ("error", {"call": "Frobnicate"}, "is not an RPC"),
        ("kill", {"container": "nobody"}, "not found"),
        ("create_foreign", {"kind": "ghost"}, "is not one of"),
        ("latency", {"call": "*", "second": 1}, "unknown fields: second"),
    ],
)
def test_a_bad_order_is_refused_in_words(sim, action, fields, words):
    """The control socket says what is wrong and goes on."""
    with pytest.raises(SimRefused, match=words):
        sim.control.do(action, **fields)
    assert sim.control.do("ping")["pid"] == sim.pid
