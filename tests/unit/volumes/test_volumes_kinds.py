"""From a pod's document to what is to be mounted, by the facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from procs.volumes.downward import as_lines, quoted
from procs.volumes.kinds import nested_mounts, wants
from procs.volumes.main import knows_noswap
from procs.volumes.sizes import memory_limit
from procs.volumes.wants import EmptyDirWant, FilesWant, HostPathWant, Refused, may_block
from tests.unit.volumes.standing import GIB, SETTINGS, pod

MEMORY = {"name": "m", "emptyDir": {"medium": "Memory"}}
LIMITED = {"name": "c", "resources": {"limits": {"memory": "1Gi"}}}


def one(volume, settings=SETTINGS, **more):
    """What a pod with one volume wants."""
    (want,) = wants(pod(volume, **more), settings)
    return want


def test_an_empty_dir_is_a_directory_that_blocks_nobody():
    """L-30: 0777, on disk, with nothing to mount."""
    want = one({"name": "data", "emptyDir": {}})
    assert want == EmptyDirWant("data")
    assert want.mode == 0o777
    assert not may_block(want)


@pytest.mark.parametrize(
    ("source", "spec", "options"),
    [
        ({}, {}, f"size={8 * GIB}"),
        ({"sizeLimit": "64Mi"}, {}, f"size={64 << 20}"),
        ({"sizeLimit": "64Gi"}, {}, f"size={8 * GIB}"),
        ({}, {"containers": [LIMITED]}, f"size={GIB}"),
        ({"sizeLimit": "2Gi"}, {"containers": [LIMITED]}, f"size={GIB}"),
        ({}, {"containers": [LIMITED, {"name": "free"}]}, f"size={8 * GIB}"),
        ({}, {"resources": {"limits": {"memory": "3Gi"}}}, f"size={3 * GIB}"),
    ],
)
def test_memory_is_as_large_as_the_least_of_three(source, spec, options):
    """L-30: size = min(pod memory limit, allocatable, sizeLimit)."""
    want = one({"name": "m", "emptyDir": {"medium": "Memory", **source}}, **spec)
    assert want == EmptyDirWant("m", fs_type="tmpfs", options=(options,))
    assert may_block(want)


def test_memory_stays_out_of_swap_where_the_kernel_can():
    """L-30: noswap if supported, which is since Linux 6.4."""
    want = one(MEMORY, replace(SETTINGS, noswap=True))
    assert want.options[-1] == "noswap"
    assert [knows_noswap(r) for r in ("5.15.0", "6.3.9", "6.4.0-x", "7.0", "odd")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def huge(*sizes):
    """Containers that request huge pages of these sizes."""
    return [
        {"name": f"c{i}", "resources": {"requests": {f"hugepages-{size}": "4Mi"}}}
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("medium", "requested", "expected"),
    [
        ("HugePages", ["2Mi"], "pagesize=2M"),
        ("HugePages-2Mi", ["2Mi", "1Gi"], "pagesize=2M"),
        ("HugePages-1Gi", ["2Mi", "1Gi"], "pagesize=1G"),
        ("HugePages", [], 'volume "h": medium HugePages: no container requests huge pages'),
        (
            "HugePages",
            ["2Mi", "1Gi"],
            'volume "h": medium HugePages: containers request several page sizes: 1Gi, 2Mi',
        ),
        (
            "HugePages-1Gi",
            ["2Mi"],
            'volume "h": medium HugePages-1Gi: no container requests hugepages-1Gi',
        ),
        (
            "Disk",
            [],
            "volume \"h\": medium 'Disk' is not one of '', Memory, HugePages-<size>",
        ),
    ],
)
def test_huge_pages_are_of_the_size_that_the_pod_requests(medium, requested, expected):
    """L-30: hugetlbfs with pagesize=, and a sentence where the size cannot be told."""
    want = one({"name": "h", "emptyDir": {"medium": medium}}, containers=huge(*requested))
    if isinstance(want, Refused):
        assert want.reason == expected
    else:
        assert (want.fs_type, want.options) == ("hugetlbfs", (expected,))


def test_an_empty_dirs_own_mode_counts_only_behind_its_gate():
    """EmptyDirVolumeMode is alpha and off."""
    volume = {"name": "m", "emptyDir": {"medium": "Memory", "mode": 0o700}}
    assert one(volume).mode == 0o777
    want = one(volume, replace(SETTINGS, modes=True))
    assert (want.mode, want.options[-1]) == (0o700, "mode=700")


def test_a_host_path_must_not_step_back():
    """L-31; a path with '..' could be another one when it is used."""
    assert one({"name": "h", "hostPath": {"path": "/a/b"}}) == HostPathWant("h", "/a/b")
    refused = one({"name": "h", "hostPath": {"path": "/a/../b"}})
    assert refused.reason == "volume \"h\": invalid HostPath `/a/../b`: must not contain '..'"


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        (
            {"iscsi": {"targetPortal": "t"}},
            "iscsi volumes are not supported: a CSI driver for iSCSI can mount them",
        ),
        (
            {"fc": {"lun": 0}},
            "fc volumes are not supported: a CSI driver for Fibre Channel can mount them",
        ),
        (
            {"rbd": {"image": "i"}},
            "rbd volumes are not supported: a CSI driver is needed in their place",
        ),
        ({"csi": {"driver": "d"}}, "csi volumes need an API server"),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            "persistentVolumeClaim volumes need an API server",
        ),
        ({"gitRepo": {"repository": "r"}}, "gitRepo volumes are no longer supported"),
        ({}, "no kind of volume is given"),
    ],
)
def test_a_kind_that_is_not_supported_is_refused_in_words(volume, reason):
    """The sentence names the volume and its kind."""
    want = one({"name": "x", **volume})
    assert want.reason == f'volume "x": {reason}'


def test_a_static_pod_has_nothing_of_the_cluster():
    """The node has an API server, but the pod is not from there."""
    want = one({"name": "x", "csi": {"driver": "d"}}, replace(SETTINGS, api_server=True))
    assert want.reason == 'volume "x": csi volumes need a pod from the API server'


@pytest.mark.parametrize("path", ["/a\0b", "/a\ud800"])
def test_what_is_no_path_is_refused(path):
    """JSON can hold texts that no file can be called."""
    assert isinstance(one({"name": "h", "hostPath": {"path": path}}), Refused)
    mounts = ({"name": "d", "mountPath": "/i"}, {"name": "e", "mountPath": f"/i{path}"})
    assert isinstance(one(downward(field("metadata.name")), mounts=mounts), Refused)


def test_a_name_that_could_lead_elsewhere_is_refused():
    """A volume's name becomes a directory's."""
    assert isinstance(one({"name": "../x", "emptyDir": {}}), Refused)


def downward(*items, **more):
    """A downwardAPI volume."""
    return {"name": "d", "downwardAPI": {"items": list(items), **more}}


def field(path, **more):
    """A file with a field of the pod."""
    return {"path": path.split(".")[-1][:8], "fieldRef": {"fieldPath": path}, **more}


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("metadata.name", b"p"),
        ("metadata.namespace", b"ns"),
        ("metadata.labels", b'a="1"\nb="x\\ny"'),
        ("metadata.labels['a']", b"1"),
        ("metadata.labels['none']", b""),
        ("metadata.annotations", b""),
    ],
)
def test_fields_of_the_downward_api(path, data):
    """P-173, L-29: maps as sorted lines of key="value"; what is missing is empty."""
    want = one(downward(field(path)), labels={"b": "x\ny", "a": "1"})
    assert isinstance(want, FilesWant)
    assert (want.files[0].data, want.files[0].mode) == (data, 0o644)


def test_a_field_that_a_volume_cannot_have_is_refused():
    """Only what stays true for the pod's life, or is written anew, is offered to volumes."""
    want = one(downward(field("status.podIP")))
    assert want.reason == 'volume "d": unsupported fieldPath: status.podIP'


def test_quoting_is_as_containers_parse_it():
    """Everything that does not print is escaped; letters of any script are not."""
    assert quoted('a"\\\t\x00\x7f é\u200b\U000e0001') == (
        '"a\\"\\\\\\t\\x00\\x7f é\\u200b\\U000e0001"'
    )
    assert as_lines({}) == ""


RESOURCES = {
    "limits": {"cpu": "1500m", "hugepages-2Mi": "4Mi"},
    "requests": {"cpu": "250m", "memory": "100M", "hugepages-2Mi": "4Mi"},
}


@pytest.mark.parametrize(
    ("resource", "divisor", "data"),
    [
        ("limits.cpu", "", b"2"),
        ("limits.cpu", "1m", b"1500"),
        ("requests.cpu", "", b"1"),
        ("requests.memory", "1Mi", b"96"),
        ("requests.memory", "0", b"100000000"),
        ("limits.memory", "1Gi", b"8"),
        ("limits.ephemeral-storage", "1Gi", b"100"),
        ("requests.ephemeral-storage", "", b"0"),
        ("limits.hugepages-2Mi", "1Mi", b"4"),
    ],
)
def test_resources_of_the_downward_api(resource, divisor, data):
    """P-173: rounded up to the divisor; a missing limit is what the node has for pods."""
    item = {"path": "r", "resourceFieldRef": {"containerName": "c", "resource": resource}}
    item["resourceFieldRef"]["divisor"] = divisor
    want = one(downward(item), containers=[{"name": "c", "resources": RESOURCES}])
    assert want.files[0].data == data


@pytest.mark.parametrize(
    ("container", "resource", "reason"),
    [
        ("other", "limits.cpu", "container other not found"),
        ("c", "limits.gpu", "unsupported container resource : limits.gpu"),
    ],
)
def test_resources_that_cannot_be_told_are_refused(container, resource, reason):
    """The sentence names what is wrong."""
    item = {"path": "r", "resourceFieldRef": {"containerName": container, "resource": resource}}
    assert one(downward(item)).reason == f'volume "d": {reason}'


def test_modes_of_files():
    """L-22: item mode > defaultMode > 0644; with fsGroup, the group can read."""
    items = (field("metadata.name", mode=0o400), field("metadata.uid"))
    want = one(downward(*items, defaultMode=0o600))
    assert [file.mode for file in want.files] == [0o400, 0o600]
    shared = one(downward(*items, defaultMode=0o600), fs_group=7)
    assert [file.mode for file in shared.files] == [0o440, 0o640]


def test_the_files_lie_in_memory():
    """L-20: downwardAPI uses a tmpfs."""
    want = one(downward(field("metadata.name")))
    assert (want.base.fs_type, want.base.wrapped) == ("tmpfs", True)
    assert want.base.plugin == "kubernetes.io/downward-api"


def test_mounts_inside_a_volume_need_their_directories():
    """The volume is read-only for the runtime too, so the kubelet makes them."""
    mounts = (
        {"name": "d", "mountPath": "/etc/info"},
        {"name": "e", "mountPath": "/etc/info/more/deep/"},
        {"name": "e", "mountPath": "/etc/information"},
    )
    assert nested_mounts(pod(mounts=mounts), "d") == ("more/deep",)
    mounts = (*mounts, {"name": "e", "mountPath": "/etc/info/..x"})
    want = one(downward(field("metadata.name")), mounts=mounts)
    assert isinstance(want, Refused)


def test_the_memory_limit_of_a_pod_needs_one_for_each_container():
    """P-194: the larger of init and regular containers, sidecars in both."""
    init = [
        {"name": "i", "resources": {"limits": {"memory": "3Gi"}}},
        {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"memory": "1Gi"}}},
    ]
    assert memory_limit(pod(containers=[LIMITED], initContainers=init)) == 3 * GIB
    assert memory_limit(pod(containers=[LIMITED], initContainers=init[1:])) == 2 * GIB
    assert memory_limit(pod(containers=[LIMITED], initContainers=[{"name": "x"}])) is None
    assert memory_limit(pod(containers=[])) is None  # odd, but no reason to die
