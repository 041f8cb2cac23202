"""CSI drivers that hang, die and refuse, and deaths of our own process that speaks with them."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.cluster.cluster_node import OURS, under_test
from tests.cluster.csi_scene import BOTH_WAYS, drivers_of, of_claim, points, user
from tests.csi.process import needs_mounts
from tests.node.pod_node import PAUSE, SECONDS, sleeper
from tests.node.shared import pod
from tests.processes.node import wait_for

pytestmark = needs_mounts
ours_only = pytest.mark.skipif(under_test() != OURS, reason="only our kubelet has it")

NAME = "one.csi.test"
STAGE, PUBLISH, UNPUBLISH, UNSTAGE = BOTH_WAYS
DRIVER_DIES = 0.2  # of the times, too
KILLS = int(os.environ.get("KUBELET_CSI_KILLS", "20"))


@pytest.fixture
def other(node):
    """Make drivers of the test's own; at its end they have nothing that they are to give back."""
    with drivers_of(node) as make:
        yield make


@pytest.fixture
def csi(other):
    """A driver of the test's own."""
    return other(NAME, volumeLifecycleModes=["Persistent", "Ephemeral"], podInfoOnMount=True)


@ours_only
def test_a_driver_that_hangs_keeps_only_its_own_pod_waiting(csi, other, node):
    """The pod says which call is under way and since when; others start, with CSI and without."""
    handle = csi.claim("stuck")
    csi.driver.fault(PUBLISH, "hang")
    node.create(user("stuck", of_claim("stuck")))
    csi.driver.await_call(PUBLISH, ended=False)
    other("two.csi.test").claim("well")
    node.create(user("well", of_claim("well")))
    node.create(pod("plain", sleeper()))
    for name in ("well", "plain"):
        node.await_pod_ready(name)
    volume = await_told(node, "stuck")
    assert volume["operation"] == f"NodePublishVolume of {NAME}"
    assert volume["operation_age_seconds"] > 0
    assert volume["claim"] == f"{node.namespace}/stuck"
    sentence = node.kubelet.ctl("status").stdout
    assert f"NodePublishVolume of {NAME} is under way for" in sentence
    why = node.kubelet.ctl("why", f"{node.namespace}/stuck").stdout
    assert f"NodePublishVolume of {NAME}" in why
    csi.driver.clear(PUBLISH)
    node.await_pod_ready("stuck")
    assert csi.methods(handle) == [STAGE, PUBLISH]


def await_told(node, name):
    """Wait until kubeletctl tells of a volume of a pod that takes long; what it tells."""

    def look():
        found = json.loads(node.kubelet.ctl("status", "-o", "json").stdout)["volumes"]
        return next((v for v in found if v["pod"].endswith(f"/{name}")), None)

    return wait_for(f"status tells of {name}", look, SECONDS, PAUSE)


@ours_only
def test_an_unstage_that_hangs_is_told_of_its_pod(csi, node):
    """The pod stays until its volume has left the node; the Go kubelet lets it go before that.

    What is in use is known by the pods that have it: one that went first would have a controller
    detach a volume that is staged still.
    """
    handle = csi.claim("leaves")
    node.create(user("leaves", of_claim("leaves")))
    node.await_pod_ready("leaves")
    csi.driver.fault(UNSTAGE, "hang")
    node.delete("leaves", gracePeriodSeconds=1)
    volume = await_told(node, "leaves")
    assert (volume["operation"], volume["state"]) == (f"{UNSTAGE} of {NAME}", "unmounting")
    assert "deletionTimestamp" in node.pod("leaves")["metadata"]
    csi.driver.clear(UNSTAGE)
    node.await_gone("leaves")
    csi.await_methods(handle, *BOTH_WAYS)


def test_a_driver_that_dies_in_a_stage_is_told_to_undo_it(csi, node):
    """L-43: nobody knows what it has done, so the pod's end is not without an unstage."""
    handle = csi.claim("cut")
    csi.driver.fault(STAGE, "die-after")
    node.create(user("cut", of_claim("cut")))
    csi.driver.wait()
    node.await_event("cut", "FailedMount", lambda e: "code = Unavailable" in e["message"])
    node.delete("cut", gracePeriodSeconds=1)
    csi.driver.start()
    wait_for("unstage", lambda: csi.methods(handle)[-1:] == [UNSTAGE], SECONDS, PAUSE)
    assert PUBLISH not in csi.methods(handle)
    node.await_gone("cut")
    csi.await_nothing_left()


def test_a_driver_that_dies_in_a_stage_and_comes_back(csi, node):
    """Staged and published by its successor, and the pod starts."""
    handle = csi.claim("again")
    csi.driver.fault(STAGE, "die-before")
    node.create(user("again", of_claim("again")))
    csi.driver.wait()
    csi.driver.start()
    node.await_pod_ready("again")
    assert csi.methods(handle)[-2:] == [STAGE, PUBLISH]
    assert len(csi.mounts(handle)) == 1


@pytest.mark.parametrize(
    ("code", "word"), [(13, "Internal"), (4, "DeadlineExceeded"), (9, "FailedPrecondition")]
)
@pytest.mark.parametrize("method", [STAGE, PUBLISH])
def test_a_refusal_is_told_and_tried_again(csi, node, method, code, word):
    """FailedMount has the driver's words; the volume is mounted when it is refused no more."""
    handle = csi.claim("refused")
    csi.driver.fault(method, "fail", times=2, code=code, message="the disk is on fire")
    node.create(user("refused", of_claim("refused")))
    said = f"rpc error: code = {word} desc = "
    event = node.await_event("refused", "FailedMount", lambda e: said in e["message"])
    assert "the disk is on fire" in event["message"]
    step = "MountDevice" if method == STAGE else "SetUp"
    assert event["message"].startswith(f'MountVolume.{step} failed for volume "{handle}" : ')
    node.await_pod_ready("refused")
    codes = [call["code"] for call in csi.calls(handle, method)]
    assert codes == [code, code, 0]
    assert len(csi.mounts(handle)) == 1


class Coming:
    """Pods with volumes of a driver that come and go."""

    def __init__(self, csi, node, chance):
        self._csi = csi
        self._node = node
        self._chance = chance
        self._number = 0
        self.there = []
        self.handles = [csi.claim("files"), csi.claim("memory", csi={"fsType": "tmpfs"})]
        self.handles.append(csi.claim("device", volumeMode="Block", size="1Mi"))

    def come(self):
        """Make a pod with some of the volumes."""
        self._number += 1
        name = f"p{self._number}"
        volumes = [
            {"name": "files", **of_claim("files")},
            {"name": "memory", **of_claim("memory")},
            {"name": "device", **of_claim("device")},
            {"name": "inline", "csi": {"driver": NAME}},
        ]
        chosen = self._chance.sample(volumes, self._chance.randint(1, len(volumes)))
        names = [v["name"] for v in chosen]
        mounts = [{"name": n, "mountPath": f"/{n}"} for n in names if n != "device"]
        devices = [{"name": n, "devicePath": "/dev/raw"} for n in names if n == "device"]
        container = sleeper(volumeMounts=mounts, volumeDevices=devices)
        self._node.create(pod(name, container, volumes=chosen))
        self.there.append(name)

    def go(self):
        """Have a pod end, be it ready or not."""
        name = self.there.pop(self._chance.randrange(len(self.there)))
        self._node.delete(name, gracePeriodSeconds=1)

    def step(self):
        """Do one or the other."""
        if len(self.there) < 2 or (len(self.there) < 4 and self._chance.random() < 0.6):
            self.come()
        else:
            self.go()


@ours_only
def test_volumes_is_killed_again_and_again_with_calls_under_way(csi, node):
    """Nothing is mounted twice, all pods start, and the driver has everything back at the end.

    The driver is killed, too, now and then.
    """
    seed = int(os.environ.get("KUBELET_TEST_SEED", str(time.time_ns() % 10**6)))
    print(f"KUBELET_TEST_SEED={seed}")
    chance = random.Random(seed)
    pods, kubelet = Coming(csi, node, chance), node.kubelet
    for _ in range(KILLS):
        method = chance.choice([*BOTH_WAYS, ""])
        if method:
            csi.driver.fault(method, "hang")
        pods.step()
        await_moment(csi, method, chance)
        pid = kubelet.pids()["volumes"]
        os.kill(pid, signal.SIGKILL)
        wait_for("volumes is back", lambda p=pid: kubelet.beating("volumes", p), SECONDS)
        if chance.random() < DRIVER_DIES:
            csi.driver.kill()
            csi.driver.start()
        csi.driver.set(faults={})  # now the driver goes on with what its dead caller wanted
        twice = [point for point, count in Counter(points()).items() if count > 1]
        assert not [point for point in twice if point.startswith(str(csi.root))]
    for name in pods.there:
        node.await_pod_ready(name)
    node.clear()
    csi.await_nothing_left()
    for handle in pods.handles:
        methods = csi.methods(handle)
        assert not methods or methods[-1] == UNSTAGE
    given_back(csi)


def await_moment(csi, method, chance):
    """Wait until a call hangs, if there is one soon, or for any moment."""
    end = time.monotonic() + (1.5 if method else chance.uniform(0, 0.6))
    while time.monotonic() < end:
        if method and any(under_way(csi, call) for call in csi.driver.calls(method)):
            return
        time.sleep(PAUSE)


def under_way(csi, call):
    """Whether a call has not ended; those of a driver that was killed never do."""
    return call["code"] is None and call["call"].startswith(f"{csi.driver.pid}-")


def given_back(csi):
    """See that each volume that was published at a place was unpublished there at last."""
    last = {}
    for call in csi.driver.calls(PUBLISH, UNPUBLISH):
        last[call["request"]["volume_id"], call["request"]["target_path"]] = call
    ends = {(call["method"], call["code"]) for call in last.values()}
    assert ends <= {(UNPUBLISH, 0)}
