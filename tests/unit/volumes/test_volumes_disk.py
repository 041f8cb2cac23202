"""Volumes on a real disk: set up, killed in the middle, taken down, and nothing else touched."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from procs.volumes import atomic, mounts, ownership, setup, teardown
from procs.volumes.errors import VolumeError
from procs.volumes.kinds import wants
from procs.volumes.layout import DOWNWARD_API, EMPTY_DIR
from procs.volumes.removal import remove_tree
from procs.volumes.wants import EmptyDirWant, File, FilesWant, HostPathWant
from tests.unit.volumes.standing import SETTINGS, UID, needs_mounts, pod, touch

DATA = EmptyDirWant("data")
MEMORY = EmptyDirWant("mem", fs_type="tmpfs", options=("size=1048576",))


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


# emptyDir


def test_an_empty_dir_is_where_and_as_the_kubelet_has_it(layout):
    """L-2, L-30, P-55: 0777 whatever the umask, below 0750, with its marker beside."""
    before = os.umask(0o077)
    try:
        done = setup.set_up(DATA, UID, layout)
    finally:
        os.umask(before)
    assert done.path == f"{layout.root}/pods/{UID}/volumes/kubernetes.io~empty-dir/data"
    assert done.changed
    assert mode(done.path) == 0o777
    assert mode(layout.pod(UID)) & ~0o750 == 0
    marker = f"{layout.root}/pods/{UID}/plugins/kubernetes.io~empty-dir/data/ready"
    assert os.path.isfile(marker)


def test_what_the_pod_made_of_it_is_left_to_the_pod(layout):
    """Once it is ready, neither content nor mode is touched again."""
    path = setup.set_up(DATA, UID, layout).path
    os.chmod(path, 0o700)
    assert not setup.set_up(DATA, UID, layout).changed
    assert mode(path) == 0o700


def test_killed_before_the_marker_it_is_done_again(layout):
    """The directory alone does not count: its mode may not be set yet."""
    path = layout.volume(UID, EMPTY_DIR, "data")
    setup.make_above(path, layout.pod(UID))
    os.mkdir(path, 0o700)
    assert setup.set_up(DATA, UID, layout).changed
    assert mode(path) == 0o777


def test_a_marker_without_its_directory_counts_for_nothing(layout):
    """Somebody has removed the volume: the pod gets a new one."""
    os.rmdir(setup.set_up(DATA, UID, layout).path)
    assert setup.set_up(DATA, UID, layout).changed
    assert setup.in_place(DATA, UID, layout)


def test_what_is_in_the_way_is_named(layout):
    """A file where the directory should be ends in a sentence, not in its loss."""
    path = layout.volume(UID, EMPTY_DIR, "data")
    setup.make_above(path, layout.pod(UID))
    touch(path)
    with pytest.raises(VolumeError, match=r"is in the way: it is not a directory"):
        setup.set_up(DATA, UID, layout)
    assert os.path.isfile(path)


@needs_mounts
def test_memory_is_mounted_once_and_goes_with_all_in_it(layout):
    """L-30: a tmpfs of its size; a second set-up finds it, the teardown leaves nothing."""
    path = setup.set_up(MEMORY, UID, layout).path
    assert mounts.is_point(path)
    assert os.statvfs(path).f_blocks * os.statvfs(path).f_frsize == 1 << 20
    touch(f"{path}/x")
    assert not setup.set_up(MEMORY, UID, layout).changed
    assert os.path.exists(f"{path}/x")
    assert teardown.take_down(UID, layout) == ["mem"]
    assert mounts.below(layout.root, mounts.points()) == []
    assert teardown.is_clean(UID, layout)


@needs_mounts
def test_a_marker_from_before_a_reboot_does_not_stand_for_a_mount(layout):
    """The disk survives a reboot, a tmpfs does not."""
    path = setup.set_up(MEMORY, UID, layout).path
    mounts.unmount(path)
    assert setup.set_up(MEMORY, UID, layout).changed
    assert mounts.is_point(path)


@needs_mounts
def test_killed_between_mount_and_marker_it_is_not_mounted_twice(layout):
    """A mount is one step of the kernel: the successor finds it and goes on from there."""
    path = layout.volume(UID, EMPTY_DIR, "mem")
    setup.make_above(path, layout.pod(UID))
    os.mkdir(path)
    mounts.mount("tmpfs", path, "tmpfs", MEMORY.options)
    assert setup.set_up(MEMORY, UID, layout).changed
    assert mounts.points().count(path) == 1


@needs_mounts
def test_a_mount_that_the_kernel_refuses_is_a_sentence(layout):
    """The kernel's word is in it, and the path."""
    bad = EmptyDirWant("mem", fs_type="tmpfs", options=("size=nonsense",))
    with pytest.raises(VolumeError, match=r'volume "mem": .*/mem: Invalid argument'):
        setup.set_up(bad, UID, layout)


@needs_mounts
def test_an_option_that_the_kernel_does_not_take_is_left_out(layout, monkeypatch):
    """Noswap is refused by some kernels that know it."""
    real, tried = mounts.mount, []

    def refusing(source, target, fs_type, options):
        tried.append(list(options))
        if "noswap" in options:
            raise OSError(22, "Invalid argument", target)
        real(source, target, fs_type, options)

    monkeypatch.setattr(mounts, "mount", refusing)
    want = EmptyDirWant("mem", fs_type="tmpfs", options=("size=1048576", "noswap"))
    assert setup.set_up(want, UID, layout).changed
    assert tried == [["size=1048576", "noswap"], ["size=1048576"]]


# hostPath


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("Directory", "a directory"),
        ("File", "a file"),
        ("Socket", "a socket file"),
        ("CharDevice", "a character device"),
        ("BlockDevice", "a block device"),
    ],
)
def test_a_host_path_of_another_type_fails_in_known_words(tmp_path, layout, type_, words):
    """L-31; what is not there is of no type."""
    other = tmp_path / "other"
    if type_ == "Directory":
        other.write_text("")
    else:
        other.mkdir()
    for path in (other, tmp_path / "none"):
        with pytest.raises(VolumeError) as caught:
            setup.set_up(HostPathWant("h", str(path), type_), UID, layout)
        assert str(caught.value) == f"hostPath type check failed: {path} is not {words}"


def test_host_paths_of_their_type_are_taken_as_they_are(tmp_path, layout):
    """L-31, through links too, as a bind mount would go."""
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("")
    (tmp_path / "link").symlink_to("d")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        cases = {"d": "Directory", "link": "Directory", "f": "File", "s": "Socket"}
        for name, type_ in cases.items():
            want = HostPathWant("h", str(tmp_path / name), type_)
            assert setup.set_up(want, UID, layout) == setup.Done(want.path)
    null = HostPathWant("h", "/dev/null", "CharDevice")
    assert setup.set_up(null, UID, layout).path == "/dev/null"
    missing = HostPathWant("h", str(tmp_path / "none"))
    assert setup.set_up(missing, UID, layout).path == missing.path
    assert not os.path.exists(missing.path)


def test_host_paths_that_may_be_made_are_made(tmp_path, layout):
    """L-31: DirectoryOrCreate 0755 with what is above it, FileOrCreate 0644."""
    directory, file = tmp_path / "a" / "b", tmp_path / "f"
    assert setup.set_up(HostPathWant("h", str(directory), "DirectoryOrCreate"), UID, layout)
    assert setup.set_up(HostPathWant("h", str(file), "FileOrCreate"), UID, layout)
    assert (mode(directory), mode(file)) == (0o755, 0o644)
    with pytest.raises(VolumeError, match="is not a directory"):
        setup.set_up(HostPathWant("h", str(file), "DirectoryOrCreate"), UID, layout)
    with pytest.raises(VolumeError, match="is not a file"):
        setup.set_up(HostPathWant("h", str(directory), "FileOrCreate"), UID, layout)
    with pytest.raises(VolumeError, match="No such file or directory"):
        setup.set_up(HostPathWant("h", str(tmp_path / "x" / "y"), "FileOrCreate"), UID, layout)
    with pytest.raises(VolumeError, match="Odd is an invalid volume type"):
        setup.set_up(HostPathWant("h", str(file), "Odd"), UID, layout)


# Files written as one


def files(**content):
    return tuple(File(name, data, 0o644) for name, data in content.items())


def test_files_are_seen_through_two_links(tmp_path):
    """L-21: name -> ..data/name, ..data -> ..<timestamp>."""
    wanted = (File("a", b"1", 0o640), File("sub/b", b"2", 0o400))
    assert atomic.write(str(tmp_path), wanted)
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert os.readlink(tmp_path / "sub") == "..data/sub"
    stamped = os.readlink(tmp_path / "..data")
    assert stamped.startswith("..2")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert mode(tmp_path / stamped / "a") == 0o640
    assert mode(tmp_path / stamped / "sub" / "b") == 0o400
    assert mode(tmp_path / stamped) == 0o755


def test_what_is_right_is_not_written_again(tmp_path):
    """L-21: no write if content and mode are unchanged."""
    atomic.write(str(tmp_path), files(a=b"1"))
    before = os.readlink(tmp_path / "..data")
    assert not atomic.write(str(tmp_path), files(a=b"1"))
    assert os.readlink(tmp_path / "..data") == before
    assert atomic.write(str(tmp_path), (File("a", b"1", 0o600),))
    assert os.readlink(tmp_path / "..data") != before


def test_a_new_set_replaces_the_old_one_whole(tmp_path):
    """L-21: stale names go, new ones come, one directory is left."""
    atomic.write(str(tmp_path), files(a=b"1", b=b"2"))
    (tmp_path / "mounted-on").mkdir()
    assert atomic.write(str(tmp_path), files(b=b"3", c=b"4"))
    names = {name for name in os.listdir(tmp_path) if not name.startswith("..2")}
    assert names == {"..data", "b", "c", "mounted-on"}
    assert len(os.listdir(tmp_path)) == 5
    assert (tmp_path / "b").read_bytes() == b"3"


def test_every_place_to_be_killed_at_is_gone_on_from(tmp_path):
    """A reader sees all of the old or all of the new, and the successor cleans up."""
    atomic.write(str(tmp_path), files(old=b"1"))

    def die():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # the files are written, nothing points to them
        atomic.write(str(tmp_path), files(new=b"2"), die)
    assert (tmp_path / "old").read_bytes() == b"1"
    (tmp_path / "..data_tmp").symlink_to("..nowhere")  # the link is made, not yet renamed
    assert atomic.write(str(tmp_path), files(new=b"2"))
    os.unlink(tmp_path / "new")  # renamed, the names not yet made
    (tmp_path / "old").symlink_to("..data/old")
    assert atomic.write(str(tmp_path), files(new=b"2"))
    stamped = [name for name in os.listdir(tmp_path) if name.startswith("..2")]
    assert sorted(os.listdir(tmp_path)) == sorted([*stamped, "..data", "new"])
    assert len(stamped) == 1


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "must be relative and not empty"),
        ("/etc/x", "must be relative and not empty"),
        ("a/../b", "must not contain '..'"),
        ("..data", "must not start with '..'"),
        ("x" * 256, "is too long"),
        ("a/" * 2050 + "b", "is too long"),
        (".", "is not the name of a file"),
        ("a\0b", "is not the name of a file"),
        ("\ud800", "is not the name of a file"),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(tmp_path, path, why):
    """L-21: names starting "..", backsteps, more than 255 a name or 4096 in all."""
    with pytest.raises(VolumeError, match=why):
        atomic.write(str(tmp_path), (File(path, b"", 0o644),))
    assert os.listdir(tmp_path) == []


@needs_mounts
def test_a_downward_volume_on_disk(layout):
    """L-20, L-22, L-33: on tmpfs, the group owns it, its files are readable by the group."""
    volume = {
        "name": "d",
        "downwardAPI": {
            "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}],
            "defaultMode": 0o600,
        },
    }
    mount_paths = (
        {"name": "d", "mountPath": "/i"},
        {"name": "x", "mountPath": "/i/in"},
    )
    wanted = pod(volume, labels={"a": "1"}, fs_group=4711, mounts=mount_paths)
    (want,) = wants(wanted, SETTINGS)
    assert isinstance(want, FilesWant)
    done = setup.set_up(want, UID, layout)
    assert done.path == layout.volume(UID, DOWNWARD_API, "d")
    assert mounts.is_point(done.path)
    with open(f"{done.path}/labels", encoding="ascii") as file:
        assert file.read() == 'a="1"'
        found = os.fstat(file.fileno())
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (4711, 0o640)
    assert os.path.isdir(f"{done.path}/in")
    assert not setup.set_up(want, UID, layout).changed
    teardown.take_down(UID, layout)
    assert teardown.is_clean(UID, layout)


# fsGroup


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_a_group_is_given_everything_but_what_links_lead_to(tmp_path):
    """L-33: g+rw, directories g+x and setgid; a link's target is not ours."""
    volume, outside = tmp_path / "v", tmp_path / "outside"
    (volume / "d").mkdir(parents=True)
    (volume / "f").write_text("")
    (volume / "f").chmod(0o604)
    outside.write_text("")
    outside.chmod(0o600)
    (volume / "l").symlink_to(outside)
    assert ownership.give(str(volume), 4711)
    assert all(os.lstat(volume / name).st_gid == 4711 for name in ("", "d", "f", "l"))
    assert (mode(volume / "f"), mode(volume / "d")) == (0o664, 0o2775)
    assert (mode(outside), os.lstat(outside).st_gid) == (0o600, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_a_root_that_fits_speaks_for_the_rest_only_if_asked_to(tmp_path):
    """L-33: OnRootMismatch skips, Always does not; a cut-off walk leaves a root that misfits."""
    file = tmp_path / "f"
    file.write_text("")
    mismatch = ownership.Policy.ON_ROOT_MISMATCH
    assert ownership.give(str(tmp_path), 4711, policy=mismatch)
    os.chown(file, 0, 0)
    assert not ownership.give(str(tmp_path), 4711, policy=mismatch)
    assert os.lstat(file).st_gid == 0
    assert ownership.give(str(tmp_path), 4711)
    assert os.lstat(file).st_gid == 4711


def test_a_read_only_volume_is_only_read():
    """L-33."""
    assert ownership.wanted_mode(stat.S_IFREG | 0o600, read_only=True) == 0o640
    assert ownership.wanted_mode(stat.S_IFDIR | 0o700, read_only=True) == 0o2750


# Taking down


def test_links_of_a_pod_lead_nowhere_when_it_is_removed(tmp_path, layout):
    """What a pod's links point to is the host's."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "x").write_text("")
    path = setup.set_up(DATA, UID, layout).path
    os.symlink(precious, f"{path}/l")
    os.makedirs(f"{path}/a/b")
    os.symlink("/", f"{path}/a/b/root")
    assert teardown.take_down(UID, layout) == ["data"]
    assert (precious / "x").exists()
    assert os.path.isdir(layout.pod(UID))  # not ours
    assert teardown.take_down(UID, layout) == []


def test_a_volume_that_was_replaced_by_a_link_is_only_a_link(tmp_path, layout):
    """Nothing is unmounted or removed behind it."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "x").write_text("")
    path = setup.set_up(DATA, UID, layout).path
    os.rmdir(path)
    os.symlink(precious, path)
    teardown.take_down(UID, layout)
    assert (precious / "x").exists()
    assert not os.path.lexists(path)


def test_a_tree_deeper_than_any_recursion_is_removed(tmp_path):
    """A pod can make one with a loop; neither stack nor descriptors may run out."""
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_tree(str(top), [])
    assert not top.exists()


@needs_mounts
def test_a_foreign_mount_inside_is_never_crossed(layout):
    """What is mounted is checked by the kernel's list, and by the device while walking."""
    path = setup.set_up(DATA, UID, layout).path
    os.mkdir(f"{path}/in")
    mounts.mount("tmpfs", f"{path}/in", "tmpfs", ())
    touch(f"{path}/in/x")
    with pytest.raises(VolumeError, match="is still mounted"):
        remove_tree(path, mounts.points())
    with pytest.raises(VolumeError, match="is on another file system"):
        remove_tree(path, [])
    assert os.path.exists(f"{path}/in/x")


@needs_mounts
def test_parts_of_volumes_are_unmounted_first(layout):
    """L-18, L-32: volume-subpaths hold mounts; what they lead to is removed by its own path."""
    place = f"{layout.subpaths(UID)}/data/c/0"
    os.makedirs(place)
    mounts.mount("tmpfs", place, "tmpfs", ())
    teardown.take_down(UID, layout)
    assert teardown.is_clean(UID, layout)


def test_volumes_of_others_stay_and_are_named(layout):
    """L-18: an unmount that needs a driver is not replaced by a removal."""
    foreign = f"{layout.volumes(UID)}/kubernetes.io~csi/pv/mount"
    os.makedirs(foreign)
    setup.set_up(DATA, UID, layout)
    with pytest.raises(VolumeError, match="is a volume of kubernetes"):
        teardown.take_down(UID, layout)
    assert os.path.isdir(foreign)
    assert teardown.names(UID, layout) == ["pv"]


def test_killed_in_the_middle_of_a_removal(layout):
    """The marker went first: what is half removed is never taken for a volume again."""
    path = setup.set_up(DATA, UID, layout).path
    os.mkdir(f"{path}/kept")
    remove_tree(os.path.dirname(layout.marker(UID, "data")), [])
    assert not setup.in_place(DATA, UID, layout)
    assert teardown.take_down(UID, layout) == ["data"]
    assert teardown.is_clean(UID, layout)


def test_the_kernels_list_is_read_with_its_escapes():
    """A space in a path is octal there; the innermost mount comes first."""
    text = (
        "24 27 0:6 / /a\\040b rw - tmpfs tmpfs rw\n"
        "25 27 0:6 / /a\\040b/c rw shared:1 - tmpfs tmpfs rw\n"
        "26 27 0:6 / /a\\040bc rw - tmpfs tmpfs rw\nodd\n"
    )
    points = mounts.parse(text)
    assert points == ["/a b", "/a b/c", "/a bc"]
    assert mounts.below("/a b", points) == ["/a b/c", "/a b"]
