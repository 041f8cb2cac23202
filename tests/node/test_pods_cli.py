"""Pods as a user of kubeletctl has them: applied, looked at, explained, traced and deleted."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from tests.node.images import BUSYBOX
from tests.node.pod_node import PAUSE, SECONDS, pod, sh, sleeper
from tests.node.shared import STUBBORN, waiting
from tests.processes.node import free_port, wait_for

CONFIG = {"clusterDNS": ["192.0.2.53"]}
OTHER = "kubelet.test/busybox:other"
CLOCK = r"\d\d:\d\d:\d\d"
AGO = rf"{CLOCK} \([^)]+ ago\)"
IN = rf"at {CLOCK} \(in [^)]+\)"


def ctl(node, *arguments, code=0, stdin=None):
    """What kubeletctl prints; its complaints if it is to end with another code."""
    done = subprocess.run(
        [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(node.run_dir), *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def write(node, name, *documents):
    """A file with these documents."""
    path = node.disk / name
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def why(node, name, pattern):
    """Wait until the paragraph about a pod is as the pattern says; it is one line."""
    last = [""]

    def look():
        last[0] = ctl(node, "why", name)
        return re.fullmatch(pattern, last[0].rstrip("\n"))

    try:
        wait_for(f"why {name}", look, SECONDS, 0.2)
    except AssertionError:
        raise AssertionError(f"{last[0]}\nis not\n{pattern}") from None
    return last[0]


def waits(node, name, what):
    """Wait until a pod waits for something."""
    wait_for(
        f"{name} waits for {what}",
        lambda: any(what in wait.what for wait in node.work(name).waits),
        SECONDS,
        PAUSE,
    )


# Applying.


def test_apply_creates_configures_and_leaves_alone(node):
    """Two documents of a file; again: nothing; another label: one of them, without a restart."""
    first, second = pod("one"), pod("two")
    path = write(node, "two.yaml", first, second)
    assert ctl(node, "apply", "-f", path, "--wait", "--timeout=60s") == (
        "pod/one created\npod/two created\n"
    )
    before = node.container("two")["containerID"]
    assert ctl(node, "apply", "-f", path) == "pod/one unchanged\npod/two unchanged\n"
    second["metadata"]["labels"] = {"tier": "web"}
    path = write(node, "two.yaml", first, second)
    assert ctl(node, "apply", "-f", path) == "pod/one unchanged\npod/two configured\n"
    wait_for(
        "the label is there",
        lambda: "tier" in ctl(node, "get", "pod", "two", "-o", "json"),
        SECONDS,
    )
    assert node.container("two")["containerID"] == before
    deleted = ctl(node, "delete", "-f", path)
    assert deleted == 'pod "one" deleted\npod "two" deleted\n'
    assert not {"one", "two"} & node.pods().keys()


def test_apply_reads_directories_and_standard_input(node):
    """A directory in the order of its names; a list on standard input; JSON tells all of it."""
    directory = node.disk / "several"
    directory.mkdir()
    (directory / "b.json").write_text(json.dumps(pod("dir-b")))
    (directory / "a.yaml").write_text(yaml.safe_dump(pod("dir-a")))
    (directory / "notes.txt").write_text("not a pod")
    assert ctl(node, "apply", "-f", str(directory)) == "pod/dir-a created\npod/dir-b created\n"
    items = {"apiVersion": "v1", "kind": "List", "items": [pod("stdin")]}
    told = json.loads(ctl(node, "apply", "-f", "-", "-o", "json", stdin=json.dumps(items)))
    assert [(t["name"], t["result"], t["problems"]) for t in told] == [("stdin", "created", [])]
    assert told[0]["uid"] == node.uid("stdin")
    for name in ("dir-a", "dir-b", "stdin"):
        node.await_ready(name)


def test_another_image_restarts_the_container(node):
    """The image is what may change: the container is replaced, in the same pod."""
    node.containerd.ctr("images", "tag", "--force", BUSYBOX, OTHER)
    ctl(node, "apply", "-f", write(node, "image.yaml", pod("image")), "--wait")
    uid, before = node.uid("image"), node.container("image")["containerID"]
    path = write(node, "image.yaml", pod("image", sleeper(image=OTHER)))
    assert ctl(node, "apply", "-f", path) == "pod/image configured\n"
    status = node.await_status(
        "image",
        "the other image runs",
        lambda s: (
            s["containerStatuses"][0]["restartCount"] == 1
            and "running" in s["containerStatuses"][0]["state"]
        ),
    )
    (container,) = status["containerStatuses"]
    assert container["containerID"] != before
    # The runtime has one image under both names, and tells the first of them.
    pulled = [e["message"] for e in node.events("image") if e["reason"] == "Pulled"]
    assert any(OTHER in message for message in pulled), pulled
    assert node.uid("image") == uid
    message = "Container c definition changed, will be restarted"
    assert message in node.await_event("image", "Killing")["message"]


def test_what_may_not_change_is_refused_by_name(node):
    """The field is named, the exit code is 1, the pod stays as it is, others are applied."""
    ctl(node, "apply", "-f", write(node, "fixed.yaml", pod("fixed")), "--wait")
    before = node.container("fixed")["containerID"]
    changed = pod("fixed", sleeper(env=[{"name": "A", "value": "b"}]))
    path = write(node, "fixed.yaml", changed, pod("beside"))
    said = ctl(node, "apply", "-f", path, code=1)
    assert f"{path}: document 1 (pod fixed): " in said
    assert "spec: Forbidden: pod updates may not change fields other than" in said
    assert "changed is spec.containers[0].env" in said
    node.await_ready("beside")
    assert node.container("fixed")["containerID"] == before
    assert node.container("fixed")["restartCount"] == 0


# Looking.


def test_every_view_of_a_pod(node):
    """Get in all its forms, describe, pods, status: the same pod, as kubectl shows it."""
    ctl(node, "apply", "-f", write(node, "view.yaml", pod("view")), "--wait")
    status = node.status("view")
    lines = ctl(node, "get", "pods").splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    (line,) = [line.split() for line in lines if line.startswith("view ")]
    assert line[:4] == ["view", "1/1", "Running", "0"]
    wide = ctl(node, "get", "pods", "view", "-o", "wide").splitlines()
    assert wide[0].split()[5:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert wide[1].split()[5:] == [status["podIP"], "testnode", "<none>", "<none>"]
    assert "pod/view\n" in ctl(node, "get", "pods", "-o", "name")
    found = json.loads(ctl(node, "get", "pod", "view", "-o", "json"))
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
    assert found["status"] == node.status("view")
    assert yaml.safe_load(ctl(node, "get", "pod/view", "-o", "yaml")) == found
    everything = json.loads(ctl(node, "get", "pods", "-A", "-o", "json"))
    assert everything["kind"] == "List"
    assert found in everything["items"]
    short = next(line for line in ctl(node, "pods").splitlines() if " view " in line)
    assert short.split()[:5] == ["default", "view", "1/1", "Running", "0"]


def test_describe_tells_all(node):
    """Sections as of kubectl, with the events at the end."""
    ctl(node, "apply", "-f", write(node, "all.yaml", pod("all")), "--wait")
    said = ctl(node, "describe", "pod", "all")
    for part in (
        r"^Name: +all$",
        r"^Node: +testnode",
        r"^Status: +Running$",
        rf"^ +Image: +{BUSYBOX}$",
        r"^ +State: +Running$",
        r"^ +Ready: +True",
        r"^Conditions:$",
        r"^QoS Class: +BestEffort$",
        r"^Events:$",
        r"^ +Normal +Started ",
    ):
        assert re.search(part, said, re.MULTILINE), (part, said)
    assert "all" in ctl(node, "describe", "pod", "al")  # a beginning will do


def test_status_counts_pods(node):
    """Ready ones are counted, others are listed with what is wrong; the JSON has all."""
    documents = pod("good"), pod("bad", sh("exit 1"))
    ctl(node, "apply", "-f", write(node, "both.yaml", *documents))
    node.await_ready("good")
    waiting(node, "bad", "CrashLoopBackOff")
    waits(node, "bad", "started again")
    said = ctl(node, "status")
    assert re.search(r"^pods: \d+ \(\d+ ready, 1 not ready", said, re.MULTILINE), said
    assert "default/bad CrashLoopBackOff: waits for container c to be started again\n" in said
    found = {one["name"]: one for one in json.loads(ctl(node, "status", "-o", "json"))["pods"]}
    assert found["good"]["ready"] is True
    assert (found["good"]["status"], found["good"]["waits_for"]) == ("Running", "")
    assert (found["bad"]["ready"], found["bad"]["status"]) == (False, "CrashLoopBackOff")
    assert found["bad"]["waits_for"] == "waits for container c to be started again"


# Explaining.


def test_why_of_a_pod_that_runs(node):
    """Nothing is waited for, since when it is ready, and that it was never restarted."""
    node.apply(pod("runs"))
    node.await_ready("runs")
    why(
        node,
        "runs",
        r"Pod default/runs from source local is Running and ready \(1 of 1 container ready\): "
        rf"nothing is waited for\. It is ready since {AGO}, and this node began to start it at "
        rf"{AGO}\. No container was restarted\.",
    )


def test_why_of_an_image_that_cannot_be_had(node):
    """Which image, for which container, how the last pull ended, when the next one is."""
    image = f"127.0.0.1:{free_port()}/none:1"
    node.apply(pod("pull", sleeper(image=image)))
    waiting(node, "pull", "ImagePullBackOff")
    why(
        node,
        "pull",
        r"Pod default/pull from source local is not ready: its status is ImagePullBackOff, with 0 "
        rf"of 1 container ready\. It waits for image {image} for container c since {AGO}\. The "
        r"last try: ErrImagePull: .*connection refused\. Next: it is pulled again, "
        rf"{IN}\.",
    )


def test_why_of_a_crash_loop(node):
    """How it ended, how often, how long the back-off is and when it ends."""
    node.apply(pod("crash", sh("echo no config > /dev/termination-log; exit 3")))
    waiting(node, "crash", "CrashLoopBackOff")
    why(
        node,
        "crash",
        r"Pod default/crash from source local is not ready: its status is CrashLoopBackOff, with "
        rf"0 of 1 container ready\. It waits for container c to be started again since {AGO}\. "
        r"The last try: its run 2 ended with exit code 3 \(Error\)\. Next: it is started again, "
        rf"after a back-off of 10s, {IN}\.",
    )


def test_why_of_a_volume_that_does_not_mount(node):
    """Which volume, what is wrong with it, when it is tried again; then it is there."""
    missing = node.disk / "missing"
    node.apply(
        pod(
            "volume",
            sleeper(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            volumes=[{"name": "data", "hostPath": {"path": str(missing), "type": "Directory"}}],
        )
    )
    node.await_event("volume", "FailedMount")
    why(
        node,
        "volume",
        r"Pod default/volume from source local is not ready: its status is ContainerCreating, "
        r"with 0 of 1 container ready\. It waits for volume data to be mounted since "
        rf"{AGO}\. The last try: hostPath type check failed: {missing} is not a directory\. Next: "
        rf"it is tried again, (at once|{IN})\.",
    )
    missing.mkdir()
    node.await_ready("volume")


def test_why_of_an_init_container_that_runs(node):
    """Which of them, since when, and what comes after it."""
    node.apply(pod("init", initContainers=[sh("true", "zero"), sleeper("first")]))
    node.await_status(
        "init",
        "the second runs",
        lambda s: (
            len(s.get("initContainerStatuses", [])) > 1
            and "running" in s["initContainerStatuses"][1]["state"]
        ),
    )
    why(
        node,
        "init",
        r"Pod default/init from source local is not ready: its status is Init:1/2, with 0 of 1 "
        r"container ready\. It waits for init container first \(2 of 2\) to end, which runs since "
        rf"{AGO}\. Next: the other containers start as soon as it has ended with exit code 0\.",
    )
    line = next(line for line in ctl(node, "pods").splitlines() if " init " in line)
    assert line.endswith("init container first to end")


def test_why_of_a_pod_that_was_refused(node):
    """The reason, the numbers, and that nothing more comes; apply --wait says so, too."""
    greedy = pod("greedy", sleeper(resources={"requests": {"cpu": "1000"}}))
    said = ctl(node, "apply", "-f", write(node, "greedy.yaml", greedy), "--wait", code=1)
    assert "pod greedy: it has failed: OutOfcpu: OutOfcpu: Node didn't have enough" in said
    why(
        node,
        "greedy",
        r"Pod default/greedy from source local has ended: its phase is Failed, its status "
        r"OutOfcpu\. This node refused it with reason OutOfcpu: Node didn't have enough resource: "
        r"cpu, requested: 1000000, used: \d+, capacity: \d+\. It is not tried again: it must be "
        r"deleted, and made anew or changed\.",
    )


def test_why_of_a_pod_that_does_not_want_to_end(node):
    """Since when, why, what was done, and when it is killed; --now then makes it short."""
    node.apply(pod("slow", sh(STUBBORN), terminationGracePeriodSeconds=600))
    node.await_ready("slow")
    said = ctl(node, "delete", "pod", "slow", "--wait=false")
    assert said == 'pod "slow" is being deleted\n'
    why(
        node,
        "slow",
        r"Pod default/slow from source local is Terminating, with 1 of 1 container ready\. It is "
        rf"being ended since {AGO}, because it was deleted, with 600 s of grace\. Container c was "
        rf"told to end at {AGO} and still runs\. It waits for container c to end since {AGO}\. "
        rf"Next: what still runs then is killed, {IN}\.",
    )
    late = ctl(node, "delete", "pod", "slow", "--timeout=1s", code=1)
    assert "pod slow is still there after 1 s: it waits for container c to end" in late
    assert ctl(node, "delete", "pod", "slow", "--now") == 'pod "slow" deleted\n'


def test_why_of_pods_that_are_done(node):
    """How each container ended, and that it stays so."""
    node.apply(pod("done", sh("true"), restartPolicy="Never"))
    said = "echo the disk is full > /dev/termination-log; exit 4"
    node.apply(pod("fails", sh(said), restartPolicy="Never"))
    for name, phase, status, end in (
        ("done", "Succeeded", "Completed", r"exit code 0 \(Completed\)"),
        ("fails", "Failed", "Error", r"exit code 4 \(Error\), saying 'the disk is full'"),
    ):
        node.await_phase(name, phase)
        why(
            node,
            name,
            rf"Pod default/{name} from source local has ended: its phase is {phase}, its status "
            rf"{status}\. All its containers have stopped, because it has come to its "
            rf"own end\. Container c ended at {AGO} with {end}\. Nothing more is done for it, and "
            r"it stays as it is until it is deleted\.",
        )


def test_why_of_what_is_not_there(node):
    """A pod that nobody knows is exit code 1, with what is wrong with the manifests."""
    (node.manifests / "broken.yaml").write_text("kind: Pod\napiVersion: v1\n")
    wait_for("the problem is noticed", lambda: node.sources().problems, SECONDS, PAUSE)
    said = ctl(node, "why", "broken", code=1)
    assert "It may be in a manifest with a problem: " in said
    assert "broken.yaml" in said
    assert "spec.containers: Required value" in said


# Tracing.


def test_trace_has_every_step_in_order(node):
    """From the source to Running, each step once, with milliseconds that never go back."""
    node.apply(pod("traced"))
    node.await_ready("traced")
    node.await_settled()
    found = json.loads(ctl(node, "trace", "traced", "-o", "json"))
    steps = found["steps"]
    told = [f"{s['what']} {s['text']}".strip() for s in steps if s["process"] == "syncloop"]
    wanted = (
        "pod add default/traced from local",
        "admitted",
        "phase Pending",
        "step creating the sandbox",
        "sandbox ",
        "step creating container c",
        "event Created: Container created",
        "step starting container c",
        "event Started: Container started",
        "phase Running",
    )
    places = [next(i for i, t in enumerate(told) if t.startswith(w)) for w in wanted]
    assert places == sorted(places), told
    offsets = [s["offset_ms"] for s in steps]
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    lengths = {s["text"]: s["took_ms"] for s in steps if s["what"] == "step" and s["text"]}
    assert all(took > 0 for took in lengths.values()), lengths
    assert found["total_ms"] >= lengths["creating the sandbox"]
    assert {s["process"] for s in steps} >= {"syncloop", "pleg", "eviction"}
    lines = ctl(node, "trace", "traced").splitlines()
    assert re.match(rf"default/traced: {len(steps)} steps in [\d.,]+ ms since ", lines[0])
    assert lines[1].split() == ["AT", "ms", "DELTA", "ms", "TOOK", "ms", "PROCESS", "WHAT", "TEXT"]
    assert len(lines) == len(steps) + 2
    ctl(node, "delete", "pod", "traced")
    gone = ctl(node, "trace", node_uid := found["pod"])
    assert "gone" in gone, (node_uid, gone)


# Deleting.


def test_delete_with_a_grace_period(node):
    """The grace that is asked for is the one that is used; the preStop hook has its time of it."""
    node.apply(pod("grace", sh(STUBBORN), terminationGracePeriodSeconds=600))
    node.await_ready("grace")
    told = json.loads(ctl(node, "delete", "pod", "grace", "--grace-period=1", "-o", "json"))
    assert [(t["grace_seconds"], t["gone"], t["problem"]) for t in told] == [(1, True, None)]
    assert "grace" not in node.pods()


def test_a_static_pod_is_not_deleted(node):
    """It is said where it comes from, and it runs on; so it is for a pod that is not there."""
    name = node.write(pod("static"))
    node.await_ready(name)
    before = node.container(name)["containerID"]
    said = ctl(node, "delete", "pod", name, code=1)
    path = node.manifests / "static.yaml"
    assert said == (
        f"kubeletctl: pod {name}: pod default/{name} comes from {path}, and can only be removed "
        "there\n"
    )
    assert node.container(name)["containerID"] == before
    assert "nobody" in ctl(node, "delete", "pod", "nobody", code=1)
    assert ctl(node, "delete", "pod", "nobody", "--ignore-not-found") == ""
    node.remove("static")
    node.await_gone(name)


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete", "pod", "x", "--grace-period=-2"),
        ("delete", "pod", "x", "--now", "--grace-period=3"),
        ("delete",),
        ("apply",),
        ("get", "nodes"),
        ("why",),
        ("apply", "-f", "x", "--timeout=soon"),
    ],
)
def test_a_wrong_command_line(node, arguments):
    """It is exit code 2 and one sentence, without a traceback."""
    said = ctl(node, *arguments, code=2)
    assert "Traceback" not in said
    assert said.strip()
