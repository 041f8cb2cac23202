"""Logs of containers on disk: where they are, what is kept of them, when they are rotated."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from tests.node.pod_node import SECONDS, SLEEP, sh, sleeper
from tests.node.shared import pod
from tests.processes.node import wait_for

CONFIG = {
    "containerLogMaxSize": "20Ki",
    "containerLogMaxFiles": 3,
    "containerLogMonitorInterval": "3s",
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}
LINKS = Path("/var/log/containers")
LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\S+) (stdout|stderr) (F|P) (.*)")


def directory(node, name, container="c"):
    """Where the logs of a container are."""
    return node.logs / f"default_{name}_{node.uid(name)}" / container


def names(path):
    """What is in a directory."""
    return sorted(p.name for p in path.iterdir()) if path.is_dir() else []


def links(name, container="c"):
    """The legacy links to the logs of a container, and where they lead."""
    prefix = f"{name}_default_{container}-"
    every = LINKS.iterdir() if LINKS.is_dir() else ()
    return {link.name: os.readlink(link) for link in every if link.name.startswith(prefix)}


def restarted(number):
    """Whether a container was restarted this often, and runs or waits to."""
    return lambda status: any(
        c["restartCount"] >= number for c in status.get("containerStatuses", [])
    )


@pytest.mark.both_versions
def test_where_a_log_is(node):
    """A container's log is <logs>/<namespace>_<name>_<uid>/<container>/0.log (P-153)."""
    script = f"echo out; echo err >&2; {SLEEP}"
    name = node.write(
        pod(
            "where",
            sh(script, "first"),
            sleeper("second"),
            initContainers=[sh("echo before", "zeroth")],
        )
    )
    node.await_output(name, "err\n", "first")
    node.await_ready(name)
    for container in ("zeroth", "first", "second"):
        assert names(directory(node, name, container)) == ["0.log"]
    path = directory(node, name, "first")
    found = [LINE.fullmatch(line) for line in (path / "0.log").read_text().splitlines()]
    assert sorted((m[2], m[3], m[4]) for m in found) == [
        ("stderr", "F", "err"),
        ("stdout", "F", "out"),
    ]
    for place in (path, path.parent):
        assert place.stat().st_mode & 0o777 == 0o755


@pytest.mark.both_versions
def test_the_legacy_link(node):
    """/var/log/containers has a link to each log, named after pod and container (P-154)."""
    name = node.write(pod("linked"))
    node.await_ready(name)
    container_id = node.container(name)["containerID"].removeprefix("containerd://")
    link = f"{name}_default_c-{container_id}.log"
    wanted = {link: str(directory(node, name) / "0.log")}
    wait_for("its link", lambda: links(name) == wanted, SECONDS)


def test_each_start_has_a_log_of_its_own(node):
    """The restart count is in the log's name; what the one before said is kept (P-153)."""
    script = f"echo start; if test -e /v/once; then {SLEEP}; fi; touch /v/once; exit 1"
    container = sh(script, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    name = node.write(pod("twice", container, volumes=[{"name": "v", "emptyDir": {}}]))
    node.await_output(name, "start", attempt=1)
    assert names(directory(node, name)) == ["0.log", "1.log"]
    assert node.output(name, attempt=0) == "start\n"
    node.await_ready(name)
    wanted = {str(directory(node, name) / f"{n}.log") for n in (0, 1)}
    wait_for("links to both", lambda: set(links(name).values()) == wanted, SECONDS)


def test_one_dead_instance_is_kept(node):
    """Of a container that ends again and again, the last dead one is kept with its log (I-5)."""
    name = node.write(pod("again", sh("echo once more; sleep 0.3; exit 1")))
    node.await_status(name, "it was restarted", restarted(4))

    def kept():
        record = node.record(name)
        dead = [c for c in record.containers if c.state == "exited"]
        logs, found = names(directory(node, name)), links(name)
        return len(dead) <= 1 and len(logs) <= 2 and len(found) <= 2 and "0.log" not in logs

    wait_for("only the last ones are kept", kept, SECONDS)
    node.await_status(name, "it is still restarted", restarted(5))


def test_logs_go_with_their_pod(node):
    """When a pod is gone, so are its logs and the links to them (I-41)."""
    name = node.write(pod("leaves", sleeper(), initContainers=[sh("echo init", "i")]))
    node.await_ready(name)
    logs = directory(node, name).parent
    wait_for("its link", lambda: links(name), SECONDS)
    node.remove("leaves")
    node.await_gone(name)
    wait_for("its logs are gone", lambda: not logs.exists(), SECONDS)
    wait_for("its links are gone", lambda: not links(name) and not links(name, "i"), SECONDS)


def test_logs_of_a_pod_that_has_ended_stay(node):
    """A pod that has ended keeps its logs for as long as it is there."""
    name = node.write(pod("ended", sh("echo done"), restartPolicy="Never"))
    node.await_phase(name, "Succeeded")
    wait_for("it is all over", lambda: node.pods()[name].state == "terminated", SECONDS)
    assert node.output(name) == "done\n"


def read(path):
    """The numbers in a log, of whatever age it is."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        return [int(line.split()[3]) for line in file]


@pytest.mark.both_versions
def test_a_long_log_is_rotated(node):
    """A log over its size is moved aside, the older ones are packed, the oldest go (I-40)."""
    script = "trap 'exit 0' TERM; n=0; while true; do n=$((n+1)); echo $n; usleep 1000; done"
    name = node.write(pod("talks", sh(script)))
    node.await_ready(name)
    logs = directory(node, name)
    stamp = r"0\.log\.\d{8}-\d{6}"

    def rotated():
        found = names(logs)
        old = sorted(n for n in found if n != "0.log")
        packed = [n for n in old if re.fullmatch(stamp + r"\.gz", n)]
        plain = [n for n in old if re.fullmatch(stamp, n)]
        return len(packed) == 1 and len(plain) == 1 and "0.log" in found and old

    wait_for("a plain and a packed log", rotated, SECONDS)
    assert len(names(logs)) <= 3
    kill = node.pid_of(name)  # let it stand still, so that no file moves while they are read
    os.kill(kill, 19)
    try:
        old = wait_for("a plain and a packed log", rotated, SECONDS)
        numbers = [n for file in (*old, "0.log") for n in read(logs / file)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "a line was lost"
    finally:
        os.kill(kill, 18)


def test_a_long_line_is_cut(node):
    """The runtime cuts long lines; the parts are marked so that they can be put together."""
    name = node.write(
        pod("longline", sh("head -c 40000 /dev/zero | tr '\\0' x; echo"), restartPolicy="Never")
    )
    node.await_phase(name, "Succeeded")
    found = [LINE.fullmatch(n) for n in (directory(node, name) / "0.log").read_text().splitlines()]
    assert [m[3] for m in found] == ["P", "P", "F"]
    assert sum(len(m[4]) for m in found) == 40000
