"""``kubeletctl status`` against real files and real processes."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from supervisor.kinds import EVERYONE
from tests.unit.kubeletctl.harness import Tree, kubeletctl

KEYS = {
    "name": str,
    "pid": int,
    "state": str,
    "restarts": int,
    "uptime_seconds": float,
    "last_exit": type(None),
    "heartbeat_age_ms": float,
    "operation": str,
    "operation_age_ms": (float, type(None)),
    "loop_lag_ms": float,
    "cpu_millicores": float,
    "rss_mib": float,
    "pss_mib": float,
    "threads": int,
    "fds": int,
}


def test_json_has_exactly_the_promised_shape(tree: Tree):
    """A healthy tree exits with 0 and prints the documented keys and types, no more and no less."""
    done = tree.run("status", "-o", "json")
    found = done.json()
    assert (done.code, done.err) == (0, "")
    keys = ["healthy", "node", "uptime_seconds", "processes", "pods", "volumes", "problems"]
    assert list(found) == keys
    assert found["volumes"] == []
    assert (found["healthy"], found["node"], found["pods"]) == (True, "node-1", [])
    assert found["problems"] == []
    assert [one["name"] for one in found["processes"]] == list(EVERYONE)
    for one in found["processes"]:
        assert list(one) == list(KEYS)
        for key, kind in KEYS.items():
            assert isinstance(one[key], kind), (one["name"], key, one[key])


def test_numbers_are_those_of_the_processes(tree: Tree):
    """Pids, threads, open files, memory and operation are what the kernel and the row say."""
    found = {one["name"]: one for one in tree.run("status", "-o", "json").json()["processes"]}
    pleg = found["pleg"]
    assert pleg["pid"] == tree.pid("pleg")
    assert pleg["threads"] == 1
    assert pleg["fds"] == len(os.listdir(f"/proc/{pleg['pid']}/fd"))
    assert 0 < pleg["pss_mib"] < pleg["rss_mib"] < 200
    assert pleg["operation"] == "relist of all pods"
    assert pleg["loop_lag_ms"] == 1.5
    assert 0 <= pleg["heartbeat_age_ms"] < 2000
    assert found["supervisor"]["pid"] == tree.state["pid"]


def test_yaml_says_the_same_as_json(tree: Tree):
    """The flag may stand before the verb, and YAML carries the same document."""
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(tree.run("-o", "yaml", "status").out)
    assert found["healthy"] is True
    assert [one["name"] for one in found["processes"]] == list(EVERYONE)


def test_text_is_plain_when_piped(tree: Tree):
    """Piped, there are no escape sequences, and every column is there."""
    done = tree.run("status")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "node-1  healthy" in done.out
    assert "problems: none" in done.out
    assert "pods: 0" in done.out
    for title in ("PROCESS", "LAST EXIT", "BEAT", "LAG", "CPU m", "RSS MiB", "PSS MiB", "FDS"):
        assert title in done.out


def test_no_run_directory_is_exit_code_2():
    """Without a state file there is no kubelet: one sentence, exit code 2."""
    done = kubeletctl("--run-dir", "/nonexistent/kubelet", "status")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "kubeletctl: No kubelet runs with run directory /nonexistent/kubelet: "
        "state.json is not there\n"
    )


def test_environment_names_the_run_directory():
    """KUBELET_RUN_DIR stands in for the flag."""
    done = kubeletctl("status", KUBELET_RUN_DIR="/nonexistent/other")
    assert done.code == 2
    assert "/nonexistent/other" in done.err


def test_dead_supervisor_is_exit_code_2(tree: Tree):
    """A state file whose supervisor is gone was left behind; the lock proves it."""
    tree.change(lambda state: state.update(pid=2**22 - 1))
    done = tree.run("status", "-o", "json")
    assert (done.code, done.out) == (2, "")
    assert "is gone" in done.err
    assert "another one is just starting" in done.err  # for the lock is held


def test_pid_of_somebody_else_is_exit_code_2(tree: Tree):
    """A living process with the supervisor's pid is not the kubelet if nobody holds the lock."""
    (tree.root / "lock").unlink()
    done = tree.run("status")
    assert done.code == 2
    assert "nobody holds its lock" in done.err


def test_younger_process_with_the_same_pid_is_exit_code_2(tree: Tree):
    """A process that began after the supervisor's own note is not the supervisor."""
    tree.change(lambda state: state.update(started_ns=state["started_ns"] - 3600 * 10**9))
    done = tree.run("status")
    assert done.code == 2
    assert "some other process, started later" in done.err


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not a state file"),
        (b"[]", "not a state file"),
        (b'{"schema": 2}', "schema is 2, this version reads 1"),
        (b'{"schema": 1}', "version is missing"),
        (b"\xff\xfe\x00", "not a state file"),
    ],
)
def test_broken_state_file_is_said(tree: Tree, content: bytes, expected: str):
    """A state file that makes no sense gives a sentence that names it, never a traceback."""
    (tree.root / "state.json").write_bytes(content)
    done = tree.run("status")
    assert done.code == 1
    assert expected in done.err
    assert str(tree.root / "state.json") in done.err
    assert done.err.count("\n") == 1


def test_backoff_is_a_problem_with_its_cause(tree: Tree):
    """A process in back-off makes it unhealthy; the sentence says why and until when."""
    now = time.monotonic_ns()

    def edit(state):
        tree.process(state, "api").update(
            pid=0,
            state="backoff",
            restarts=4,
            next_start_ns=now + 60 * 10**9,
            last_exit={"reason": "killed by SIGKILL", "at_ns": now - 12 * 10**9, "report": None},
        )

    tree.change(edit)
    done = tree.run("status", "-o", "json")
    api = next(one for one in done.json()["processes"] if one["name"] == "api")
    assert done.code == 1
    assert api["last_exit"].startswith("killed by SIGKILL 12s ago")
    assert (api["pid"], api["restarts"], api["heartbeat_age_ms"]) == (0, 4, None)
    (problem,) = done.json()["problems"]
    assert problem.startswith("api is down: killed by SIGKILL 12s ago; it is started again in ")


def test_killed_process_is_seen_before_the_supervisor_sees_it(tree: Tree):
    """The kernel's word counts: a pid that is gone is a problem although the state says running."""
    os.kill(tree.pid("node"), signal.SIGKILL)
    deadline = time.monotonic() + 5
    while (found := tree.run("status", "-o", "json").json())["healthy"]:
        assert time.monotonic() < deadline
    (problem,) = found["problems"]
    assert "has not noticed" in problem
    assert problem.startswith("node: pid ")


def test_stopped_process_is_a_problem(tree: Tree):
    """SIGSTOP shows at once, before any heartbeat is overdue."""
    pid = tree.pid("prober")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = tree.run("status", "-o", "json")
    finally:
        os.kill(pid, signal.SIGCONT)
    (problem,) = done.json()["problems"]
    assert done.code == 1
    assert problem.startswith(f"prober (pid {pid}) is stopped by a signal or a debugger")


def test_row_of_a_predecessor_is_not_shown(tree: Tree):
    """A row written by another pid says nothing about the process that runs now."""
    tree.change(lambda state: tree.process(state, "pleg").update(pid=tree.pid("node")))
    done = tree.run("status", "-o", "json")
    pleg = next(one for one in done.json()["processes"] if one["name"] == "pleg")
    assert (pleg["operation"], pleg["heartbeat_age_ms"], pleg["cpu_millicores"]) == ("", None, None)
    assert any("pleg" in text and "no sign of life" in text for text in done.json()["problems"])


def test_notes_are_shown_and_do_not_make_it_unhealthy(tree: Tree):
    """What the supervisor merely notes is told apart from what is wrong."""
    tree.change(lambda state: state.update(notes=["cgroups are not writable: no memory limits"]))
    done = tree.run("status", "-o", "json")
    assert done.code == 0
    assert done.json()["problems"] == []
    assert "notes:\n  * cgroups are not writable: no memory limits" in tree.run("status").out


def test_what_the_supervisor_finds_wrong_is_a_problem(tree: Tree):
    """An address that cannot be listened on makes it unhealthy, in the supervisor's words."""
    tree.change(lambda state: state.update(problems=["healthz: cannot listen on 127.0.0.1:1"]))
    done = tree.run("status", "-o", "json")
    assert done.code == 1
    assert done.json()["problems"] == ["healthz: cannot listen on 127.0.0.1:1"]


def test_quarantined_pod_and_missing_table_are_problems(tree: Tree):
    """Both are named, the pod with how to release it."""
    case = {"pod": "uid-7", "kind": "syncloop", "deaths": 3, "since_unix": time.time() - 600}
    tree.change(lambda state: state.update(quarantine=[case]))
    (tree.root / "tables" / "mounts").unlink()
    done = tree.run("status", "-o", "json")
    pod, table = done.json()["problems"]
    assert done.code == 1
    assert "pod uid-7 is left alone since" in pod
    assert "(10m" in pod
    assert "'kubeletctl release uid-7'" in pod
    assert table.startswith("table mounts is unavailable: ")


def test_control_characters_of_a_process_do_not_reach_the_terminal(tree: Tree):
    """What a process calls its operation cannot drive the terminal of the operator."""
    tree.change(lambda state: state.update(node="node\x1b]0;owned\x07"))
    out = tree.run("status").out
    assert "\x07" not in out
    assert "\x1b" not in out


def test_not_allowed_is_one_sentence(tree: Tree):
    """Another user gets told who may look, not a traceback."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    tree.root.chmod(0o755)
    (tree.root / "state.json").chmod(0o600)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        from kubeletctl import main

        code = 99
        try:
            import sys

            sys.argv = ["kubeletctl", "--run-dir", str(tree.root), "status"]
            sys.stderr = os.fdopen(2, "w", closefd=False)
            code = main.command()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read) as errors:
        text = errors.read()
    assert os.waitstatus_to_exitcode(status) == 2
    assert text.startswith("kubeletctl: Not allowed to read ")
    assert text.count("\n") == 1


def test_state_file_of_a_newer_supervisor_with_more_fields_is_read(tree: Tree):
    """Fields that this version does not know are passed over."""
    tree.change(lambda state: state.update(surprise={"a": 1}))
    assert json.loads(tree.run("status", "-o", "json").out)["healthy"] is True
