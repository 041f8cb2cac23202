"""apply and delete, against a process that takes pods over its socket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kubeletctl.asking import reasons
from tests.unit.kubeletctl.harness import ENVIRONMENT, Tree

GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c}]}\n"
BAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec: {}\n"


def manifest(directory: Path, *names: str, more: str = "") -> str:
    """Write a file with a document for each name."""
    path = directory / "pods.yaml"
    path.write_text(
        "---\n".join([GOOD.replace("NAME", name) for name in names] + [more] * bool(more))
    )
    return str(path)


def test_apply_creates_changes_and_leaves_alone(pod_tree: Tree, tmp_path: Path):
    """What became of each pod is told; the same again changes nothing."""
    path = manifest(tmp_path, "a", "b")
    assert pod_tree.run("apply", "-f", path).out == "pod/a created\npod/b created\n"
    assert pod_tree.run("apply", "-f", path).out == "pod/a unchanged\npod/b unchanged\n"
    Path(path).write_text(GOOD.replace("NAME", "a").replace("name: c", "name: d, odd: 1"))
    assert pod_tree.run("apply", "-f", path, "--wait").out == "pod/a configured\n"
    head, *found = pod_tree.run("pods").out.splitlines()
    assert head.startswith("NAMESPACE")
    assert [line.split()[1] for line in found] == ["a", "b", "static-node-1"]


def test_bad_documents_do_not_keep_the_others_back(pod_tree: Tree, tmp_path: Path):
    """Every problem has its file, document and field; the exit code says that there were some."""
    path = manifest(tmp_path, "a", more=BAD)
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1\n")
    done = pod_tree.run("apply", "-f", path, "-f", str(broken), "-f", str(tmp_path / "no.yaml"))
    assert (done.code, done.out) == (1, "pod/a created\n")
    problems = done.err.splitlines()
    where = f"kubeletctl: {path}: document 2 (pod broken): "
    assert problems[0] == f"{where}spec.containers: Required value"
    assert problems[1] == f"{where}spec.x: Invalid value: 1"
    assert problems[2].startswith(f"kubeletctl: {broken}: line ")
    assert (
        problems[3] == f"kubeletctl: {tmp_path}/no.yaml: cannot be read: No such file or directory"
    )
    found = pod_tree.run("apply", "-f", path, "-o", "json").json()
    assert [one["result"] for one in found] == ["unchanged", "failed"]
    assert found[1]["problems"] == ["spec.containers: Required value", "spec.x: Invalid value: 1"]


def test_apply_reads_directories_and_standard_input(pod_tree: Tree, tmp_path: Path):
    """A directory's manifests by name; ``-`` is what is piped in; unknown fields are warnings."""
    manifest(tmp_path, "a")
    assert pod_tree.run("apply", "-f", str(tmp_path)).out == "pod/a created\n"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kubeletctl.main",
            "--run-dir",
            str(pod_tree.root),
            "apply",
            "-f",
            "-",
        ],
        input=GOOD.replace("NAME", "piped").replace("spec: {", "spec: {odd: 1, "),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "pod/piped created\n")
    said = 'standard input (pod piped): warning: unknown field "spec.odd"'
    assert done.stderr == f"kubeletctl: {said}\n"


def test_waiting_for_pods_that_do_not_become_ready(pod_tree: Tree, tmp_path: Path):
    """One that fails ends the wait for it at once, one that is slow at the time-out."""
    path = manifest(tmp_path, "a", "slow", "bad")
    done = pod_tree.run("apply", "-f", path, "--wait", "--timeout", "300ms")
    assert done.code == 1
    assert "kubeletctl: pod bad: it has failed: Evicted: no room\n" in done.err
    assert "kubeletctl: pod slow: not ready after 0.3 s: " in done.err
    assert "'kubeletctl why default/slow' tells more" in done.err
    assert "pod a" not in done.err


def test_delete_waits_until_the_pod_is_gone(pod_tree: Tree, tmp_path: Path):
    """By name or by file; when it returns, nothing of the pod is in the tables."""
    path = manifest(tmp_path, "a", "b", "c")
    pod_tree.run("apply", "-f", path)
    assert pod_tree.run("delete", "pod", "a").out == 'pod "a" deleted\n'
    assert pod_tree.run("get", "pods", "a").code == 1
    done = pod_tree.run("delete", "-f", path, "--now", "-o", "json")
    assert done.code == 1
    assert [one["gone"] for one in done.json()] == [False, True, True]
    assert done.json()[1]["grace_seconds"] == 1
    assert done.json()[0]["problem"].startswith("There is no pod 'default/a'")
    again = pod_tree.run("delete", "-f", path, "--ignore-not-found")
    assert (again.code, again.out, again.err) == (0, "", "")


def test_delete_does_not_wait_for_ever(pod_tree: Tree, tmp_path: Path):
    """The time-out ends it with exit code 1; --wait=false does not wait at all."""
    pod_tree.run("apply", "-f", manifest(tmp_path, "stuck"))
    done = pod_tree.run("delete", "pod/stuck", "--timeout", "200ms", "--grace-period", "0")
    assert (done.code, done.out) == (1, "")
    assert "pod stuck is still there after 0.2 s" in done.err
    done = pod_tree.run("delete", "pod", "default/stuck", "--wait=false")
    assert (done.code, done.out) == (0, 'pod "stuck" is being deleted\n')


def test_refusal_to_delete_is_told(pod_tree: Tree):
    """A static pod is not deleted; the process's own words say why."""
    done = pod_tree.run("delete", "pod", "static-node-1")
    assert done.code == 1
    assert done.err == "kubeletctl: pod static-node-1: pod static-node-1 is of source file\n"


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("", [""]),
        ("busy", ["busy"]),
        ("spec.a: x; spec.b[0]: y; z", ["spec.a: x", "spec.b[0]: y; z"]),
        ("kind: x; apiVersion: y; metadata: z", ["kind: x", "apiVersion: y", "metadata: z"]),
        ("first\nsecond; specially", ["first", "second; specially"]),
    ],
)
def test_objections_are_parted_at_fields(said: str, parts: list[str]):
    """Each reason is a line of its own; what only looks like a separator is not one."""
    assert reasons(said) == parts


@pytest.mark.parametrize(
    "arguments",
    [
        ["apply"],
        ["apply", "-f", "x", "--timeout", "5"],
        ["delete"],
        ["delete", "pod"],
        ["delete", "node", "x"],
        ["delete", "pod", "x", "-f", "y"],
        ["delete", "pod", "x", "--now", "--grace-period", "3"],
        ["delete", "pod", "x", "--grace-period", "-7"],
        ["delete", "pod", "x", "--wait=maybe"],
    ],
)
def test_wrong_command_lines_are_said(tree: Tree, arguments: list[str]):
    """Exit code 2 and one sentence."""
    done = tree.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_nobody_to_ask_is_exit_code_2(tree: Tree, tmp_path: Path):
    """Without a process that listens, and without a kubelet, nothing is tried further."""
    done = tree.run("apply", "-f", manifest(tmp_path, "a", "b"))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "The pods cannot be changed: syncloop has no socket" in done.err
    gone = Tree(Path("/nonexistent")).run("delete", "pod", "a")
    assert (gone.code, gone.out) == (2, "")
