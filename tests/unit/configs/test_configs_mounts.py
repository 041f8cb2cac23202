"""Mounts, and parts of volumes that nobody may lead astray (P-165, P-175, P-185, L-32)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import VolumeRow
from kubelet.pods.runtime import Handler
from procs.syncloop.configs import walk
from procs.syncloop.configs.container import container_config, wanted_subpaths
from procs.syncloop.configs.context import ImageInfo
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.files import termination_log_path
from procs.syncloop.configs.policy import Policy
from procs.syncloop.configs.subpath import SubPath, prepare
from tests.unit.configs.config_pods import IMAGE, context, pod, site

VOLUMES = {"v": VolumeRow("v", host_path="/host/v")}


def mounting(*mounts, container=None, spec=None):
    """Return a pod whose container mounts these."""
    volumes = [{"name": "v", "emptyDir": {}}]
    return pod(
        {"volumes": volumes, **(spec or {})}, {"volumeMounts": list(mounts), **(container or {})}
    )


def mounts_of(found, **changes):
    """Return the mounts of a pod's container, by their place in it."""
    around = context(**{"volumes": VOLUMES, **changes})
    made = container_config(found, found.spec.containers[0], 2, IMAGE, around, site("/r"))
    return {mount.container_path: mount for mount in made.mounts}


def test_own_mounts():
    """P-175, P-185: every container has a hosts file and a file for its last words."""
    found = mounts_of(pod())
    path = termination_log_path("u-1", "main", 2, site("/r"))
    assert found == {
        "/etc/hosts": pb.Mount(
            container_path="/etc/hosts", host_path="/r/kubelet/pods/u-1/etc-hosts"
        ),
        "/dev/termination-log": pb.Mount(container_path="/dev/termination-log", host_path=path),
    }


def test_own_hosts_file():
    """P-175: a container that mounts its own hosts file keeps it; without addresses is none."""
    found = mounting({"name": "v", "mountPath": "/etc/hosts"})
    assert mounts_of(found)["/etc/hosts"].host_path == "/host/v"
    assert "/etc/hosts" not in mounts_of(pod(), pod_ips=())


@pytest.mark.parametrize(
    ("mount", "volume", "expected"),
    [
        ({}, {}, pb.Mount()),
        ({"readOnly": True}, {}, pb.Mount(readonly=True)),
        ({}, {"read_only": True}, pb.Mount(readonly=True)),
        ({}, {"selinux_relabel": True}, pb.Mount(selinux_relabel=True)),
        ({"mountPropagation": "None"}, {}, pb.Mount()),
        (
            {"mountPropagation": "HostToContainer"},
            {},
            pb.Mount(propagation=pb.PROPAGATION_HOST_TO_CONTAINER),
        ),
        (
            {"mountPropagation": "Bidirectional"},
            {},
            pb.Mount(propagation=pb.PROPAGATION_BIDIRECTIONAL),
        ),
        (
            {"readOnly": True, "recursiveReadOnly": "Enabled"},
            {},
            pb.Mount(readonly=True, recursive_read_only=True),
        ),
        (
            {"readOnly": True, "recursiveReadOnly": "IfPossible"},
            {},
            pb.Mount(readonly=True, recursive_read_only=True),
        ),
        ({"readOnly": True, "recursiveReadOnly": "Disabled"}, {}, pb.Mount(readonly=True)),
    ],
)
def test_volume_mount(mount, volume, expected):
    """P-165: what a mount says of itself, and what its volume does."""
    found = mounts_of(
        mounting({"name": "v", "mountPath": "/data", **mount}),
        volumes={"v": VolumeRow("v", host_path="/host/v", **volume)},
        handler=Handler("", recursive_read_only_mounts=True),
        policy=Policy(selinux=True),
    )["/data"]
    expected.container_path, expected.host_path = "/data", "/host/v"
    assert found == expected


def test_relative_place_and_options():
    """A place is made absolute; options go along behind their gate."""
    found = mounting({"name": "v", "mountPath": "data", "bindMountOptions": ["noexec"]})
    assert not mounts_of(found)["/data"].mount_options
    made = mounts_of(found, policy=Policy(bind_mount_options=True))["/data"]
    assert list(made.mount_options) == ["noexec"]


RRO = {"name": "v", "mountPath": "/d", "recursiveReadOnly": "Enabled"}


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({**RRO, "readOnly": True}, "not supported by the runtime"),
        (RRO, "but it is not read-only"),
        (
            {**RRO, "readOnly": True, "mountPropagation": "HostToContainer"},
            'not compatible with propagation "HostToContainer"',
        ),
        ({**RRO, "readOnly": True, "recursiveReadOnly": "Odd"}, '"Odd", which must be'),
        ({"name": "v", "mountPath": "/d", "mountPropagation": "Odd"}, 'mountPropagation "Odd"'),
        ({"name": "w", "mountPath": "/d"}, 'cannot find volume "w" to mount into container "main"'),
        ({"name": "v", "mountPath": "/d", "subPath": "/abs"}, "must be a relative path"),
        ({"name": "v", "mountPath": "/d", "subPath": "a/../../b"}, r"must not contain '\.\.'"),
        ({"name": "v", "mountPath": "/d", "subPathExpr": "$(NO)/$(A)"}, "missing value for NO"),
        ({"name": "v", "mountPath": "/d", "subPathExpr": "$(UP)"}, r"must not contain '\.\.'"),
    ],
)
def test_bad_mounts(mount, message):
    """What cannot be mounted is an error that names it."""
    env = {"env": [{"name": "A", "value": "1"}, {"name": "UP", "value": "../.."}]}
    with pytest.raises(ConfigError, match=message):
        mounts_of(mounting(mount, container=env))


def test_recursive_if_possible():
    """P-165: IfPossible does without where the runtime cannot."""
    mount = {**RRO, "readOnly": True, "recursiveReadOnly": "IfPossible"}
    assert not mounts_of(mounting(mount))["/d"].recursive_read_only


def test_image_volume():
    """P-165: the runtime mounts an image itself, read-only, and its part too."""
    spec = {"volumes": [{"name": "v", "image": {"reference": "data:1"}}]}
    found = mounting({"name": "v", "mountPath": "/d", "subPath": "in"}, spec=spec)
    made = mounts_of(found, images={"v": ImageInfo("sha256:2", "data:1")}, volumes={})["/d"]
    assert made == pb.Mount(
        container_path="/d",
        image=pb.ImageSpec(image="sha256:2", user_specified_image="data:1"),
        image_sub_path="in",
        readonly=True,
    )
    with pytest.raises(ConfigError, match='cannot find image of volume "v"'):
        mounts_of(found, volumes={})


def test_devices():
    """A raw block volume is a device, which a read-only one may only be read of."""
    found = pod(
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]},
    )
    for read_only, permissions in ((False, "mrw"), (True, "r")):
        volumes = {"v": VolumeRow("v", host_path="/dev/loop9", read_only=read_only)}
        around = context(volumes=volumes)
        made = container_config(found, found.spec.containers[0], 0, IMAGE, around, site())
        assert list(made.devices) == [
            pb.Device(container_path="/dev/x", host_path="/dev/loop9", permissions=permissions)
        ]


def test_prepared_parts():
    """L-32: parts are named for whoever prepares them, expanded, and then used as prepared."""
    env = {"env": [{"name": "A", "value": "one"}]}
    found = mounting(
        {"name": "v", "mountPath": "/whole"},
        {"name": "v", "mountPath": "/part", "subPathExpr": "logs/$(A)"},
        container=env,
    )
    around = context(volumes=VOLUMES)
    (part,) = wanted_subpaths(found, found.spec.containers[0], around, site("/r"))
    assert part == SubPath("/r/kubelet/pods/u-1", "main", 1, "v", "/host/v", "logs/one")
    assert part.target == "/r/kubelet/pods/u-1/volume-subpaths/v/main/1"
    made = mounts_of(found, subpaths={1: part.target})
    assert (made["/whole"].host_path, made["/part"].host_path) == ("/host/v", part.target)
    assert wanted_subpaths(pod(), pod().spec.containers[0], around, site("/r")) == ()


# --- walking -----------------------------------------------------------------------------------


@pytest.fixture
def volume(tmp_path):
    """A volume with a directory, a file, and a secret beside it."""
    made = tmp_path / "volume"
    (made / "a" / "b").mkdir(parents=True)
    (made / "a" / "file").write_text("inside")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("outside")
    return made


def reached(root, path, create=None):
    """Return the real path that a walk leads to."""
    with walk.opened(str(root), path, create) as fd:
        return os.readlink(f"/proc/self/fd/{fd}")


@pytest.mark.parametrize(
    ("link", "target", "path", "expected"),
    [
        (None, None, "a/b", "a/b"),
        (None, None, "./a//b/.", "a/b"),
        (None, None, "a/file", "a/file"),
        ("up", "a/b/../file", "up", "a/file"),
        ("a/b/back", "../../a", "a/b/back/file", "a/file"),
        ("one", "a", "one/b", "a/b"),
        ("whole", ".", "whole/a", "a"),
    ],
)
def test_walk(volume, link, target, path, expected):
    """Links that stay in the volume are followed, as volumes of secrets need it."""
    if link:
        (volume / link).symlink_to(target)
    assert reached(volume, path) == str(volume / expected)


def test_absolute_link_into_the_volume(volume):
    """A link that names a place in the volume in full leads there."""
    (volume / "a" / "now").symlink_to(volume / "a" / "b")
    assert reached(volume, "a/now") == str(volume / "a" / "b")


@pytest.mark.parametrize(
    "target",
    ["/etc", "/", "../secret", "a/../../secret", "../volume/a", "{}/../secret", "/proc/self/root"],
)
def test_links_out_are_refused(volume, target):
    """L-32: a link that leads out of the volume is refused, however it is written."""
    (volume / "evil").symlink_to(target.format(volume))
    for path in ("evil", "evil/key", "a/../evil"):
        with pytest.raises(OSError, match=r"leads out of the volume|must not contain"):
            reached(volume, path, 0o755)


def test_a_volume_beside_with_the_same_beginning(volume, tmp_path):
    """A path that begins like the volume's is not inside it for that."""
    (tmp_path / "volume-2").mkdir()
    (volume / "evil").symlink_to(tmp_path / "volume-2")
    with pytest.raises(walk.EscapeError):
        reached(volume, "evil")


def test_endless_links(volume):
    """Links in a circle end in an error."""
    (volume / "x").symlink_to("y")
    (volume / "y").symlink_to("x")
    with pytest.raises(OSError, match="symbolic links"):
        reached(volume, "x")


def test_missing_parts_are_made(volume):
    """L-32: missing components become directories with the volume's mode, whatever our umask."""
    before = os.umask(0o077)
    try:
        assert reached(volume, "new/deep", 0o2775) == str(volume / "new" / "deep")
    finally:
        os.umask(before)
    for made in (volume / "new", volume / "new" / "deep"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o2775
    with pytest.raises(FileNotFoundError):
        reached(volume, "other")


def test_nothing_is_made_outside(volume, tmp_path):
    """L-32: a link out of the volume is no way to make directories elsewhere."""
    (volume / "evil").symlink_to(tmp_path / "secret")
    with pytest.raises(walk.EscapeError):
        reached(volume, "evil/made", 0o755)
    assert not (tmp_path / "secret" / "made").exists()


def test_no_descriptor_is_left(volume):
    """A walk closes all that it opened, whether it arrives or not."""
    before = len(os.listdir("/proc/self/fd"))
    (volume / "evil").symlink_to("/etc")
    reached(volume, "a/b")
    with pytest.raises(OSError, match="leads out"):
        reached(volume, "evil")
    assert len(os.listdir("/proc/self/fd")) == before


def part_of(volume, tmp_path, path):
    """Return a part of the volume."""
    return SubPath(str(tmp_path / "pod"), "main", 0, "v", str(volume), path)


def test_prepare_refuses(volume, tmp_path):
    """L-32: the message names the part, the volume, the container, and why."""
    (volume / "evil").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="leads out of the volume") as caught:
        prepare(part_of(volume, tmp_path, "evil"))
    assert 'subPath "evil" of volume "v" for volumeMount 0 of container "main"' in str(caught.value)
    assert not (tmp_path / "pod").exists()


_BIND = """
import os, sys
from procs.syncloop.configs.subpath import SubPath, prepare
volume, pod = sys.argv[1:]
def part(path, index): return SubPath(pod, "main", index, "v", volume, path)
place = prepare(part("a/file", 0))
assert open(place).read() == "inside"
assert prepare(part("a/file", 0)) == place, "again changes nothing"
directory = prepare(part("a/new", 1))
os.symlink("/etc", volume + "/later")
os.rename(volume + "/a", volume + "/moved"); os.rename(volume + "/later", volume + "/a")
assert os.listdir(directory) == [], "what was bound stays bound"
os.unlink(volume + "/a"); os.mkdir(volume + "/a"); open(volume + "/a/file", "w").write("other")
assert open(prepare(part("a/file", 0))).read() == "other", "what was made anew is bound anew"
assert os.path.isdir(prepare(part("a", 0))), "a directory in place of a file"
assert open("/proc/self/mounts").read().count(pod) == 2
"""


def test_prepare_binds(volume, tmp_path):
    """L-32: what was found is bound, and no later link changes what a container gets."""
    command = [
        "unshare",
        "--mount",
        sys.executable,
        "-c",
        _BIND,
        str(volume),
        str(tmp_path / "pod"),
    ]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a mount namespace of its own cannot be made here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
