"""Volumes of pods on a real runtime: what containers find in them, and what is left of them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.node.pod_node import NODE_NAME, SECONDS, SLEEP, sh, sleeper
from tests.node.shared import pod, run, waiting
from tests.processes.node import wait_for


def mount(path="/v", name="v", **more):
    """A volume in a container."""
    return {"name": name, "mountPath": path, **more}


def volume(name="v", **source):
    """A volume of a pod."""
    return {"name": name, **source}


def host_path(path, kind=""):
    """A volume that is a path of the node."""
    return volume(hostPath={"path": str(path), "type": kind})


def field(file, path):
    """A file with a field of the pod."""
    return {"path": file, "fieldRef": {"fieldPath": path}}


def points(uid):
    """What is mounted for a pod on the node."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        return [line.split()[4] for line in mounts if uid in line]


# emptyDir (L-30).


@pytest.mark.both_versions
def test_two_containers_share_an_empty_directory(node):
    """What one container writes into an emptyDir, the other one reads."""
    writer = sh(f"echo hello > /mine/file; {SLEEP}", "writer", volumeMounts=[mount("/mine")])
    script = f"until test -s /yours/file; do sleep 0.1; done; cat /yours/file; {SLEEP}"
    reader = sh(script, "reader", volumeMounts=[mount("/yours")])
    name = node.write(pod("shared", writer, reader, volumes=[volume(emptyDir={})]))
    node.await_output(name, "hello\n", "reader")


def test_an_empty_directory_goes_with_its_pod(node):
    """An emptyDir outlives its containers, and not its pod; whatever is in it goes (L-30)."""
    script = f"mkdir -p /v/a/b; ln -s / /v/a/link; touch /v/a/b/file; echo done; {SLEEP}"
    name = node.write(
        pod("leaves", sh(script, volumeMounts=[mount()]), volumes=[volume(emptyDir={})])
    )
    node.await_output(name, "done")
    directory = node.root_dir / "pods" / node.uid(name)
    path = directory / "volumes" / "kubernetes.io~empty-dir" / "v"
    assert path.stat().st_mode & 0o7777 == 0o777
    assert (path / "a" / "b" / "file").exists()
    node.remove("leaves")
    node.await_gone(name)
    wait_for("its directory is gone", lambda: not directory.exists(), SECONDS)
    assert Path("/etc").is_dir()


def test_an_empty_directory_outlives_a_restart(node):
    """A container that is restarted finds in an emptyDir what it left there."""
    script = f"if test -e /v/once; then echo again; {SLEEP}; fi; touch /v/once; exit 1"
    name = node.write(
        pod("restarts", sh(script, volumeMounts=[mount()]), volumes=[volume(emptyDir={})])
    )
    node.await_output(name, "again", attempt=1)


@pytest.mark.both_versions
def test_an_empty_directory_in_memory(node):
    """A volume in memory is a tmpfs of at most its sizeLimit, and is unmounted (L-30)."""
    source = {"medium": "Memory", "sizeLimit": "2Mi"}
    script = (
        "grep ' /v ' /proc/mounts; head -c 3000000 /dev/zero > /v/big; "
        f"stat -c %s /v/big; echo done; {SLEEP}"
    )
    name = node.write(
        pod("memory", sh(script, volumeMounts=[mount()]), volumes=[volume(emptyDir=source)])
    )
    text = node.await_output(name, "done")
    assert text.startswith("tmpfs /v tmpfs ")
    assert f"\n{2 << 20}\ndone\n" in text
    uid = node.uid(name)
    assert any(point.endswith("/v") for point in points(uid))
    node.remove("memory")
    node.await_gone(name)
    assert points(uid) == []


def test_memory_of_a_limited_pod(node):
    """A volume in memory is never larger than the pod's memory limit (L-30)."""
    resources = {"limits": {"cpu": "500m", "memory": "16Mi"}}
    script = "grep ' /v ' /proc/mounts"
    spec = {"volumes": [volume(emptyDir={"medium": "Memory", "sizeLimit": "1Gi"})]}
    text = run(node, "small", script, spec=spec, volumeMounts=[mount()], resources=resources)
    assert f"size={16 << 10}k" in text


# hostPath (L-31).


@pytest.fixture
def place(node):
    """A directory of the node."""
    path = node.disk / "places"
    path.mkdir(exist_ok=True)
    return path


@pytest.mark.parametrize(
    "kind", ["", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice"]
)
def test_paths_of_the_node(node, place, kind):
    """A hostPath of the right type is mounted; the kinds with OrCreate make it (L-31)."""
    path = place / f"good-{kind.lower()}"
    if kind in ("", "Directory"):
        path.mkdir()
    elif kind == "File":
        path.touch()
    elif kind == "Socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "CharDevice":
        path = Path("/dev/null")
    tests = {"": "d", "Directory": "d", "File": "f", "Socket": "S", "CharDevice": "c"}
    letter = tests[kind.removesuffix("OrCreate")]
    spec = {"volumes": [host_path(path, kind)]}
    name = f"good{kind.lower()}"
    assert run(node, name, f"test -{letter} /v && echo ok", spec=spec, volumeMounts=[mount()])
    if kind.endswith("OrCreate"):
        wanted = 0o755 if kind.startswith("Dir") else 0o644
        assert path.stat().st_mode & 0o777 == wanted
    assert path.exists()  # it is not the pod's: it stays


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Directory", "a directory"),
        ("File", "a file"),
        ("Socket", "a socket file"),
        ("CharDevice", "a character device"),
        ("BlockDevice", "a block device"),
    ],
)
def test_paths_that_are_not_there(node, place, kind, words):
    """A hostPath that is not what it should be keeps the pod waiting, and says why (L-31)."""
    path = place / f"missing-{kind.lower()}"
    name = node.write(
        pod(f"bad{kind.lower()}", sleeper(volumeMounts=[mount()]), volumes=[host_path(path, kind)])
    )
    event = node.await_event(name, "FailedMount")
    assert event["message"] == (
        'MountVolume.SetUp failed for volume "v" : '
        f"hostPath type check failed: {path} is not {words}"
    )
    assert waiting(node, name, "ContainerCreating")
    assert node.status(name)["phase"] == "Pending"


def test_a_path_that_appears(node, place):
    """A pod whose volume could not be mounted comes up when it can be."""
    path = place / "later"
    name = node.write(
        pod("later", sleeper(volumeMounts=[mount()]), volumes=[host_path(path, "Directory")])
    )
    node.await_event(name, "FailedMount")
    path.mkdir()
    node.await_ready(name)


def test_a_volume_that_never_comes_holds_up_nobody(node, place):
    """A pod whose volume never mounts is the only one that waits, and it can be deleted."""
    stuck = node.write(
        pod("stuck", sleeper(volumeMounts=[mount()]), volumes=[host_path(place / "no", "File")])
    )
    node.await_event(stuck, "FailedMount")
    others = [node.write(pod(f"other-{n}", volumes=[volume(emptyDir={})])) for n in range(3)]
    for other in others:
        node.await_ready(other)
    node.remove("stuck")
    node.await_gone(stuck)


# The downward API (L-29).


def downward(*items, **more):
    """A volume with files about the pod."""
    return volume(downwardAPI={"items": list(items), **more})


def test_files_about_the_pod(node):
    """The files say what the pod is called, its labels and what it may use (L-29)."""
    limit = {"path": "deep/memory", "resourceFieldRef": {}}
    limit["resourceFieldRef"] = {
        "containerName": "c",
        "resource": "limits.memory",
        "divisor": "1Mi",
    }
    source = downward(
        field("name", "metadata.name"),
        field("labels", "metadata.labels"),
        field("note", "metadata.annotations['example.com/note']"),
        limit,
    )
    meta = {"labels": {"b": "2", "a": "1"}, "annotations": {"example.com/note": "to you"}}
    script = "cd /v; for f in name labels note deep/memory; do cat $f; echo '|'; done"
    resources = {"limits": {"cpu": "500m", "memory": "16Mi"}}
    spec = {"volumes": [source]}
    more = {"volumeMounts": [mount()], "resources": resources}
    text = run(node, "downward", script, meta=meta, spec=spec, **more)
    assert text == f'downward-{NODE_NAME}|\na="1"\nb="2"|\nto you|\n16|\n'


def test_files_about_the_pod_have_modes(node):
    """A file has its own mode, or that of its volume, and containers cannot write it (L-22)."""
    source = downward(
        field("a", "metadata.name"),
        {**field("b", "metadata.name"), "mode": 0o400},
        defaultMode=0o444,
    )
    script = "stat -L -c %a /v/a /v/b; touch /v/new 2>&1 || echo refused"
    text = run(node, "modes", script, spec={"volumes": [source]}, volumeMounts=[mount()])
    assert text.startswith("444\n400\n")
    assert text.endswith("refused\n")


@pytest.mark.both_versions
def test_files_about_the_pod_follow_it(node):
    """New labels and annotations reach a running container, which goes on running (L-29)."""
    source = downward(field("labels", "metadata.labels"), field("notes", "metadata.annotations"))

    def document(word):
        meta = {"labels": {"word": word}, "annotations": {"note": word}}
        script = (
            "while true; do new=$(cat /v/labels /v/notes); "
            'test "$new" = "$old" || echo $new; old=$new; sleep 0.1; done'
        )
        return pod("live", sh(script, volumeMounts=[mount()]), meta=meta, volumes=[source])

    node.apply(document("old"))
    node.await_output("live", 'word="old"')
    node.await_ready("live")
    before = node.container("live")
    node.apply(document("new"))
    node.await_output("live", 'word="new"')
    node.await_output("live", 'note="new"')
    after = node.container("live")
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)


# Parts of volumes (L-32).


@pytest.mark.both_versions
def test_a_part_of_a_volume(node):
    """A subPath is made if it is missing, and is all that its container sees (L-32)."""
    parts = sh(f"echo part > /p/file; ls -a /p; {SLEEP}", "part")
    parts["volumeMounts"] = [mount("/p", subPath="a/b")]
    script = f"until test -s /v/a/b/file; do sleep 0.1; done; cat /v/a/b/file; {SLEEP}"
    whole = sh(script, "whole", volumeMounts=[mount()])
    name = node.write(pod("parts", parts, whole, volumes=[volume(emptyDir={})]))
    node.await_output(name, "part\n", "whole")
    assert node.output(name, "part").split() == [".", "..", "file"]
    uid = node.uid(name)
    assert any("/volume-subpaths/v/part/0" in point for point in points(uid))
    node.remove("parts")
    node.await_gone(name)
    assert points(uid) == []


def test_a_single_file_of_a_volume(node):
    """A subPath can be a file, which is mounted as one (L-32)."""
    init = sh("echo content > /v/file", "i", volumeMounts=[mount()])
    spec = {"volumes": [volume(emptyDir={})], "initContainers": [init]}
    mounts = [mount("/etc/config", subPath="file")]
    assert run(node, "onefile", "cat /etc/config", spec=spec, volumeMounts=mounts) == "content\n"


@pytest.mark.parametrize("target", ["/", "/etc", "../../../../../..", "inner"])
def test_a_part_that_leads_out_of_its_volume(node, target):
    """A link that leads out of the volume is not followed: the container is not made (L-32)."""
    name = f"escape{target.count('/')}{target.count('e')}"
    init = sh(f"ln -s /proc/1 /v/inner; ln -s {target} /v/out", "i", volumeMounts=[mount()])
    container = sleeper(volumeMounts=[mount("/p", subPath="out/x" if target == "/" else "out")])
    full = node.write(pod(name, container, initContainers=[init], volumes=[volume(emptyDir={})]))
    found = waiting(node, full, "CreateContainerConfigError")
    assert "leads out of the volume" in found["message"]
    assert node.await_event(full, "Failed")["message"] == f"Error: {found['message']}"


def test_a_link_inside_a_volume(node):
    """A link that stays inside the volume is followed."""
    init = sh("mkdir /v/a; echo here > /v/a/file; ln -s a /v/b", "i", volumeMounts=[mount()])
    spec = {"volumes": [volume(emptyDir={})], "initContainers": [init]}
    mounts = [mount("/p", subPath="b")]
    assert run(node, "inlink", "cat /p/file", spec=spec, volumeMounts=mounts) == "here\n"


def test_a_part_named_by_a_variable(node):
    """A subPathExpr is a path with variables of the container (L-32)."""
    env = [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    path = node.disk / "expr"
    path.mkdir()
    spec = {"volumes": [host_path(path)]}
    mounts = [mount("/p", subPathExpr="of/$(WHO)")]
    run(node, "expr", "echo me > /p/file", spec=spec, env=env, volumeMounts=mounts)
    assert (path / "of" / f"expr-{NODE_NAME}" / "file").read_text() == "me\n"


def test_a_restarted_container_has_its_part_again(node):
    """A container that is restarted finds its part of the volume mounted as before."""
    script = f"if test -e /p/once; then echo again; {SLEEP}; fi; touch /p/once; exit 1"
    container = sh(script, volumeMounts=[mount("/p", subPath="part")])
    name = node.write(pod("partagain", container, volumes=[volume(emptyDir={})]))
    node.await_output(name, "again", attempt=1)
    assert len(points(node.uid(name))) >= 1


# Modes.


def test_a_volume_that_is_read_only(node):
    """A read-only mount cannot be written; another mount of the same volume can."""
    script = "touch /w/file && ls /r && ! touch /r/file 2>&1 && echo refused"
    mounts = [mount("/r", readOnly=True), mount("/w")]
    spec = {"volumes": [volume(emptyDir={})]}
    text = run(node, "ro", script, spec=spec, volumeMounts=mounts)
    assert text.startswith("file\n")
    assert text.endswith("refused\n")
    assert "Read-only file system" in text


@pytest.mark.parametrize(("medium", "mode"), [("", "2777"), ("Memory", "3777")])
def test_the_group_of_a_volume(node, medium, mode):
    """The fsGroup owns the volume and what is made in it (L-33)."""
    context = {"runAsUser": 1001, "fsGroup": 1234}
    spec = {"volumes": [volume(emptyDir={"medium": medium})], "securityContext": context}
    script = "stat -c '%g %a' /v; touch /v/file; stat -c '%u %g' /v/file"
    name = f"group{medium.lower()}"
    text = run(node, name, script, spec=spec, volumeMounts=[mount()])
    assert text == f"1234 {mode}\n1001 1234\n"


def test_a_volume_without_an_api_server(node):
    """A volume that needs an API server is refused with a sentence that names it."""
    name = node.apply(
        pod("api", sleeper(volumeMounts=[mount()]), volumes=[volume(configMap={"name": "x"})])
    )
    event = node.await_event(name, "FailedMount")
    assert 'volume "v"' in event["message"]
    assert "this node has no API server, so there is no configmap x" in event["message"]
