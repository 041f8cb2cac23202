"""Pods that cannot be, or do not behave: what an operator is told, and that nobody else suffers.

One pod stands beside all of them for the whole file: its container is never touched.
"""

from __future__ import annotations

import base64
import json
import os

import pytest

from tests.node.images import BUSYBOX
from tests.node.pod_node import PAUSE, SECONDS, pod, sh, sleeper
from tests.node.shared import STUBBORN, container_of, problem, state_of, waiting, withdraw
from tests.processes.node import free_port, wait_for

CONFIG = {
    "clusterDNS": ["192.0.2.53"],
    "containerLogMaxSize": "64Ki",
    "containerLogMaxFiles": 2,
    "containerLogMonitorInterval": "3s",
}
LONG = 253


@pytest.fixture(scope="module")
def bystander(shared_node):
    """The pod that stands beside: its container, as it was at the beginning."""
    shared_node.write(pod("bystander"))
    shared_node.await_ready("bystander-testnode")
    yield shared_node.container("bystander-testnode")
    (shared_node.manifests / "bystander.yaml").unlink()


@pytest.fixture
def node(shared_node, bystander):
    """The kubelet; afterwards what the test made is gone, and the bystander as it was."""
    yield shared_node
    withdraw(shared_node, "bystander.yaml")
    now = shared_node.container("bystander-testnode")
    assert now["containerID"] == bystander["containerID"]
    assert (now["restartCount"], now["ready"]) == (0, True)


@pytest.fixture(scope="module", autouse=True)
def nothing_died(shared_node):
    """No process of the kubelet was replaced over the whole file."""
    yield
    found = json.loads(shared_node.ctl("status", "-o", "json").stdout)["processes"]
    assert {one["name"]: one["restarts"] for one in found if one["restarts"]} == {}


def put(node, name, text):
    """Write a manifest of any bytes, at once."""
    temporary = node.disk / ".bad"
    temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
    temporary.rename(node.manifests / name)


def no_problem(node, *parts):
    """Wait until the sources do not complain in these words any more."""
    wait_for(
        f"no problem {parts}",
        lambda: not any(all(x in p for x in parts) for p in node.sources().problems),
        SECONDS,
        PAUSE,
    )


def refused(node, document):
    """What is said of a pod that may not be."""
    path = node.disk / "refused.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    done = node.ctl("apply", "-f", str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


# Manifests.


def test_one_bad_manifest_among_good_ones(node):
    """The others run; the bad one is told with file, field and value, and runs when it is right."""
    node.write(pod("good-a"))
    bad = pod("good-b")
    bad["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    bad["spec"]["restartPolicy"] = 7
    node.write(bad)
    node.write(pod("good-c"))
    node.await_ready("good-a-testnode")
    node.await_ready("good-c-testnode")
    said = problem(node, "good-b.yaml", "spec.restartPolicy")
    assert "7" in said
    assert "good-b-testnode" not in node.pods()
    status = node.ctl("status").stdout
    assert "good-b.yaml" in status  # it is told where an operator looks
    node.write(pod("good-b"))
    node.await_ready("good-b-testnode")
    no_problem(node, "good-b.yaml")


def test_a_manifest_that_becomes_bad(node):
    """The pod that runs goes on as it was, until its manifest makes sense again or goes."""
    name = node.write(pod("turns"))
    node.await_ready(name)
    before = node.container(name)["containerID"]
    put(node, "turns.yaml", "kind: Pod\nthis is: [not\n")
    assert "bad YAML" in problem(node, "turns.yaml")
    assert node.container(name)["containerID"] == before
    (node.manifests / "turns.yaml").unlink()
    node.await_gone(name)
    no_problem(node, "turns.yaml")


def test_two_manifests_with_one_name(node):
    """Who was first has it; the second is told who, and takes over when the first goes."""
    name = node.write(pod("twice"), "m.yaml")
    node.await_ready(name)
    uid = node.uid(name)
    node.write(pod("twice", sleeper("other")), "a.yaml")
    said = problem(node, "a.yaml", "metadata.name")
    assert f"pod default/{name} is already given by {node.manifests / 'm.yaml'}" in said
    assert node.uid(name) == uid
    (node.manifests / "m.yaml").unlink()
    wait_for("the other one is there", lambda: node.uid(name) != uid, SECONDS, PAUSE)
    status = node.await_ready(name)
    assert container_of(status, "other")["ready"]


def test_a_name_that_is_taken_cannot_be_applied(node):
    """A submitted pod does not take the place of a static one."""
    name = node.write(pod("taken"))
    node.await_ready(name)
    said = refused(node, pod(name))
    assert f"its name is that of the pod from {node.manifests / 'taken.yaml'}" in said


def test_unknown_fields_are_a_warning(node):
    """They are named, and the pod runs without them; from a file as from kubeletctl."""
    document = pod("odd", sleeper(colour="blue"), shape="round")
    path = node.disk / "odd.json"
    path.write_text(json.dumps(document))
    done = node.ctl("apply", "-f", str(path))
    assert (done.returncode, done.stdout) == (0, "pod/odd created\n")
    assert 'warning: unknown field "spec.containers[0].colour"' in done.stderr
    assert 'warning: unknown field "spec.shape"' in done.stderr
    node.await_ready("odd")
    document["metadata"]["name"] = "odd-file"
    name = node.write(document)
    node.await_ready(name)
    wait_for("the log tells it", lambda: "spec.containers[0].colour" in node.log(), SECONDS)


def bomb() -> str:
    """A text of a few lines that would be a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join((*lines, "kind: Pod", "apiVersion: v1"))


ODD_FILES = {
    "bomb.yaml": (bomb(), "bomb.yaml: line 6: "),
    "garbage.yaml": (os.urandom(4096) + b"\xff\xfe", "garbage.yaml: line "),
    "nul.yaml": (b"kind: Pod\0\0\0", "nul.yaml: "),
    "empty.yaml": ("", "empty.yaml: empty, must hold a Pod"),
    "deep.yaml": ("[" * 5000, "deep.yaml: "),
    "list.yaml": ("- kind: Pod\n", 'list.yaml: document: must be an object of kind "Pod"'),
    "large.yaml": (b"#" * (11 << 20), "large.yaml: has 11534336 bytes, at most 10485760"),
    "service.yaml": ("kind: Service\napiVersion: v1\n", 'service.yaml: kind: Invalid value: "Serv'),
}


def test_files_that_are_no_manifests(node):
    """Each is told in a sentence of its own, all at once; a good one beside them runs."""
    for name, (text, _said) in ODD_FILES.items():
        put(node, name, text)
    (node.manifests / "nowhere.yaml").symlink_to(node.disk / "no-such-file")
    (node.manifests / "x.yaml").mkdir()  # a directory is no manifest, and nobody's mistake
    os.mkfifo(node.manifests / "pipe.yaml")
    name = node.write(pod("beside"))
    node.await_ready(name)
    for _text, said in ODD_FILES.values():
        problem(node, said)
    problem(node, "nowhere.yaml: is a link to a file that is not there")
    problem(node, "pipe.yaml: is not a regular file")
    assert not any("x.yaml:" in p for p in node.sources().problems)
    assert [row.name for row in node.pods().values() if row.name == name] == [name]


@pytest.mark.parametrize(
    ("meta", "spec", "said"),
    [
        ({"uid": "../../etc"}, {}, "metadata.uid: Invalid value: '../../etc'"),
        ({"uid": "sources"}, {}, "metadata.uid: Invalid value: 'sources'"),
        ({"name": "Up"}, {}, 'metadata.name: Invalid value: "Up"'),
        ({"namespace": "a/b"}, {}, 'metadata.namespace: Invalid value: "a/b"'),
        ({"name": "x" * (LONG + 1)}, {}, "metadata.name: Invalid value"),
        ({}, {"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid value: 0"),
        ({}, {"containers": []}, "spec.containers: Required value"),
        ({}, {"containers": [sleeper(), sleeper()]}, "spec.containers[1].name: Duplicate value"),
        ({}, {"containers": [sleeper(image="")]}, "spec.containers[0].image: Required value"),
        (
            {},
            {"containers": [sleeper(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
            "spec.containers[0].volumeMounts[0].name: Not found",
        ),
        (
            {},
            {"containers": [sleeper(resources={"requests": {"cpu": "many"}})]},
            "spec.containers[0].resources.requests",
        ),
        ({}, {"nodeName": "elsewhere"}, "spec.nodeName: Invalid value: 'elsewhere'"),
    ],
)
def test_a_pod_that_is_not_valid(node, meta, spec, said):
    """The field and its value are named, and nothing comes of the pod."""
    name = meta.get("name", "invalid")
    document = pod(name, meta=meta)
    document["spec"].update(spec)
    assert said in refused(node, document)
    assert name not in {row.name for row in node.pods().values() if row.source == "local"}


def test_a_name_that_is_too_long_with_the_node_behind_it(node):
    """A static pod has the node's name in its own: together they must not be too long."""
    node.write(pod("x" * (LONG - 5)), "long.yaml")
    said = problem(node, "long.yaml", "metadata.name")
    assert "must be no more than 253 bytes" in said
    fits = "y" * 200
    node.write(pod(fits), "fits.yaml")
    node.await_ready(f"{fits}-testnode")


def test_a_name_that_no_directory_can_have(node):
    """A name may be longer than its directory of logs can be called: it waits, and can be ended."""
    name = node.write(pod("z" * (LONG - len("-testnode"))), "valid.yaml")
    event = node.await_event(name, "FailedCreatePodSandBox")
    assert "File name too long" in event["message"]
    assert state_of(node.status(name)) == {"waiting": {"reason": "ContainerCreating"}}
    (node.manifests / "valid.yaml").unlink()
    node.await_gone(name)


def test_many_containers_in_one_pod(node):
    """Sixty containers of one pod all run, and all end."""
    name = node.write(pod("many", *(sleeper(f"c{n}") for n in range(60))))
    status = node.await_ready(name, 3 * SECONDS)
    assert len(status["containerStatuses"]) == 60
    node.remove("many")
    node.await_gone(name, 2 * SECONDS)


# Images.


def test_an_image_that_does_not_exist(node, registry):
    """ErrImagePull, then ImagePullBackOff; the registry's word is in the message and the event."""
    image = f"{registry.host}/no-such:1"
    name = node.write(pod("absent", sleeper(image=image)))
    found = waiting(node, name, "ImagePullBackOff")
    assert found["message"].startswith(f'Back-off pulling image "{image}"')
    assert "not found" in found["message"]
    messages = [e["message"] for e in node.events(name) if e["reason"] == "Failed"]
    assert any(m.startswith(f'Failed to pull image "{image}"') for m in messages), messages
    assert "Error: ErrImagePull" in messages
    assert node.status(name)["phase"] == "Pending"


def test_a_registry_that_is_down(node):
    """The address that refused is in the message."""
    host = f"127.0.0.1:{free_port()}"
    name = node.write(pod("down", sleeper(image=f"{host}/any:1")))
    found = waiting(node, name, "ImagePullBackOff", "ErrImagePull")
    assert f"dial tcp {host}: connect: connection refused" in found["message"]


def test_credentials_that_are_wrong(node, private_registry):
    """The registry refuses, and that is said."""
    auth = base64.b64encode(b"somebody:wrong").decode()
    config = node.root_dir / "config.json"
    config.write_text(json.dumps({"auths": {private_registry.host: {"auth": auth}}}))
    try:
        name = node.write(pod("denied", sleeper(image=f"{private_registry.host}/busybox:1")))
        found = waiting(node, name, "ImagePullBackOff", "ErrImagePull")
    finally:
        config.unlink()
    assert "401 Unauthorized" in found["message"] or "authorization failed" in found["message"]
    assert node.await_event(name, "Failed")["type"] == "Warning"


def test_an_image_name_that_is_none(node):
    """InvalidImageName, without a try at any registry."""
    name = node.write(pod("noname", sleeper(image="UPPER//case:::1")))
    found = waiting(node, name, "InvalidImageName")
    assert 'Failed to apply default image tag "UPPER//case:::1"' in found["message"]
    assert node.await_event(name, "InspectFailed")["type"] == "Warning"


# Containers.


def test_a_command_that_does_not_exist(node):
    """StartError with exit code 128 and the runtime's word, a Failed event, then the back-off."""
    container = {"name": "c", "image": BUSYBOX, "command": ["/no/such/program"]}
    name = node.write(pod("nocommand", container))
    waiting(node, name, "CrashLoopBackOff")
    ended = node.container(name)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/no/such/program" in ended["message"]
    failed = node.await_event(name, "Failed")
    assert failed["message"].startswith("Error: ")
    assert "/no/such/program" in failed["message"]


def test_a_container_that_exits_at_once(node):
    """CrashLoopBackOff with the exit code of the last run; the delay is told in words."""
    name = node.write(pod("exits", sh("exit 5")))
    found = waiting(node, name, "CrashLoopBackOff")
    text = f"back-off 10s restarting failed container=c pod={name}_default({node.uid(name)})"
    assert found["message"] == text
    assert node.container(name)["lastState"]["terminated"]["exitCode"] == 5
    event = node.await_event(name, "BackOff")
    said = f"Back-off restarting failed container c in pod {name}_default({node.uid(name)})"
    assert (event["type"], event["message"]) == ("Warning", said)


def test_a_container_that_ignores_its_end(node):
    """It is killed when its grace is over: exit code 137."""
    name = node.apply(pod("ignores", sh(STUBBORN), terminationGracePeriodSeconds=1))
    node.await_ready(name)
    node.delete(name)
    node.await_gone(name)


def test_a_grace_that_is_negative(node):
    """It is taken as one second, as an API server takes it (P-37)."""
    name = node.apply(pod("negative", sh(STUBBORN), terminationGracePeriodSeconds=-5))
    node.await_ready(name)
    done = node.ctl("delete", "pod", name, "-o", "json")
    (told,) = json.loads(done.stdout)
    assert (told["grace_seconds"], told["gone"], told["problem"]) == (1, True, None)


def test_a_stop_hook_that_hangs(node):
    """It has the grace, no more: the pod is gone then, and an event has told."""
    hook = {"preStop": {"exec": {"command": ["sleep", "100000"]}}}
    name = node.apply(pod("hangs", sleeper(lifecycle=hook), terminationGracePeriodSeconds=2))
    node.await_ready(name)
    uid = node.uid(name)
    node.delete(name)
    node.await_gone(name)
    told = node.ctl("events", "--pod", uid).stdout
    assert "FailedPreStopHook" in told


def test_a_start_hook_that_fails(node):
    """The container is stopped, the failure is its reason and an event."""
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo no luck >&2; exit 3"]}}}
    name = node.write(pod("unlucky", sleeper(lifecycle=hook), terminationGracePeriodSeconds=1))
    waiting(node, name, "PostStartHookError", "CrashLoopBackOff")
    event = node.await_event(name, "FailedPostStartHook")
    assert event["type"] == "Warning"


def test_a_container_that_fills_its_log(node):
    """Its log is rotated while it writes, so that it never takes more than a few files."""
    flood = sh("yes 0123456789012345678901234567890123456789")
    name = node.write(pod("floods", flood, terminationGracePeriodSeconds=1))
    node.await_ready(name)
    logs = node.logs / f"default_{name}_{node.uid(name)}" / "c"
    wait_for("the log is rotated", lambda: len(list(logs.iterdir())) > 1, SECONDS)
    first = {p.name for p in logs.iterdir()}
    wait_for("it is again", lambda: {p.name for p in logs.iterdir()} - first, SECONDS)
    assert len([p for p in logs.iterdir() if not p.name.endswith(".tmp")]) <= 3
    assert node.container(name)["restartCount"] == 0
    node.remove("floods")
    node.await_gone(name)
    assert not logs.exists()


def test_a_volume_that_never_mounts(node):
    """ContainerCreating, and a FailedMount event that names the volume; the pod can be ended."""
    volume = {"name": "v", "hostPath": {"path": str(node.disk / "never"), "type": "Directory"}}
    mounts = [{"name": "v", "mountPath": "/v"}]
    name = node.write(pod("unmounted", sleeper(volumeMounts=mounts), volumes=[volume]))
    event = node.await_event(name, "FailedMount")
    assert event["type"] == "Warning"
    assert event["message"] == (
        'MountVolume.SetUp failed for volume "v" : hostPath type check failed: '
        f"{node.disk / 'never'} is not a directory"
    )
    found = waiting(node, name, "ContainerCreating")
    assert found == {"reason": "ContainerCreating"}
    node.remove("unmounted")
    node.await_gone(name)


def test_a_configuration_that_cannot_be(node):
    """CreateContainerConfigError with the reason, before anything is created."""
    container = sleeper(securityContext={"runAsNonRoot": True})
    name = node.write(pod("rootless", container))
    found = waiting(node, name, "CreateContainerConfigError")
    assert "container has runAsNonRoot and image will run as root" in found["message"]
    assert node.await_event(name, "Failed")["message"] == f"Error: {found['message']}"


def test_a_sandbox_that_cannot_be_made_is_not_tried_without_a_pause(node):
    """FailedCreatePodSandBox; the runtime's looks at what failed are no reason to try at once."""
    sysctls = [{"name": "kernel.shm_rmid_forced", "value": "abc"}]
    name = node.write(pod("nosandbox", securityContext={"sysctls": sysctls}))
    event = node.await_event(name, "FailedCreatePodSandBox")
    assert "invalid argument" in event["message"]
    assert state_of(node.status(name)) == {"waiting": {"reason": "ContainerCreating"}}

    def rests() -> bool:
        """Whether it lets some full looks pass without another try."""
        before, look = node.work(name), node.cache.full_look_ns()
        wait_for("more looks", lambda: node.cache.full_look_ns() > look + 2 * 10**9, SECONDS)
        return bool(before.waits) and node.work(name) == before

    wait_for("it rests", rests, SECONDS)
    (wait,) = node.work(name).waits
    assert wait.what == "its sandbox to be created"
    node.remove("nosandbox")
    node.await_gone(name)
