"""orphans, against real tables and a real disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubelet.config import load
from kubelet.pods.rows import Ending, VolumeRow, VolumeState, WorkerState
from kubeletctl.commands import orphans
from kubeletctl.screen import Screen
from procs.volumes.orphans import Cause, Found, Mount, Orphan, Reason, Staged
from tests.unit.kubeletctl.harness import Tree, kubeletctl
from tests.unit.kubeletctl.podfiles import Tables, pod

LOST = "uid-lost"
WIDE = Screen(colors=False, width=None)


@pytest.fixture
def root(run_dir: Path, tmp_path: Path) -> Path:
    """The kubelet's root directory, with one pod's directory in it that nobody knows."""
    effective = load([f"--run-dir={run_dir}", f"--root-dir={tmp_path}"]).config
    (run_dir / "config.json").write_bytes(effective.to_json())
    (tmp_path / "pods" / LOST).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def living(free_tree: Tree, root: Path) -> Iterator[tuple[Tree, Tables]]:
    """A kubelet that runs, and its tables."""
    tables = Tables(free_tree.root)
    tables.sources(file=True)
    tables.pod(pod())
    (root / "pods" / "uid-web").mkdir()
    yield free_tree, tables
    tables.close()


def test_orphans_are_listed_with_why_they_are_there(living: tuple[Tree, Tables], root: Path):
    """A directory without a pod is listed, that of a pod is not; JSON and YAML say the same."""
    tree, _ = living
    data = root / "pods" / LOST / "volumes" / "kubernetes.io~nfs" / "data"
    data.mkdir(parents=True)
    (data / "precious").touch()
    done = tree.run("orphans")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"1 pod directory without a pod, below {root}/pods:\n  {LOST}\n")
    assert f"    * {data} is not mounted and holds 1 entry, " in done.out
    assert "uid-web" not in done.out
    found = tree.run("orphans", "-o", "json").json()
    assert (found["root_dir"], found["staged"]) == (str(root), [])
    (one,) = found["pods"]
    assert (one["uid"], one["adopted"], one["mounts"]) == (LOST, False, [])
    assert [reason["cause"] for reason in one["reasons"]] == ["data"]
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(tree.run("-o", "yaml", "orphans").out) == found


def test_nothing_orphaned_is_said(living: tuple[Tree, Tables], root: Path):
    """An empty answer is an answer."""
    (root / "pods" / LOST).rmdir()
    done = living[0].run("orphans")
    assert (done.code, done.out) == (0, f"Nothing is orphaned below {root}.\n")


def test_an_orphan_that_cannot_be_unmounted_has_the_error(living: tuple[Tree, Tables]):
    """What syncloop has taken on is still listed for as long as it is there (L-18)."""
    tree, tables = living
    ending = Ending(orphan=True, removed=True)
    row = pod("lost", uid=LOST, state=WorkerState.TERMINATED, ending=ending)
    tables.pod(row)
    busy = VolumeRow("data", VolumeState.UNMOUNTING, reason="target is busy", operation="umount")
    tables.mounts(row, busy)
    done = tree.run("orphans")
    assert f"  {LOST}  (default/lost)\n    * umount: target is busy\n" in done.out
    (one,) = tree.run("orphans", "-o", "json").json()["pods"]
    assert one["adopted"] is True


def test_a_source_that_has_not_given_its_pods_is_waited_for(living: tuple[Tree, Tables]):
    """Whose directory it is cannot be told before that."""
    tree, tables = living
    tables.sources(file=True, api=False)
    assert "its pod may come yet: api has not given its pods" in tree.run("orphans").out


def test_a_name_that_is_no_text_is_printed_all_the_same(living: tuple[Tree, Tables], root: Path):
    """A directory's name may be any bytes."""
    os.mkdir(os.fsencode(root / "pods") + b"/\xff")
    for form in ("text", "json", "yaml"):
        done = living[0].run("orphans", "-o", form)
        assert (done.code, done.err) == (0, "")
        assert "2 pod directories" in done.out or "\N{REPLACEMENT CHARACTER}" in done.out


def test_what_a_kubelet_left_behind_is_shown_and_said_to_be_so(
    run_dir: Path, tables: Tables, root: Path
):
    """Without a kubelet nothing is removed; the list is the same."""
    done = Tree(run_dir).run("orphans")
    assert done.code == 0
    assert "Nothing is removed until one does." in done.err
    assert "its pod may come yet: no source has given its pods" not in done.err
    assert f"below {root}/pods" in done.out
    assert LOST in done.out
    tables.sources(file=True)
    assert "nothing is in its way" in Tree(run_dir).run("orphans").out


def test_orphans_without_a_kubelet_is_exit_code_2():
    """There is no configuration that would tell where to look."""
    done = kubeletctl("--run-dir", "/nonexistent/kubelet", "orphans")
    assert (done.code, done.out) == (2, "")


def test_a_table_of_pods_that_cannot_be_read_is_exit_code_1(
    living: tuple[Tree, Tables], root: Path
):
    """Nothing is called an orphan when nobody knows the pods."""
    tree, tables = living
    tables.close()
    (tree.root / "tables" / "pods").write_bytes(b"x")
    done = tree.run("orphans")
    assert (done.code, done.out) == (1, "")
    assert "Table pods is unavailable" in done.err
    assert root.is_dir()


def test_many_mounts_are_counted_and_all_of_them_shown_on_request():
    """The first three will do for a start; what else is said of it is never left out."""
    paths = [f"/r/pods/u/{n}" for n in range(5)]
    reasons = [Reason(Cause.MOUNTED, f"nfs s is mounted at {path}") for path in paths]
    reasons.append(Reason(Cause.ERROR, "busy"))
    held = tuple(Mount(path, "nfs", "s") for path in paths)
    found = Found((Orphan("u", "/r/pods/u", mounts=held, reasons=tuple(reasons)),), ())
    short = orphans.render(WIDE, "/r", found, wide=False)
    assert short[-2:] == ["    * and 2 more mounts: 'kubeletctl orphans -o wide'", "    * busy"]
    whole = orphans.render(WIDE, "/r", found, wide=True)
    assert sum("is mounted at" in line for line in whole) == 5


def test_staged_devices_are_listed_below():
    """A driver, its handle where it is known, and whether it is mounted."""
    found = Found((), (Staged("d", "vol-1", "/g", mounted=True), Staged("d", "", "/h", False)))
    assert orphans.render(WIDE, "/r", found, wide=False) == [
        "2 staged CSI volumes that no pod on disk uses:",
        "    * d vol-1: /g is mounted",
        "    * d with a handle that nothing on disk tells: /h is not mounted",
    ]
