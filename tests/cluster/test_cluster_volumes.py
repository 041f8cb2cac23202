"""Volumes of pods, given by a real API server and mounted for containers of a real runtime.

A test mounts it in a pod, has the pod say what it finds, ends the pod, and sees that nothing of it
is left on disk or mounted. Claims have a file of their own, as have CSI drivers, trust anchors and
certificates.
"""

from __future__ import annotations

import re
import socket
import statistics
import time

import pytest

from tests.cluster.admin import Refused
from tests.cluster.cluster_node import OURS, under_test
from tests.cluster.documents import config_map, secret
from tests.cluster.volumes_scene import (
    LONG,
    SETUP,
    claimed,
    end,
    failed_mount,
    fields,
    give_objects,
    items,
    loop_device,
    mount,
    mounts,
    mounts_with,
    read,
    run,
    shared_tmpfs,
    storage,
    volume,
)
from tests.node import images
from tests.node.images import Entry
from tests.node.pod_node import SLEEP, sh, sleeper
from tests.node.shared import pod
from tests.processes.node import wait_for

# Ours is told of changes; the other one looks for them once in a while.
CONFIG = {} if under_test() == OURS else {"syncFrequency": "1s"}
CHANGES = 5


@pytest.fixture
def store(node):
    """Persistent volumes and claims of the test."""
    with storage(node) as made:
        yield made


@pytest.fixture
def place(store):
    """A directory of this machine."""
    return store.place


@pytest.fixture
def objects(node):
    """A secret and a configmap."""
    give_objects(node)


# What lives as long as its pod.


def test_empty_directories_on_disk_and_in_memory(node):
    """L-30, L-33: the group owns both, and memory ends where its limit is."""
    volumes = [
        volume("disk", emptyDir={}),
        volume("memory", emptyDir={"medium": "Memory", "sizeLimit": "8Mi"}),
    ]
    script = """
    for v in /disk /memory; do stat -c '%a %g' $v; touch $v/file; stat -c '%u %g' $v/file; done
    grep ' /memory ' /proc/mounts | cut -d' ' -f3
    df -k /memory | awk 'NR == 2 { print $2 }'
    dd if=/dev/zero of=/memory/big bs=1M count=9 2>&1 | grep -c 'No space left'
    """
    security = {"runAsUser": 1001, "fsGroup": 4321}
    container = sh(script, volumeMounts=mounts(volumes))
    written = read(node, "empty", container, volumes, securityContext=security)
    assert written.splitlines() == [
        "2777 4321",
        "1001 4321",
        "3777 4321",
        "1001 4321",
        "tmpfs",
        "8192",
        "1",
    ]


def test_every_type_of_host_path(node, place):
    """L-31: what is of its type is mounted, and what may be made is made; it outlives the pod."""
    (place / "directory").mkdir()
    (place / "file").write_text("content\n")
    with socket.socket(socket.AF_UNIX) as made, loop_device(place / "disk") as device:
        made.bind(f"{place}/socket")
        wanted = {
            "any": ("", place / "directory", "d"),
            "directory": ("Directory", place / "directory", "d"),
            "newdir": ("DirectoryOrCreate", place / "new/deep", "d"),
            "file": ("File", place / "file", "f"),
            "newfile": ("FileOrCreate", place / "new-file", "f"),
            "socket": ("Socket", place / "socket", "S"),
            "chardevice": ("CharDevice", "/dev/null", "c"),
            "blockdevice": ("BlockDevice", device, "b"),
        }
        volumes = [
            volume(name, hostPath={"path": str(path), "type": kind})
            for name, (kind, path, _) in wanted.items()
        ]
        tests = " && ".join(f"test -{letter} /{name}" for name, (*_, letter) in wanted.items())
        container = sh(f"{tests} && cat /file", volumeMounts=mounts(volumes))
        assert read(node, "paths", container, volumes) == "content\n"
    assert (place / "new/deep").stat().st_mode & 0o7777 == 0o755
    assert (place / "new-file").stat().st_mode & 0o7777 == 0o644


def test_host_paths_of_another_type_are_named(node, place):
    """L-31: each is told with the type that it should have; when they are right, the pod runs."""
    kinds = {
        "Directory": "a directory",
        "File": "a file",
        "Socket": "a socket file",
        "CharDevice": "a character device",
        "BlockDevice": "a block device",
    }
    paths = {kind: place / kind.lower() for kind in kinds}
    for path in paths.values():
        path.symlink_to("nowhere")
    volumes = [
        volume(kind.lower(), hostPath={"path": str(path), "type": kind})
        for kind, path in paths.items()
    ]
    container = sh("ls -d /directory", volumeMounts=mounts(volumes))
    node.create(pod("types", container, volumes=volumes, restartPolicy="Never"))
    for kind, words in kinds.items():
        wanted = f"hostPath type check failed: {paths[kind]} is not {words}"
        assert failed_mount(node, "types", words) == SETUP.format(kind.lower(), wanted)
    for path in paths.values():
        path.unlink()
    with socket.socket(socket.AF_UNIX) as made, loop_device(place / "disk") as device:
        paths["Directory"].mkdir()
        paths["File"].touch()
        made.bind(str(paths["Socket"]))
        paths["CharDevice"].symlink_to("/dev/null")
        paths["BlockDevice"].symlink_to(device)
        node.await_phase("types", "Succeeded", LONG)
        end(node, "types")


# Files that are written for a pod.


@pytest.mark.usefixtures("objects")
def test_files_of_secrets_and_configmaps(node):
    """L-20..L-22, L-25: names are links into what is swapped at once; modes are as wanted."""
    some = [{"key": "colour", "path": "a/b", "mode": 0o400}, {"key": "size", "path": "size"}]
    volumes = [
        volume("secret", secret={"secretName": "keys", "defaultMode": 0o440}),
        volume("config", configMap={"name": "settings"}),
        volume("some", configMap={"name": "settings", "defaultMode": 0o640, "items": some}),
        volume("none", secret={"secretName": "missing", "optional": True}),
        volume("nokey", configMap={"name": "settings", "optional": True, "items": items(x="x")}),
    ]
    script = r"""
    ls -A /config | sed 's/^\.\.[0-9].*/..stamp/' | sort | tr '\n' ' '; echo
    readlink /config/colour; readlink /some/a; readlink /config/..data | cut -c1-4
    stat -L -c '%a %u %g' /secret/user /config/colour /some/a/b /some/size
    cat /secret/user /secret/password /some/a/b /some/size; echo
    ls /none /nokey | tr '\n' ' '; echo
    for v in secret config; do grep " /$v " /proc/mounts | cut -d' ' -f3; done
    touch /config/new 2>/dev/null || echo read-only
    """
    container = sh(script, volumeMounts=mounts(volumes))
    lines = read(node, "files", container, volumes).splitlines()
    assert lines[:3] == ["..data ..stamp colour size ", "..data/colour", "..data/a"]
    assert lines[3].startswith("..2")
    assert lines[4:8] == ["440 0 0", "644 0 0", "400 0 0", "640 0 0"]
    assert lines[8:10] == ["eves3cretgreen7", "/nokey:  /none: "]
    assert lines[10] == "tmpfs"
    assert lines[11] != "tmpfs"
    assert lines[12] == "read-only"


def everything():
    """A projected volume with each of its sources."""
    token = {"path": "token", "audience": "vault", "expirationSeconds": 600}
    resource = {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}
    shown = fields(name="metadata.name", labels="metadata.labels", note="metadata.annotations['n']")
    return volume(
        "all",
        projected={
            "defaultMode": 0o644,
            "sources": [
                {"secret": {"name": "keys", "items": items(user="deep/who")}},
                {"configMap": {"name": "settings"}},
                {"secret": {"name": "missing", "optional": True}},
                {"downwardAPI": {"items": [*shown, {"path": "m", "resourceFieldRef": resource}]}},
                {"serviceAccountToken": token},
            ],
        },
    )


@pytest.mark.usefixtures("objects")
def test_a_projection_of_everything(node):
    """L-20, L-22, L-29: all sources in one directory; the token is for the pod's user alone."""
    script = r"""
    cd /all; ls | tr '\n' ' '; echo
    cat deep/who colour size name labels note m; echo
    stat -L -c '%a %u %g' colour token; tr -cd . < token
    """
    meta = {"labels": {"app": "x"}, "annotations": {"n": "noted"}}
    limits = {"limits": {"memory": "64Mi"}}
    container = sh(script, volumeMounts=[mount("all")], resources=limits)
    users = {
        "plain": {},
        "user": {"runAsUser": 1001},
        "group": {"runAsUser": 1001, "fsGroup": 4321},
    }
    for name, security in users.items():
        spec = {"volumes": [everything()], "securityContext": security, "restartPolicy": "Never"}
        node.create(pod(name, container, meta=meta, **spec))
    texts = {}
    for name in users:
        node.await_phase(name, "Succeeded")
        texts[name] = lines = node.output(name).splitlines()
        assert lines[0] == "colour deep labels m name note size token "
        assert lines[1] == f'evegreen7{name}app="x"noted64'
        assert lines[4] == ".."
    assert texts["plain"][2:4] == ["644 0 0", "644 0 0"]
    assert texts["user"][2:4] == ["644 0 0", "600 1001 0"]
    assert texts["group"][2:4] == ["644 0 4321", "640 1001 4321"]
    end(node, *texts)


@pytest.mark.usefixtures("objects")
def test_a_pod_waits_for_objects_and_keys(node):
    """L-25: what is missing is named for each volume; when it comes, the pod runs."""
    volumes = [
        volume("secret", secret={"secretName": "late"}),
        volume("config", configMap={"name": "late"}),
        volume("nokey", secret={"secretName": "keys", "items": items(later="x")}),
        volume("noconfig", configMap={"name": "settings", "items": items(later="x")}),
        volume("all", projected={"sources": [{"configMap": {"name": "late"}}]}),
    ]
    script = "cat /secret/a /config/b /nokey/x /noconfig/x /all/b"
    container = sh(script, volumeMounts=mounts(volumes))
    node.create(pod("waits", container, volumes=volumes, restartPolicy="Never"))
    for name, words in {
        "secret": 'secret "late" not found',
        "config": 'configmap "late" not found',
        "nokey": "references non-existent secret key: later",
        "noconfig": "configmap references non-existent config key: later",
        "all": 'configmap "late" not found',
    }.items():
        wanted = SETUP.format(name, words)
        assert failed_mount(node, "waits", wanted) == wanted
    node.kubectl.apply(
        secret("late", a="1"),
        config_map("late", b="2"),
        secret("keys", later="3"),
        config_map("settings", later="4"),
        namespace=node.namespace,
    )
    node.await_phase("waits", "Succeeded", LONG)
    assert node.output("waits") == "12342\n"
    end(node, "waits")


@pytest.mark.parametrize(
    ("volumes", "words"),
    [
        ([volume("v", configMap={"name": "x", "items": items(a="../a")})], "must not contain '..'"),
        ([volume("v", secret={"secretName": "x", "items": items(a="..a")})], "start with '..'"),
        ([volume("v", hostPath={"path": "/tmp/../etc"})], "must not contain '..'"),
        ([volume("v", emptyDir={}, secret={"secretName": "x"})], "more than 1 volume type"),
    ],
)
def test_paths_that_lead_out_are_refused_before_any_kubelet(node, volumes, words):
    """The API server lets no such pod in; what comes another way has tests of its own."""
    with pytest.raises(Refused, match=re.escape(words)):
        node.create(pod("out", sleeper(volumeMounts=[mount("v")]), volumes=volumes))


def test_changes_are_seen_by_a_running_container(node):
    """L-24, L-29: objects and labels that change are changed in files; how soon is printed."""
    node.kubectl.apply(
        config_map("moving", value="0"), secret("moving", value="0"), namespace=node.namespace
    )
    volumes = [
        volume("config", configMap={"name": "moving"}),
        volume("secret", secret={"secretName": "moving"}),
        volume("down", downwardAPI={"items": fields(value="metadata.labels['value']")}),
        volume("all", projected={"sources": [{"secret": {"name": "moving"}}]}),
    ]
    each = " ".join(f"/{v['name']}/value" for v in volumes)
    script = f'until [ "$(cat {each})" = {str(CHANGES) * len(volumes)} ]; do sleep 0.05; done'
    container = sh(f"{script}; echo seen", volumeMounts=mounts(volumes))
    meta = {"labels": {"value": "0"}}
    node.create(pod("moving", container, meta=meta, volumes=volumes, restartPolicy="Never"))
    node.await_pod_ready("moving")
    core = f"/api/v1/namespaces/{node.namespace}"
    plugins = {"config": "configmap", "secret": "secret", "down": "downward-api"}
    took = {name: [] for name in plugins}
    for number in range(1, CHANGES + 1):
        text = str(number)
        changes = {
            "config": (f"{core}/configmaps/moving", {"data": {"value": text}}),
            "secret": (f"{core}/secrets/moving", {"stringData": {"value": text}}),
            "down": (node.pod_path("moving"), {"metadata": {"labels": {"value": text}}}),
        }
        for name, (path, change) in changes.items():
            file = node.volume_dir("moving", plugins[name], name) / "value"
            began = time.monotonic()
            node.admin.patch(path, change)
            last = number == CHANGES and name == "down"  # then the pod ends
            if not last:
                wait_for(f"{file}: {text}", lambda f=file, t=text: f.read_text() == t, LONG, 0.002)
                took[name].append(time.monotonic() - began)
    node.await_phase("moving", "Succeeded", LONG)
    for name, seconds in took.items():
        middle = statistics.median(seconds) * 1000
        print(f"{name}: half within {middle:.0f} ms, all within {max(seconds) * 1000:.0f} ms")
    assert node.output("moving") == "seen\n"
    end(node, "moving")


def test_an_image_as_a_volume(node, registry):
    """P-165: the files of an image, which nobody can write."""
    entries = (Entry("dir"), Entry("dir/file", b"from the image\n", mode=0o644))
    reference = registry.push(images.build("kubelet.test/cluster-volume:1", entries))
    volumes = [volume("image", image={"reference": reference})]
    script = "cat /image/dir/file; touch /image/new 2>/dev/null || echo read-only"
    container = sh(script, volumeMounts=[mount("image")])
    assert read(node, "image", container, volumes) == "from the image\nread-only\n"


# Parts of volumes, and how containers see them.


@pytest.mark.usefixtures("objects")
def test_parts_of_volumes(node, store):
    """L-32: of a configmap, a claim and an emptyDir, by name and by variable."""
    directory = store.directory("data")
    store.local("data", directory)
    store.claim("data")
    volumes = [
        volume("config", configMap={"name": "settings"}),
        claimed("data"),
        volume("empty", emptyDir={}),
    ]
    env = [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    parts = [
        mount("config", "/etc/colour", subPath="colour"),
        mount("config", "/etc/by-name", subPathExpr="$(PART)"),
        mount("data", "/one", subPath="one/deep"),
        mount("data", "/two", subPathExpr="$(NAME)/two"),
        mount("empty", "/three", subPath="three"),
        mount("empty", "/four", subPathExpr="$(NAME)"),
        mount("empty", "/whole"),
    ]
    script = """
    cat /etc/colour /etc/by-name; echo
    for d in one two three four; do echo $d > /$d/file; done
    cd /whole && find . -type f | sort | tr '\\n' ' '; echo; stat -c '%a' /whole/three
    """
    variables = [*env, {"name": "PART", "value": "size"}]
    container = sh(script, env=variables, volumeMounts=parts)
    written = read(node, "parts", container, volumes)
    assert written == "green7\n./parts/file ./three/file \n777\n"
    assert (directory / "one/deep/file").read_text() == "one\n"
    assert (directory / "parts/two/file").read_text() == "two\n"


def test_mounts_are_propagated(node, place):
    """What the host mounts is seen inside, what a container mounts is seen by all who want it."""
    with shared_tmpfs(place / "shared") as path:
        for name in ("host", "own"):
            (path / name).mkdir()
        volumes = [volume("v", hostPath={"path": str(path)})]
        wait = "until [ -e /v/{0}/file ]; do sleep 0.05; done"
        gives = sh(
            f"{wait.format('host')}; mount -t tmpfs tmpfs /v/own; touch /v/own/file; echo given",
            "gives",
            securityContext={"privileged": True},
            volumeMounts=[mount("v", mountPropagation="Bidirectional")],
        )
        takes = sh(
            f"{wait.format('host')}; {wait.format('own')}; echo taken",
            "takes",
            volumeMounts=[mount("v", mountPropagation="HostToContainer")],
        )
        apart = sh(
            f"{wait.format('done')}; ls /v/own /v/host | tr '\\n' ' '; echo",
            "apart",
            volumeMounts=[mount("v")],
        )
        (path / "done").mkdir()
        node.create(pod("spread", gives, takes, apart, volumes=volumes, restartPolicy="Never"))
        node.await_pod_ready("spread")
        run("mount", "-t", "tmpfs", "tmpfs", str(path / "host"))
        (path / "host/file").touch()
        wait_for("the container's mount is here", (path / "own/file").exists, LONG)
        (path / "done/file").touch()
        node.await_phase("spread", "Succeeded")
        assert node.output("spread", "gives") == "given\n"
        assert node.output("spread", "takes") == "taken\n"
        assert node.output("spread", "apart") == "/v/host:  /v/own: \n"
        end(node, "spread")


def test_the_root_directory_is_a_shared_mount(node):
    """L-2: what a container mounts in a volume of the kubelet's can be seen by others."""
    root = f"{node.kubelet.root_dir}/"
    lines = [line.split() for line in mounts_with(" ")]
    below = [line for line in lines if root.startswith(f"{line[4].rstrip('/')}/")]
    nearest = max(below, key=lambda line: len(line[4]))
    assert any(tag.startswith("shared:") for tag in nearest[6 : nearest.index("-")])


def test_read_only_mounts_and_those_below_them(node, place):
    """A read-only mount leaves what is mounted below it alone, unless it is recursive."""
    with shared_tmpfs(place / "tree") as path:
        (path / "below").mkdir()
        run("mount", "-t", "tmpfs", "tmpfs", str(path / "below"))
        volumes = [volume("v", hostPath={"path": str(path)})]
        chosen = [
            mount("v", "/plain", readOnly=True),
            mount("v", "/deep", readOnly=True, recursiveReadOnly="Enabled"),
            mount("v", "/perhaps", readOnly=True, recursiveReadOnly="IfPossible"),
        ]
        script = """
        for d in plain plain/below deep deep/below perhaps/below; do
          touch /$d/new 2>/dev/null && echo $d can be written || echo $d is read-only
        done
        """
        container = sh(script, volumeMounts=chosen)
        node.create(pod("tree", container, volumes=volumes, restartPolicy="Never"))
        found = node.await_phase("tree", "Succeeded")
        assert node.output("tree").splitlines() == [
            "plain is read-only",
            "plain/below can be written",
            "deep is read-only",
            "deep/below is read-only",
            "perhaps/below is read-only",
        ]
        told = found["status"]["containerStatuses"][0]["volumeMounts"]
        how = {m["mountPath"]: m.get("recursiveReadOnly") for m in told}
        assert how["/plain"] == "Disabled"
        assert how["/deep"] == how["/perhaps"] == "Enabled"
        end(node, "tree")


@pytest.mark.skipif(under_test() != OURS, reason="with the Go kubelet such a pod never goes")
def test_a_mount_that_a_container_leaves_in_its_own_volume(node):
    """What a container mounts in an emptyDir for others is seen, and goes with the pod."""
    gives = sh(
        f"mkdir /v/own; mount -t tmpfs tmpfs /v/own; touch /v/own/file; {SLEEP}",
        "gives",
        securityContext={"privileged": True},
        volumeMounts=[mount("v", mountPropagation="Bidirectional")],
    )
    takes = sh(
        f"until [ -e /v/own/file ]; do sleep 0.05; done; touch /v/taken; {SLEEP}",
        "takes",
        volumeMounts=[mount("v", mountPropagation="HostToContainer")],
    )
    node.create(pod("own", gives, takes, volumes=[volume("v", emptyDir={})]))
    node.await_pod_ready("own")
    path = node.volume_dir("own", "empty-dir", "v")
    wait_for("it is seen", (path / "taken").exists)
    assert mounts_with(f"{path}/own")
    end(node, "own")
