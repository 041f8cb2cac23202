"""kubeletctl logs, against real tables and real files."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubelet.pods.rows import PodRow
from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord, RuntimeRecord
from kubeletctl import main
from kubeletctl.commands.logs import has_ended
from kubeletctl.errors import CtlError
from kubeletctl.rundir import RunDir
from tests.unit.kubeletctl.harness import ENVIRONMENT, Done
from tests.unit.kubeletctl.podfiles import Tables, container, pod, status
from tests.unit.logs.log_scene import line, stamp, write

COMMAND = (sys.executable, "-m", "kubeletctl.main")
RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED


class Node:
    """A run directory with tables in it, and a directory of logs."""

    def __init__(self, root: Path) -> None:
        self.logs = root / "logs"
        self.logs.mkdir()
        self.tables = Tables(root).make()
        self.root = root

    def add(self, row: PodRow, state: dict[str, Any] | None, *containers: ContainerRecord) -> None:
        self.tables.pod(row, state)
        self.see(row, *containers)

    def see(self, row: PodRow, *containers: ContainerRecord) -> None:
        """Write what the runtime holds of a pod."""
        record = PodRecord(row.uid, row.name, row.namespace, containers=containers)
        self.tables.put("runtime", row.uid, record)

    def record(self, id_: str, name: str = "main", state: ContainerState = RUNNING, **fields):
        return ContainerRecord(id_, name, state=state, log_path=f"{self.logs}/{id_}.log", **fields)

    def run(self, *arguments: str) -> Done:
        """Run the command in this process, which is much quicker than in one of its own."""
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main.run(["--run-dir", str(self.root), "logs", *arguments])
            except CtlError as problem:
                code = problem.code
                err.write(str(problem))
        out.flush()
        return Done(code, out.buffer.getvalue().decode(), err.getvalue())


@pytest.fixture
def node() -> Iterator[Node]:
    """A node without pods."""
    root = Path(tempfile.mkdtemp(prefix="kctl-", dir="/dev/shm"))
    made = Node(root)
    yield made
    made.tables.close()
    shutil.rmtree(root)


def status_of(id_: str, last: str = "", name: str = "main", **state: Any) -> dict[str, Any]:
    one = {**container(name, **state), "containerID": f"containerd://{id_}"}
    if last:
        one["lastState"] = {"terminated": {"containerID": f"containerd://{last}", "exitCode": 1}}
    return one


@pytest.fixture
def web(node: Node) -> Node:
    """A pod that has restarted once."""
    now, then = node.record("now", attempt=1), node.record("then", state=EXITED)
    node.add(pod("web"), status(status_of("now", "then")), now, then)
    write(node.logs / "now.log", line("one", 1), line("two", 2, "stderr"), b"odd\n", line("3", 3))
    write(node.logs / "then.log", line("before"))
    return node


def test_log_of_a_pod(web: Node):
    """All of it, on standard output; what was left out is counted on standard error."""
    done = web.run("web")
    assert (done.code, done.out) == (0, "one\ntwo\n3\n")
    assert "1 line was left out of the log of main" in done.err


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["--tail", "1"], "3\n"),
        (["--tail=-1", "--limit-bytes", "5"], "one\nt"),
        (["--since-time", stamp(2)], "two\n3\n"),
        (["--since", "1s"], ""),
        (["--previous"], "before\n"),
        (["-p", "--timestamps"], f"{stamp(5)} before\n"),
        (["-c", "main", "--tail=1", "-n", "default"], "3\n"),
        (["--all-containers", "--tail=1"], "3\n"),
    ],
)
def test_flags_choose(web: Node, arguments: list[str], out: str):
    """They are those of kubectl (H-62, H-63)."""
    done = web.run("web", *arguments)
    assert (done.code, done.out) == (0, out), done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nope"], 1, "There is no pod 'nope'; the pods are default/web"),
        (["web", "-c", "x"], 1, "container x is not valid for pod web; it has: main"),
        (["web", "--tail", "-2"], 2, "--tail -2: must be -1"),
        (["web", "--limit-bytes", "0"], 2, "--limit-bytes 0: must be greater than 0"),
        (["web", "--since", "soon"], 2, "--since soon: must be a duration"),
        (["web", "--since=-1s"], 2, "--since -1s: must be greater than 0"),
        (["web", "--since-time", "soon"], 2, "--since-time soon: 'soon' is no time such as"),
        (["web", "--since", "1s", "--since-time", stamp()], 2, "only one of --since and"),
        (["web", "-c", "main", "--all-containers"], 2, "exclude each other"),
    ],
)
def test_wrong_questions_about_logs_are_one_sentence(
    web: Node, arguments: list[str], code: int, said: str
):
    """Each names the flag and the value, or what there is."""
    done = web.run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_pods_without_a_log_say_why(node: Node):
    """One that waits, one that was never there before, one whose instance is gone."""
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    node.add(pod("crash"), status(status_of("", **waits)))
    node.add(pod("fresh"), status(status_of("now")), node.record("now"))
    node.add(pod("gone"), status(status_of("old")), node.record("now"))
    node.add(pod("none"), status(status_of("bare")), replace(node.record("bare"), log_path=""))
    for name, arguments, said in (
        ("crash", [], 'container "main" in pod "crash" is waiting to start: CrashLoopBackOff'),
        ("fresh", ["-p"], 'previous terminated container "main" in pod "fresh" not found'),
        ("fresh", [], "now.log: there is no such file"),
        ("gone", [], "has no log any more: its instance old was removed from the runtime"),
        ("none", [], 'container "main" in pod "none" has no log'),
    ):
        done = node.run(name, *arguments)
        assert (done.code, done.out) == (1, "")
        assert said in done.err


def test_pod_with_several_containers(node: Node):
    """Which one must be clear; all of them come in the order in which they begin."""
    spec = {
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
    }
    state = {
        **status(status_of("a", name="a"), status_of("b", name="b")),
        "initContainerStatuses": [status_of("i", name="i", terminated={"containerID": "x://i"})],
    }
    records = [node.record(name, name) for name in ("b", "a", "i")]
    node.add(pod("many", spec=spec), state, *records)
    for name in ("a", "b", "i"):
        write(node.logs / f"{name}.log", line(f"of {name}"))
    done = node.run("many")
    assert done.code == 1
    assert "choose one of: [a b c] or one of the init containers: [i]" in done.err
    assert node.run("many", "-c", "i").out == "of i\n"
    done = node.run("many", "--all-containers")
    assert (done.code, done.out) == (1, "of i\nof a\nof b\n")
    assert 'container "c" in pod "many" is not available' in done.err
    annotated = {"annotations": {"kubectl.kubernetes.io/default-container": "b"}}
    node.tables.pod(pod("many", spec=spec, metadata=annotated), state)
    assert node.run("many").out == "of b\n"


def test_pod_that_nobody_wants_has_logs_too(node: Node):
    """The runtime knows its containers; there is neither a document nor a status of it."""
    row = replace(pod("orphan"), document=b"")
    node.add(row, None, node.record("now"), node.record("then", state=EXITED))
    write(node.logs / "now.log", line("now"))
    write(node.logs / "then.log", line("then"))
    assert node.run("orphan").out == "now\n"
    assert node.run("orphan", "-p").out == "then\n"


@pytest.mark.parametrize("many", [[], ["--all-containers"]])
def test_follow_until_the_container_ends(node: Node, many: list[str]):
    """Over a rotation, until table runtime says that it has ended."""
    row, record = pod("web"), node.record("now")
    node.add(row, status(status_of("now")), record)
    path = node.logs / "now.log"
    write(path, line("one"))
    with subprocess.Popen(
        [*COMMAND, "--run-dir", str(node.root), "logs", "web", "-f", *many],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"one\n"
        os.rename(path, path.with_name("now.log.20260102-030405"))
        write(path, line("two"))
        assert following.stdout.readline() == b"two\n"
        with path.open("ab") as file:
            file.write(line("last")[:-1])
        node.see(row, replace(record, state=EXITED))
        assert following.stdout.read() == b"last"
        assert following.wait(30) == 0


def test_follow_ends_when_the_pod_is_gone(node: Node):
    """A table that was looked at by pleg and has no such pod says so; an empty one does not."""
    run_dir = RunDir(str(node.root))
    assert not has_ended(run_dir, "uid-web", "now")
    node.tables.put("runtime", "runtime", RuntimeRecord(looked=True))
    assert has_ended(run_dir, "uid-web", "now")
    node.see(pod("web"), node.record("now"))
    assert not has_ended(run_dir, "uid-web", "now")
    assert has_ended(run_dir, "uid-web", "before")
