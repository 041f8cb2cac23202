"""The ``kubelet`` command as a user meets it: help, version, and everything that can be wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.node import CONFIG, wait_for


def kubelet(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "kubelet.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def config(directory: Path, **changes) -> str:
    """Write a configuration file; its flag."""
    path = directory / "config.yaml"
    path.write_text(json.dumps({**CONFIG, **changes}))
    return f"--config={path}"


def test_version_and_help_end_with_0() -> None:
    """The version is the one that an operator greps for; help lists the flags."""
    done = kubelet("--version")
    assert (done.returncode, done.stdout.strip()) == (0, "Kubernetes v1.37.0")
    done = kubelet("--help")
    assert done.returncode == 0
    for flag in ("--config", "--run-dir", "--heartbeat-timeout", "--node-ip", "--feature-gates"):
        assert flag in done.stdout


def test_every_problem_is_named_at_once_with_exit_code_1(run_root: Path) -> None:
    """Unknown flag and field, wrong type, out of range, conflict: one line each, no start."""
    flag = config(
        run_root,
        maxPods="many",
        noSuchField=1,
        healthzPort=70000,
        imageGCHighThresholdPercent=10,
        featureGates={"NoSuchGate": True},
    )
    done = kubelet(flag, f"--run-dir={run_root}/r", "--no-such-flag=3", "--node-ip=x")
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert all(line.startswith("kubelet: ") for line in lines)
    for word in ("maxPods", "noSuchField", "healthzPort", "NoSuchGate", "no-such-flag", "node-ip"):
        assert sum(word in line for line in lines) == 1, (word, lines)
    assert any("70000" in line for line in lines)
    assert "Traceback" not in done.stderr
    assert not (run_root / "r").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("a: [", "bad.yaml:2:1: bad YAML"),
        ("apiVersion: v1\nkind: Pod\n", "KubeletConfiguration"),
        ("maxPods: 1\nmaxPods: 2\n", "maxPods"),
        ("\x00\x01\x02", "bad.yaml"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(run_root: Path, content: str, words: str) -> None:
    """The line names the file and what is wrong with it."""
    path = run_root / "bad.yaml"
    path.write_text(content)
    done = kubelet(f"--config={path}")
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_named(run_root: Path) -> None:
    """So is a file that is not there."""
    done = kubelet(f"--config={run_root}/nothing.yaml")
    assert done.returncode == 1
    assert f"{run_root}/nothing.yaml" in done.stderr


def test_a_run_directory_that_cannot_be_used_is_named(run_root: Path) -> None:
    """Not a directory, too long for sockets, closed to the processes without root."""
    flag = config(run_root)
    (run_root / "file").write_text("")
    done = kubelet(flag, f"--run-dir={run_root}/file")
    assert done.returncode == 1
    assert f"--run-dir: {run_root}/file: cannot be used" in done.stderr
    done = kubelet(flag, f"--run-dir={run_root}/{'x' * 90}")
    assert done.returncode == 1
    assert "too long for the sockets in it" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up privileges")
def test_a_run_directory_closed_to_the_unprivileged_is_named(run_root: Path) -> None:
    """The parent that is closed is named, with what to do."""
    (run_root / "closed").mkdir(mode=0o700)
    done = kubelet(config(run_root), f"--run-dir={run_root}/closed/run")
    assert done.returncode == 1
    assert f"{run_root}/closed is closed to uid" in done.stderr
    assert "chmod o+x" in done.stderr


def test_a_watchdog_too_short_is_refused(run_root: Path) -> None:
    """K-1: WatchdogSec of a second or less is a start error."""
    environ = {**os.environ, "WATCHDOG_USEC": "500000"}
    done = kubelet(config(run_root), f"--run-dir={run_root}/r", env=environ)
    assert done.returncode == 1
    assert "WatchdogSec must be longer than 1 s" in done.stderr


def test_webhooks_without_an_api_server_are_refused(run_root: Path) -> None:
    """C-8: the file's defaults ask for webhooks, which a standalone kubelet cannot have."""
    path = run_root / "c.yaml"
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    path.write_text(head + "failCgroupV1: false\n")
    done = kubelet(f"--config={path}", f"--run-dir={run_root}/r")
    assert done.returncode == 1
    assert "authentication.webhook.enabled" in done.stderr
    assert "authorization.mode" in done.stderr


def test_what_is_set_but_not_acted_on_is_said_once(make_node) -> None:
    """Nothing is silently ignored: one line in the log, and all in kubeletctl."""
    node = make_node("--runtime-cgroups=/x", config={"enableContentionProfiling": True}).start()
    lines = [line for line in node.log().splitlines() if "not acted on" in line]
    assert len(lines) == 1
    assert "enableContentionProfiling" in lines[0]
    assert "runtime-cgroups" in lines[0]
    listed = node.ctl("config", "--unimplemented").stdout
    assert "enableContentionProfiling" in listed
    assert "--runtime-cgroups" in listed
    assert "maxOpenFiles" not in listed


def test_every_line_of_a_json_log_is_an_object_that_names_its_process(make_node) -> None:
    """``--logging-format=json``: the supervisor and its children alike, crashes included."""
    node = make_node("--logging-format=json", "-v=2").start()
    os.kill(node.pids()["pleg"], signal.SIGSEGV)
    wait_for("the death is logged", lambda: "killed by SIGSEGV" in node.log())
    wait_for("everybody runs", node.all_running)
    assert node.stop() == 0
    lines = [json.loads(line) for line in node.log().splitlines()]
    assert {"supervisor"} <= {line["process"] for line in lines if "process" in line}
    assert all({"ts", "caller", "msg"} <= line.keys() for line in lines)
    died = next(line for line in lines if line["msg"] == "Process died")
    assert (died["severity"], died["kind"]) == ("error", "pleg")
