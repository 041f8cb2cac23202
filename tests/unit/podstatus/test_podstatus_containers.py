"""The statuses of containers: what the runtime holds, what was known, why one waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.pods.rows import Ending
from kubelet.pods.runtime import Resources, User
from procs.syncloop.status.compute import ProbeView
from tests.unit.podstatus.scenes import (
    NOW,
    NOW_TEXT,
    SECOND,
    box,
    held,
    make_pod,
    one,
    ran,
    shown,
    status_of,
)

PROBE = {"tcpSocket": {"port": 1}}
VANISHED = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was deleted.  "
    "The container used to be Running",
}
LOST = {
    **VANISHED,
    "message": "The container could not be located when the pod was terminated",
}


def test_p130_a_running_container():
    """Every field of a container's status has its source in the runtime or the spec."""
    resources = {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}
    mounts = [
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/b", "readOnly": True, "recursiveReadOnly": "IfPossible"},
        {"name": "c", "mountPath": "/c", "readOnly": True},
    ]
    pod = make_pod({"name": "app", "resources": resources, "volumeMounts": mounts})
    record = ran(
        "app",
        attempt=3,
        resources=Resources(cpu_shares=102, memory_limit=64 << 20),
        user=User(1000, 0, (0, 5)),
        stop_signal="SIGQUIT",
    )
    assert one(pod, record, recursive_read_only=True) == {
        "name": "app",
        "image": "app:1",
        "imageID": "app@sha256:1",
        "containerID": "containerd://app-3",
        "restartCount": 3,
        "ready": True,
        "started": True,
        "state": {"running": {"startedAt": NOW_TEXT}},
        "resources": resources,
        "allocatedResources": {"cpu": "100m"},
        "user": {"linux": {"uid": 1000, "gid": 0, "supplementalGroups": [0, 5]}},
        "volumeMounts": [
            {"name": "a", "mountPath": "/a"},
            {"name": "b", "mountPath": "/b", "readOnly": True, "recursiveReadOnly": "Enabled"},
            {"name": "c", "mountPath": "/c", "readOnly": True, "recursiveReadOnly": "Disabled"},
        ],
    }


def test_the_name_of_the_runtime_stands_before_ids():
    """The ids of CRI-O are told from those of containerd."""
    status = one(make_pod(), ran("app"), runtime_name="cri-o")
    assert status["containerID"] == "cri-o://app-0"


@pytest.mark.parametrize(
    ("init", "reason"), [((), "ContainerCreating"), (("i",), "PodInitializing")]
)
def test_p100_what_is_not_there_yet_waits(init, reason):
    """P-100: the reason says whether init containers come first."""
    status = shown(status_of(make_pod(init=init), None))
    for found in (*status["containerStatuses"], *status.get("initContainerStatuses", [])):
        assert found["state"] == {"waiting": {"reason": reason}}
        assert found["ready"] is False
        assert found["started"] is False
        assert "containerID" not in found
        assert "lastState" not in found
    assert status["phase"] == "Pending"


def test_a_created_container_waits():
    """Nothing of it has run; the runtime's word for it is no state of the API."""
    status = one(make_pod(), ran("app", "created"))
    assert status["state"] == {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [(0, "", "Completed"), (3, "", "Error"), (137, "OOMKilled", "OOMKilled")],
)
def test_p105_an_ended_container(code, said, reason):
    """P-105: reason, exit code, times and the last words; without a reason the code decides."""
    record = ran("app", "exited", code, reason=said, message="runtime's")
    status = one(make_pod(), record, messages=lambda found: f"{found.message}: own")
    assert status["state"] == {
        "terminated": {
            "containerID": "containerd://app-0",
            "exitCode": code,
            "reason": reason,
            "message": "runtime's: own",
            "startedAt": NOW_TEXT,
            "finishedAt": "2026-01-02T03:04:06Z",
        }
    }
    assert status["ready"] is False


def test_last_words_are_read_once():
    """Once they stand in the status, the file may go."""
    pod, record = make_pod(), held(ran("app", "exited", 1))
    first = status_of(pod, record, messages=lambda _: "bye")
    again = status_of(pod, record, previous=first, messages=lambda _: pytest.fail("read again"))
    assert again == first
    back = status_of(pod, record, previous=first, reasons={"app": ("CrashLoopBackOff", "wait")})
    assert back.container_statuses[0].last_state.terminated.message == "bye"


def test_the_one_before_is_the_last_state():
    """The second newest container of a name, whatever sandbox it was in."""
    status = one(
        make_pod(), ran("app", attempt=2), ran("app", "exited", 7, attempt=1, sandbox_id="old")
    )
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert status["restartCount"] == 2


def test_the_last_state_outlives_its_container():
    """The runtime keeps few dead containers: what was seen of one is not forgotten."""
    pod = make_pod()
    first = status_of(pod, held(ran("app", "exited", 7)))
    second = status_of(pod, held(ran("app", attempt=1)), previous=first)
    third = status_of(pod, held(ran("app", attempt=1)), previous=second)
    for status in (second, third):
        assert shown(status)["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(
    "reason",
    [
        "CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "CreateContainerConfigError",
        "RunContainerError",
        "PostStartHookError",
    ],
)
def test_p101_the_reason_to_wait_hides_no_end(reason):
    """P-101..P-104: the container waits, and how it ended is in its last state."""
    status = one(make_pod(), ran("app", "exited", 1), reasons={"app": (reason, "why")})
    assert status["state"] == {"waiting": {"reason": reason, "message": "why"}}
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert status["restartCount"] == 0


def test_the_reason_goes_when_the_back_off_is_over():
    """The end of the same container is not shown twice, as its state and as the one before."""
    pod, record = make_pod(), held(ran("app", "exited", 1))
    waits = status_of(pod, record, reasons={"app": ("CrashLoopBackOff", "")})
    status = shown(status_of(pod, record, previous=waits))["containerStatuses"][0]
    assert status["state"]["terminated"]["exitCode"] == 1
    assert "lastState" not in status


@pytest.mark.parametrize(
    ("policy", "code", "waits"),
    [("Always", 0, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_p80_only_what_is_started_again_waits(policy, code, waits):
    """P-80: a reason that is left over from before does not bring a container back."""
    pod = make_pod(restartPolicy=policy)
    status = one(pod, ran("app", "exited", code), reasons={"app": ("CrashLoopBackOff", "")})
    assert ("waiting" in status["state"]) is waits


def test_what_runs_does_not_wait():
    """A reason of an attempt before has no say."""
    status = one(make_pod(), ran("app"), reasons={"app": ("ErrImagePull", "")})
    assert "running" in status["state"]


def test_a_pod_that_ends_waits_for_nothing():
    """P-83: nothing of it is started again."""
    status = one(
        make_pod(),
        ran("app", "exited", 1),
        reasons={"app": ("CrashLoopBackOff", "")},
        ending=Ending(),
    )
    assert "terminated" in status["state"]


def test_an_image_that_cannot_be_pulled_for_the_first_time():
    """P-102: there is no container and no end to show."""
    status = shown(status_of(make_pod(), None, reasons={"app": ("ErrImagePull", "no such")}))
    found = status["containerStatuses"][0]
    assert found["state"] == {"waiting": {"reason": "ErrImagePull", "message": "no such"}}
    assert "lastState" not in found


@pytest.mark.parametrize(("deleted", "count"), [(False, 3), (True, 2)])
def test_p106_a_container_that_vanished(deleted, count):
    """P-106: it ended, nobody knows how; it counts as a restart unless the pod is deleted."""
    metadata = {"deletionTimestamp": NOW_TEXT} if deleted else {}
    pod = make_pod(metadata=metadata)
    ran_before = status_of(make_pod(), held(ran("app", attempt=2)))
    status = status_of(pod, held(), previous=ran_before)
    found = shown(status)["containerStatuses"][0]
    assert found["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert found["lastState"] == {"terminated": VANISHED}
    assert found["restartCount"] == count
    assert status.phase == "Running"
    assert status_of(pod, held(), previous=status) == status


def test_p106_a_container_that_the_runtime_does_not_know():
    """An unknown one that ran has ended, for good, and counts as a restart once."""
    pod, record = make_pod(), held(ran("app", "unknown", attempt=2))
    before = status_of(pod, held(ran("app", attempt=2)))
    status = status_of(pod, record, previous=before)
    found = shown(status)["containerStatuses"][0]
    assert found["state"] == {"terminated": {**LOST, "containerID": "containerd://app-2"}}
    assert found["restartCount"] == 3
    assert status_of(pod, record, previous=status) == status
    follower = status_of(pod, held(ran("app", attempt=3)), previous=status)
    assert follower.container_statuses[0].restart_count == 3


def test_an_unknown_container_that_never_ran_waits():
    """There is no end to invent for it."""
    assert "waiting" in one(make_pod(), ran("app", "unknown"))["state"]


def test_an_end_outlives_its_container():
    """What has ended and was removed from the runtime has ended still."""
    pod = make_pod(restartPolicy="Never")
    before = status_of(pod, held(ran("app", "exited", 0)))
    status = status_of(pod, None, previous=before)
    assert status.container_statuses == before.container_statuses
    assert status.phase == "Succeeded"


def test_p107_a_missing_init_container_has_done_its_work():
    """P-107: the regular containers could not be there otherwise."""
    pod = make_pod(init=("i",))
    status = status_of(pod, held(ran("app")))
    found = shown(status)["initContainerStatuses"][0]
    ended = found["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"], found["ready"]) == ("Completed", 0, True)
    assert status.phase == "Running"


def test_p107_a_missing_sidecar_waits():
    """It is to run beside the others: it will be started again."""
    pod = make_pod(init=({"name": "i", "restartPolicy": "Always"},))
    found = shown(status_of(pod, held(ran("app"))))["initContainerStatuses"][0]
    assert found["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_p72_init_containers_run_again_in_a_new_sandbox():
    """Regular containers of a sandbox that is over prove nothing for the new one."""
    pod = make_pod(init=("i",))
    old = ran("app", "exited", 1, sandbox_id="old")
    status = status_of(pod, held(old, boxes=(box("s"), box("old", ready=False))))
    found = shown(status)["initContainerStatuses"][0]
    assert found["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert status.phase == "Pending"


def test_p74_ephemeral_containers():
    """They have a status of their own, are never ready and never restarted."""
    pod = make_pod(
        ephemeralContainers=[{"name": "z", "image": "z:1"}, {"name": "debug", "image": "d:1"}]
    )
    record = held(ran("app"), ran("debug", "exited", 1))
    status = shown(status_of(pod, record, reasons={"debug": ("CrashLoopBackOff", "")}))
    first, second = status["ephemeralContainerStatuses"]
    assert (first["name"], second["name"]) == ("debug", "z")
    assert "terminated" in first["state"]
    assert "waiting" in second["state"]
    assert first["ready"] is False
    assert "started" not in first
    assert status["phase"] == "Running"


def test_p131_the_order_of_statuses():
    """P-131: by name, init containers as in the spec."""
    status = status_of(make_pod("b", "a", init=("z", "y")), None)
    assert [c.name for c in status.container_statuses] == ["a", "b"]
    assert [c.name for c in status.init_container_statuses] == ["z", "y"]


def test_a_start_that_was_broken_off_does_not_count():
    """The runtime calls it ended, but it never ran."""
    status = one(make_pod(), ran("app", "exited", 128), ignored=frozenset({"app-0"}))
    assert status["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_the_restart_count_never_falls():
    """P-82: an attempt that starts at 0 again, because everything was lost, does not undo it."""
    pod = make_pod()
    before = status_of(pod, held(ran("app", "exited", 1, attempt=5)))
    status = status_of(pod, held(ran("app", attempt=0, id_="new")), previous=before)
    assert status.container_statuses[0].restart_count == 5


def test_p81_all_containers_restart():
    """P-81: what was removed waits for the restart, which counts once."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]
    pod = make_pod({"name": "app", "restartPolicy": "Never", "restartPolicyRules": rules})
    before = status_of(pod, held(ran("app", "exited", 9)))
    status = status_of(pod, held(), previous=before, restarting_all=True)
    found = shown(status)["containerStatuses"][0]
    assert found["state"]["waiting"]["reason"] == "RestartingAllContainers"
    assert found["lastState"]["terminated"]["reason"] == "RestartingAllContainers"
    assert found["lastState"]["terminated"]["exitCode"] == 137
    assert found["restartCount"] == 1
    assert status.phase == "Running"
    assert status_of(pod, held(), previous=status, restarting_all=True) == status


READY_CASES = [
    # startup probe, readiness probe, results, postStart runs; started, ready
    (False, False, None, False, True, True),
    (False, False, None, True, False, False),
    (False, True, None, False, True, False),
    (False, True, ProbeView(ready=False), False, True, False),
    (False, True, ProbeView(ready=True), False, True, True),
    (True, False, None, False, False, False),
    (True, False, ProbeView(started=False), False, False, False),
    (True, False, ProbeView(started=True), False, True, True),
    (True, True, ProbeView(started=True), False, True, False),
    (True, True, ProbeView(ready=True), False, False, False),
    (True, True, ProbeView(ready=True, started=True), False, True, True),
    (True, True, ProbeView(ready=True, started=True), True, False, False),
]


@pytest.mark.parametrize("case", READY_CASES)
@pytest.mark.parametrize("sidecar", [False, True])
def test_b18_started_and_ready(case, sidecar):
    """B-18: started without a startup probe or after its success; ready only when started."""
    startup, readiness, view, hook, started, ready = case
    container = {"name": "c"}
    if startup:
        container["startupProbe"] = PROBE
    if readiness:
        container["readinessProbe"] = PROBE
    if sidecar:
        pod = make_pod(init=({**container, "restartPolicy": "Always"},))
    else:
        pod = make_pod(container)
    found = one(
        pod,
        ran("c"),
        kind="initContainerStatuses" if sidecar else "containerStatuses",
        probes={"c-0": view} if view else {},
        unstarted=frozenset({"c-0"} if hook else ()),
    )
    assert (found["started"], found["ready"]) == (started, ready)


@pytest.mark.parametrize(
    ("state", "code", "reason", "ready", "started"),
    [
        ("running", 0, "", False, True),
        ("exited", 0, "Completed", True, False),
        ("exited", 1, "Error", False, False),
        ("exited", 0, "OOMKilled", False, False),
    ],
)
def test_b18_init_containers_are_ready_when_done(state, code, reason, ready, started):
    """B-18, P-77: one that was killed for its memory has not done its work."""
    record = ran("i", state, code, reason=reason)
    found = one(make_pod(init=("i",)), record, kind="initContainerStatuses")
    assert (found["ready"], found["started"]) == (ready, started)


def test_p133_ready_survives_a_restart_of_ours():
    """P-133: while no probe has a result, the very same container stays what it was."""
    pod = make_pod({"name": "app", "startupProbe": PROBE, "readinessProbe": PROBE})
    record = held(ran("app"))
    yes = {"app-0": ProbeView(ready=True, started=True)}
    before = status_of(pod, record, probes=yes)
    assert before.container_statuses[0].ready
    after = status_of(pod, record, previous=before, now_ns=NOW + SECOND)
    assert after == before
    told = status_of(
        pod, record, previous=after, probes={"app-0": ProbeView(ready=False, started=True)}
    )
    assert not told.container_statuses[0].ready


def test_p133_from_the_api_when_nothing_is_remembered():
    """The status in the pod serves when the tables were lost."""
    pod = make_pod({"name": "app", "readinessProbe": PROBE})
    record = held(ran("app"))
    before = status_of(pod, record, probes={"app-0": ProbeView(ready=True)})
    assert status_of(replace(pod, status=before), record).container_statuses[0].ready


def test_p133_is_not_for_the_next_container():
    """A new container begins anew."""
    pod = make_pod({"name": "app", "readinessProbe": PROBE})
    before = status_of(pod, held(ran("app")), probes={"app-0": ProbeView(ready=True)})
    after = status_of(pod, held(ran("app", attempt=1)), previous=before)
    assert not after.container_statuses[0].ready


@pytest.mark.parametrize(
    ("spec", "said", "wanted"),
    [
        ({}, Resources(cpu_shares=2, memory_limit=5), {}),
        ({"limits": {"cpu": "0.5"}}, Resources(cpu_quota=50_000, cpu_period=100_000), None),
        (
            {"limits": {"cpu": "1"}},
            Resources(cpu_quota=50_000, cpu_period=100_000),
            {"limits": {"cpu": "500m"}},
        ),
        ({"limits": {"cpu": "5m"}}, Resources(cpu_quota=1000, cpu_period=100_000), None),
        ({"limits": {"cpu": "1"}}, Resources(cpu_quota=-1, cpu_period=100_000), None),
        ({"requests": {"cpu": "1m"}}, Resources(cpu_shares=2), None),
        (
            {"requests": {"cpu": "250m", "memory": "1Gi"}},
            Resources(cpu_shares=512),
            {"requests": {"cpu": "500m", "memory": "1Gi"}},
        ),
        (
            {"limits": {"memory": "1Gi"}},
            Resources(memory_limit=2 << 30),
            {"limits": {"memory": "2Gi"}},
        ),
        ({"limits": {"memory": "1Gi"}}, None, None),
    ],
)
def test_p130_resources_as_the_runtime_says(spec, said, wanted):
    """P-130: what is in force is shown, in the user's words where that is what was asked for."""
    pod = make_pod({"name": "app", "resources": spec})
    found = one(pod, ran("app", resources=said))
    assert found["resources"] == (spec if wanted is None else wanted)


def test_p130_what_was_said_once_is_kept():
    """A runtime that says nothing for a moment does not undo what it said of a container."""
    pod = make_pod({"name": "app", "resources": {"limits": {"memory": "1Gi"}}})
    before = status_of(pod, held(ran("app", resources=Resources(memory_limit=2 << 30))))
    assert status_of(pod, held(ran("app")), previous=before) == before
    ended = status_of(pod, held(ran("app", "exited")), previous=before)
    assert ended.container_statuses[0].resources.limits == {"memory": "1Gi"}


def test_p132_messages_share_twelve_kibibytes():
    """P-132: 12 KiB for all containers together, cut between characters."""
    pod = make_pod("a", "b", init=("i",))
    record = held(ran("a", "exited", 1), ran("i", "exited"))
    status = status_of(pod, record, messages=lambda _: "é" * 4000)
    message = status.container_statuses[0].state.terminated.message
    assert message == "é" * 2048
    assert status.init_container_statuses[0].state.terminated.message == message


def test_the_image_is_the_users_where_the_runtime_has_no_name():
    """An image that lost its tag has a name in the spec still."""
    assert one(make_pod(), ran("app", image=""))["image"] == "app:1"
