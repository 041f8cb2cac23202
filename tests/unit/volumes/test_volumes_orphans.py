"""Pod directories that nobody knows, on a real disk with real mounts (L-18)."""

from __future__ import annotations

import json
import os
from hashlib import sha256

import pytest

from procs.volumes import mounts, orphans
from procs.volumes.layout import CONFIG_MAP, CSI, EMPTY_DIR, LOCAL, NFS, Layout
from procs.volumes.orphans import Cause, Known, Mount
from tests.unit.volumes.standing import UID, needs_mounts, touch, unmount_below

DRIVER = "disk.example.org"
HANDLE = "vol-1"
HASH = sha256(HANDLE.encode()).hexdigest()
NOBODY = Known({})


@pytest.fixture
def disk(tmp_path):
    """The kubelet's root directory."""
    layout = Layout(str(tmp_path / "kubelet"))
    os.makedirs(layout.pods)
    yield layout
    unmount_below(tmp_path)


def made(path, *files):
    """Make a directory with files in it."""
    os.makedirs(path, exist_ok=True)
    for name in files:
        touch(f"{path}/{name}")
    return path


def noted(place):
    """Write the kubelet's note of a CSI volume."""
    os.makedirs(place, exist_ok=True)
    with open(f"{place}/vol_data.json", "w", encoding="ascii") as file:
        json.dump({"driverName": DRIVER, "volumeHandle": HANDLE}, file)


def only(found):
    """The one pod directory that was found, with its reasons by cause."""
    (one,) = found.pods
    return one, {reason.cause: reason.text for reason in one.reasons}


def test_directories_of_pods_that_are_known_are_not_listed(disk):
    """What table pods has a row for is nobody's orphan; nor is a file among the directories."""
    made(disk.pod(UID))
    touch(f"{disk.pods}/file")
    assert orphans.look(disk.root, Known({UID: "ns/p"})) == orphans.Found((), ())


def test_a_root_directory_that_is_not_there_has_no_orphans(tmp_path):
    """Before the kubelet has ever run there is nothing."""
    assert orphans.look(str(tmp_path / "none"), NOBODY) == orphans.Found((), ())


def test_what_only_the_kubelet_wrote_is_removed_at_the_next_look(disk):
    """EmptyDirs and files of the kubelet go with all that is in them: nothing is in the way."""
    made(disk.volume(UID, EMPTY_DIR, "tmp"), "data")
    made(disk.volume(UID, CONFIG_MAP, "config"), "key")
    one, reasons = only(orphans.look(disk.root, NOBODY))
    assert (one.uid, one.path, one.adopted) == (UID, disk.pod(UID), False)
    assert list(reasons) == [Cause.NEXT]


def test_a_pod_may_come_yet_while_a_source_has_not_given_its_pods(disk):
    """Until then nothing is concluded from a pod's absence, and nothing is removed."""
    made(disk.pod(UID))
    _, reasons = only(orphans.look(disk.root, Known({}, undelivered=("api",))))
    assert reasons == {Cause.SOURCE: "its pod may come yet: api has not given its pods"}


def test_a_directory_that_is_being_removed_says_so_and_what_went_wrong(disk):
    """Syncloop has a row for it, and the row about its volumes has the last error."""
    made(disk.pod(UID))
    adopted = Known({UID: "ns/p"}, adopted={UID})
    one, reasons = only(orphans.look(disk.root, adopted))
    assert (one.pod, one.adopted, list(reasons)) == ("ns/p", True, [Cause.ENDING])
    failed = Known({UID: "ns/p"}, adopted={UID}, errors={UID: ("umount: target is busy",)})
    _, reasons = only(orphans.look(disk.root, failed))
    assert reasons == {Cause.ERROR: "umount: target is busy"}


@pytest.mark.parametrize("plugin", [NFS, LOCAL])
def test_data_that_nobody_mounted_is_not_the_kubelets_to_remove(disk, plugin):
    """A volume that outlives pods, with files in the directory below its mount: they are kept."""
    path = made(disk.volume(UID, plugin, "data"), "precious", "more")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert list(reasons) == [Cause.DATA]
    assert reasons[Cause.DATA].startswith(f"{path} is not mounted and holds 2 entries, ")


def test_data_where_a_csi_volume_should_be_mounted_is_told(disk):
    """Its mount is one level lower; the kubelet's own note beside it is not data."""
    place = disk.volume(UID, CSI, "pv-1")
    noted(place)
    os.makedirs(f"{place}/mount")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert list(reasons) == [Cause.NEXT]
    touch(f"{place}/mount/precious")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert reasons[Cause.DATA].startswith(f"{place}/mount is not mounted and holds 1 entry, ")


def test_more_data_than_anybody_wants_to_count_is_not_counted(disk):
    """The look is bounded, however much lies there."""
    path = made(disk.volume(UID, NFS, "data"))
    for number in range(1001):
        os.mkdir(f"{path}/{number}")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert "more than 1000 entries" in reasons[Cause.DATA]


def test_a_volume_of_a_plugin_that_is_not_supported_is_named(disk):
    """Another kubelet may have left it, of a kind that cannot be taken down here."""
    made(f"{disk.volumes(UID)}/kubernetes.io~iscsi/lun")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert "kubernetes.io/iscsi, which is not supported" in reasons[Cause.UNSUPPORTED]


def test_what_is_left_of_a_subpath_is_told_only_if_it_is_not_empty(disk):
    """Empty directories are pruned without a word; a file somewhere in it belongs to somebody."""
    path = made(f"{disk.subpaths(UID)}/data/main/0")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert list(reasons) == [Cause.NEXT]
    touch(f"{path}/precious")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert reasons[Cause.DATA].startswith(f"{path} is not mounted and holds 1 entry, ")


def test_no_link_is_followed(disk, tmp_path):
    """A link in place of a volume, of its mount or of a device leads nowhere."""
    far = made(tmp_path / "far", "precious")
    made(f"{disk.volumes(UID)}/kubernetes.io~nfs")
    os.symlink(far, disk.volume(UID, NFS, "link"))
    noted(disk.volume(UID, CSI, "pv"))
    os.symlink(far, f"{disk.volume(UID, CSI, 'pv')}/mount")
    made(f"{disk.devices(UID)}/kubernetes.io~csi")
    os.symlink(far, disk.device(UID, CSI, "pv"))
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert list(reasons) == [Cause.NEXT]


@needs_mounts
def test_what_is_mounted_below_is_named_and_not_entered(disk):
    """Every mount is listed with its type; what is in it is no data of this disk."""
    path = made(disk.volume(UID, NFS, "data"))
    mounts.mount("server", path, "tmpfs", [])
    touch(f"{path}/file")
    one, reasons = only(orphans.look(disk.root, NOBODY))
    assert one.mounts == (Mount(path, "tmpfs", "server"),)
    assert reasons == {Cause.MOUNTED: f"tmpfs server is mounted at {path}"}


@needs_mounts
def test_a_pod_directory_that_is_itself_a_mount_is_not_entered(disk):
    """What looks like volumes inside of it is not on this disk."""
    mounts.mount("server", made(disk.pod(UID)), "tmpfs", [])
    made(disk.volume(UID, NFS, "data"), "file")
    _, reasons = only(orphans.look(disk.root, NOBODY))
    assert list(reasons) == [Cause.MOUNTED]


@needs_mounts
def test_pods_on_a_disk_of_their_own_are_found(disk):
    """The directory of all pods may be a mount: it is the kubelet's own."""
    mounts.mount("disk", disk.pods, "tmpfs", [])
    made(disk.pod(UID))
    one, _ = only(orphans.look(disk.root, NOBODY))
    assert one.mounts == ()


def test_a_staged_device_that_no_pod_uses_is_listed(disk):
    """Whether one is used follows from the notes in the directories of pods, known or not."""
    place = f"{disk.shared(CSI)}/{DRIVER}/{HASH}"
    os.makedirs(f"{place}/globalmount")
    noted(place)
    (one,) = orphans.look(disk.root, NOBODY).staged
    assert (one.driver, one.handle, one.mounted) == (DRIVER, HANDLE, False)
    assert one.path == f"{place}/globalmount"
    noted(disk.volume(UID, CSI, "pv-1"))
    assert orphans.look(disk.root, Known({UID: "ns/p"})).staged == ()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"volumeHandle": 7}'])
def test_a_note_that_makes_no_sense_hides_no_staged_device(disk, content):
    """Its handle is not known then, but that it is there is."""
    place = f"{disk.shared(CSI)}/{DRIVER}/{HASH}"
    os.makedirs(f"{place}/globalmount")
    with open(f"{place}/vol_data.json", "w", encoding="ascii") as file:
        file.write(content)
    (one,) = orphans.look(disk.root, NOBODY).staged
    assert one.handle == ""


def test_other_directories_of_the_csi_plugin_are_no_staged_devices(disk):
    """Block volumes have places of their own there."""
    os.makedirs(f"{disk.shared(CSI)}/volumeDevices/pv-1/dev")
    os.makedirs(f"{disk.shared(CSI)}/{DRIVER}/{'0' * 64}")
    assert orphans.look(disk.root, NOBODY).staged == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "36 35 98:0 /m /a\\040b rw,noatime master:1 - ext3 /dev/root rw",
            [Mount("/a b", "ext3", "/dev/root")],
        ),
        ("36 35 0:5 / /n rw - nfs4 srv:/x\\134y rw", [Mount("/n", "nfs4", "srv:/x\\y")]),
        ("nonsense", []),
        ("", []),
    ],
)
def test_the_kernels_list_of_mounts_is_read(line, expected):
    """Optional fields before the hyphen, escapes in paths and sources."""
    assert orphans.read_mounts(line) == expected
