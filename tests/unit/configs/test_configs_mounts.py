"""Mounts, devices, and parts of volumes that are there already (P-165, P-175, P-185, L-32)."""

from __future__ import annotations

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import VolumeRow
from kubelet.pods.runtime import Handler
from procs.syncloop.configs.container import container_config, wanted_subpaths
from procs.syncloop.configs.context import ImageInfo
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.files import termination_log_path
from procs.syncloop.configs.mounts import SubPath
from procs.syncloop.configs.policy import Policy
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
        ({"name": "v", "mountPath": "/d", "subPath": "a"}, "has not been prepared"),
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


IMAGES = {"volumes": [{"name": "v", "image": {"reference": "data:1"}}]}


def test_image_volume():
    """P-165: the runtime mounts an image itself, read-only, and its part too."""
    found = mounting({"name": "v", "mountPath": "/d", "subPath": "in"}, spec=IMAGES)
    made = mounts_of(found, images={"v": ImageInfo("sha256:2", "data:1")}, volumes={})["/d"]
    assert made == pb.Mount(
        container_path="/d",
        image=pb.ImageSpec(image="sha256:2", user_specified_image="data:1"),
        image_sub_path="in",
        readonly=True,
    )
    with pytest.raises(ConfigError, match='cannot find image of volume "v"'):
        mounts_of(found, volumes={})


def test_an_image_volume_is_asked_for_as_the_pod_s_own_images_are():
    """P-165: the runtime learns the handler and the pod's annotations; a part may be a variable."""
    mount = {"name": "v", "mountPath": "/d", "subPathExpr": "of/$(A)"}
    found = pod(
        IMAGES,
        {"volumeMounts": [mount], "env": [{"name": "A", "value": "one"}]},
        {"annotations": {"a": "b"}},
    )
    images = {"v": ImageInfo("sha256:2", "data:1")}
    made = mounts_of(found, images=images, volumes={}, handler=Handler("kata"))["/d"]
    assert (made.image.runtime_handler, dict(made.image.annotations)) == ("kata", {"a": "b"})
    assert made.image_sub_path == "of/one"
    around = context(images=images)
    assert wanted_subpaths(found, found.spec.containers[0], around, site("/r")) == ()


DEVICES = pod(
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]},
)


def devices_of(volume):
    """Return the devices of a container with a block volume."""
    around = context(volumes={"v": volume})
    container = DEVICES.spec.containers[0]
    return list(container_config(DEVICES, container, 0, IMAGE, around, site()).devices)


def test_devices():
    """A raw block volume is a device, which a read-only one may only be read of."""
    for read_only, permissions in ((False, "mrw"), (True, "r")):
        volume = VolumeRow("v", host_path="/dev/loop9", read_only=read_only, block=True)
        assert devices_of(volume) == [
            pb.Device(container_path="/dev/x", host_path="/dev/loop9", permissions=permissions)
        ]


def test_a_volume_is_a_device_or_it_is_not():
    """A file system is not for volumeDevices, and a device not for volumeMounts."""
    with pytest.raises(ConfigError, match="is not a block device"):
        devices_of(VolumeRow("v", host_path="/host/v"))
    block = {"v": VolumeRow("v", host_path="/dev/loop9", block=True)}
    with pytest.raises(ConfigError, match="is a block device, which is for volumeDevices"):
        mounts_of(mounting({"name": "v", "mountPath": "/d"}), volumes=block)


def test_prepared_parts():
    """L-32: parts are named for whoever prepares them, expanded, and then used as prepared."""
    env = {"env": [{"name": "A", "value": "one"}]}
    found = mounting(
        {"name": "v", "mountPath": "/whole"},
        {"name": "v", "mountPath": "/part", "subPathExpr": "logs/$(A)"},
        container=env,
    )
    around = context(volumes=VOLUMES)
    container = found.spec.containers[0]
    assert wanted_subpaths(found, container, around, site("/r")) == (
        SubPath("main", 1, "v", "logs/one"),
    )
    made = mounts_of(found, subpaths={1: "/prepared"})
    assert (made["/whole"].host_path, made["/part"].host_path) == ("/host/v", "/prepared")
    assert wanted_subpaths(pod(), pod().spec.containers[0], around, site("/r")) == ()


def test_a_read_only_part():
    """P-165: what a mount says holds for its part as for the whole."""
    mount = {"name": "v", "mountPath": "/d", "subPath": "a", "readOnly": True}
    made = mounts_of(
        mounting({**mount, "recursiveReadOnly": "Enabled"}),
        subpaths={0: "/prepared"},
        handler=Handler("", recursive_read_only_mounts=True),
    )["/d"]
    assert (made.host_path, made.readonly, made.recursive_read_only) == ("/prepared", True, True)
