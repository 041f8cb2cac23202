"""Files on the node: directories, hosts, last words, logs (P-55, P-153, P-154, P-175, P-185)."""

from __future__ import annotations

import os
import stat

import pytest

from kubelet.pods.runtime import ContainerRecord, ContainerState
from procs.syncloop.configs import files, message
from procs.syncloop.configs.errors import ConfigError
from tests.unit.configs.config_pods import pod, site


@pytest.fixture
def node(tmp_path):
    return site(str(tmp_path))


@pytest.fixture(autouse=True)
def strict_umask():
    """Modes must not depend on the umask."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_directories(node):
    """P-55, P-153: directories and their modes; making them again changes nothing."""
    for _ in range(2):
        files.make_pod_dirs(pod(), node)
        logs = files.ensure_log_directory(pod(), node, "main")
    top = node.pod_dir("u-1")
    for name in ("", "/volumes", "/plugins", "/containers"):
        assert mode(top + name) == 0o750
    assert logs == f"{node.logs_dir}/shop_web_u-1/main"
    assert (mode(logs), mode(os.path.dirname(logs))) == (0o755, 0o755)


def test_all_that_a_container_needs(node):
    """Logs, hosts file and file of last words are there before a container is made."""
    found = pod()
    files.make_pod_dirs(found, node)
    files.prepare(found, found.spec.containers[0], 1, ("10.0.0.9",), node)
    words = files.termination_log_path("u-1", "main", 1, node)
    assert mode(words) == 0o666
    assert mode(os.path.dirname(words)) == 0o750
    assert mode(files.hosts_path("u-1", node)) == 0o644
    assert os.path.isdir(f"{node.logs_dir}/shop_web_u-1/main")


def test_name_of_the_last_words(node):
    """P-185: eight digits that follow from pod, container and attempt alone."""
    names = {
        files.termination_log_path(uid, name, attempt, node)
        for uid in ("u-1", "u-2")
        for name in ("a", "b")
        for attempt in (0, 1)
    }
    assert len(names) == 8
    for name in names:
        digits = os.path.basename(name)
        assert len(digits) == 8
        int(digits, 16)


def test_last_words_of_another_life(node):
    """A file that is there is emptied for the container that is made; it goes with it."""
    files.make_pod_dirs(pod(), node)
    path = files.make_termination_log(pod(), "main", 0, node)
    with open(path, "w", encoding="ascii") as file:
        file.write("old")
    files.make_termination_log(pod(), "main", 0, node)
    assert os.path.getsize(path) == 0
    for _ in range(2):
        files.remove_termination_log("u-1", "main", 0, node)
    assert not os.path.exists(path)


def test_hosts_file_stays_the_same_file(node):
    """P-175: it is rewritten in place, so that running containers see the change."""
    files.make_pod_dirs(pod(), node)
    path = files.write_hosts(pod(), ("10.0.0.9", "fd00::9"), node)
    first = os.stat(path)
    assert files.write_hosts(pod(), ("10.0.0.9", "fd00::9"), node) == path
    assert os.stat(path).st_mtime_ns == first.st_mtime_ns
    files.write_hosts(pod(), ("10.0.0.8",), node)
    with open(path, encoding="ascii") as file:
        text = file.read()
    assert text.endswith("ip6-allrouters\n10.0.0.8\tweb\n")
    assert os.stat(path).st_ino == first.st_ino


def test_hosts_file_of_the_node(node, tmp_path):
    """P-175: in the node's network the node's file is copied, bytes and all."""
    own = tmp_path / "hosts"
    own.write_bytes(b"127.0.0.1 me\xff\n")
    files.make_pod_dirs(pod(), node)
    found = pod({"hostNetwork": True})
    path = files.write_hosts(found, ("192.0.2.7",), node, str(own))
    with open(path, "rb") as file:
        assert file.read() == (
            b"# Kubernetes-managed hosts file (host network).\n127.0.0.1 me\xff\n"
        )
    with pytest.raises(ConfigError, match="hosts file /nowhere"):
        files.write_hosts(found, (), node, "/nowhere")


def test_links_to_logs(node):
    """P-154: a link where there is a log, with a name that fits, made and removed once or twice."""
    found = pod()
    assert not files.link_log(found, "main", 0, "abc", node)
    directory = files.ensure_log_directory(found, node, "main")
    log = f"{directory}/0.log"
    with open(log, "w", encoding="ascii"):
        pass
    for _ in range(2):
        assert files.link_log(found, "main", 0, "abc", node)
    link = f"{node.links_dir}/web_shop_main-abc.log"
    assert os.readlink(link) == log
    for _ in range(2):
        files.unlink_log(found, "main", "abc", node)
    assert not os.path.lexists(link)
    long = files.link_path(pod(meta={"name": "a" * 250}), "main", "abc", node)
    assert os.path.basename(long) == "a" * 250 + "_" + ".log"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], 0),
        (["0.log"], 1),
        (["2.log", "10.log", "3.log.20260101-000000.gz"], 11),
        (["4.log.20260101-000000"], 5),
        (["x.log", "7.txt", ".log"], 0),
    ],
)
def test_attempt_by_logs(node, names, expected):
    """P-82: the highest number among the logs, and one more."""
    directory = files.ensure_log_directory(pod(), node, "main")
    for name in names:
        with open(f"{directory}/{name}", "w", encoding="ascii"):
            pass
    assert files.attempt_by_logs(pod(), "main", node) == expected
    assert files.attempt_by_logs(pod(), "other", node) == 0


# --- last words --------------------------------------------------------------------------------


def ended(log="", policy="File", **changes):
    """Return a container that ended."""
    fields = {
        "id": "abc",
        "name": "main",
        "attempt": 1,
        "state": ContainerState.EXITED,
        "exit_code": 1,
        "log_path": str(log),
        "annotations": {message.PATH: "/dev/termination-log", message.POLICY: policy},
    }
    return ContainerRecord(**{**fields, **changes})


def say(node, data):
    """Write last words."""
    files.make_pod_dirs(pod(), node)
    path = files.make_termination_log(pod(), "main", 1, node)
    with open(path, "wb") as file:
        file.write(data)
    return path


def entry(text, tag="F"):
    return f"2026-01-02T03:04:05.000000000Z stdout {tag} {text}\n"


@pytest.mark.parametrize(
    ("data", "told", "expected"),
    [
        (b"bye", "", "bye"),
        (b"bye", "OOM", "OOM: bye"),
        (b"", "OOM", "OOM"),
        (b"", "", ""),
        (b"x" * 5000, "", "x" * 4096),
        (b"a" + "é".encode() * 2048, "", "é" * 2048),
        ("é".encode() * 2048 + b"b", "", "é" * 2047 + "b"),
    ],
)
def test_last_words(node, data, told, expected):
    """P-185, P-187: the last 4096 bytes, behind what the runtime says."""
    say(node, data)
    assert message.termination_message(pod(), ended(message=told), node) == expected


def test_no_last_words(node):
    """P-185: no file, or no path for one, is no message; a running container has none yet."""
    assert message.termination_message(pod(), ended(), node) == ""
    say(node, b"bye")
    assert message.termination_message(pod(), ended(annotations={}), node) == ""
    running = ended(state=ContainerState.RUNNING)
    assert message.termination_message(pod(), running, node) == ""


@pytest.mark.parametrize(
    ("data", "policy", "changes", "expected"),
    [
        (b"", "FallbackToLogsOnError", {}, "one\ntwo\n"),
        (b"bye", "FallbackToLogsOnError", {}, "bye"),
        (b"", "File", {}, ""),
        (b"", "FallbackToLogsOnError", {"exit_code": 0}, ""),
        (b"", "FallbackToLogsOnError", {"reason": "ContainerCannotRun"}, ""),
        (b"", "FallbackToLogsOnError", {"message": "OOM"}, "OOM: one\ntwo\n"),
        (b"", "FallbackToLogsOnError", {"log_path": ""}, ""),
    ],
)
def test_fallback_to_the_log(node, data, policy, changes, expected):
    """P-186: the log speaks for a container that failed and said nothing."""
    log = f"{say(node, data)}.log"
    with open(log, "w", encoding="ascii") as file:
        file.write(entry("on", "P") + entry("e") + "odd line\n" + entry("two"))
    record = ended(log, policy, **changes)
    assert message.termination_message(pod(), record, node) == expected


def test_end_of_a_long_log(node, tmp_path):
    """P-186: at most 80 entries and 2048 bytes of them, of a log of any size."""
    log = tmp_path / "0.log"
    say(node, b"")
    log.write_text("".join(entry(str(i)) for i in range(20_000)))
    text = message.termination_message(pod(), ended(log, message.FALLBACK), node)
    assert text.splitlines() == [str(i) for i in range(19_920, 20_000)]
    log.write_text("".join(entry("x" * 16_000) for _ in range(50)))
    text = message.termination_message(pod(), ended(log, message.FALLBACK), node)
    assert text == "x" * 2047 + "\n"


def test_files_that_are_none(node, tmp_path):
    """A pipe or a link in place of a file is said, not waited for or followed."""
    path = say(node, b"")
    os.unlink(path)
    os.mkfifo(path)
    text = message.termination_message(pod(), ended(), node)
    assert text == f"Error on reading termination log {path}: not a regular file"
    os.unlink(path)
    os.symlink("/etc/passwd", path)
    assert "Too many levels" in message.termination_message(pod(), ended(), node)
    gone = tmp_path / "gone.log"
    os.unlink(path)
    text = message.termination_message(pod(), ended(gone, message.FALLBACK), node)
    assert text == f"Error on reading container log {gone}: No such file or directory"


@pytest.mark.parametrize(("containers", "length"), [(0, 12288), (1, 12288), (5, 2457), (1000, 12)])
def test_share_of_a_pod(containers, length):
    """P-132: a pod's messages have 12 KiB in all; a character is never cut in two."""
    assert message.capped("x" * 20_000, containers) == "x" * length
    assert len(message.capped("é" * 20_000, containers).encode()) == length // 2 * 2
