"""The other verbs, as processes of their own, against real files, sockets and signals."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kubelet.config import VERSION, load
from kubeletctl.commands import VERBS
from shm.recorder import RecorderWriter
from tests.unit.kubeletctl.harness import ENVIRONMENT, ROOT, Tree, kubeletctl


@contextmanager
def supervisor_that_answers(root: Path, answer: Any) -> Iterator[list[dict[str, Any]]]:
    """Listen on the control socket and give every request the same answer."""
    asked: list[dict[str, Any]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "supervisor.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                asked.append(json.loads(stream.readline()))
                if answer is not None:
                    stream.write(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            thread.join(10)


@contextmanager
def on_a_terminal(tree: Tree, *arguments: str, columns: int = 80) -> Iterator[tuple[int, Any]]:
    """Run the command on a pseudo-terminal of a given width."""
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(tree.root), *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**ENVIRONMENT, "TERM": "xterm"},
        start_new_session=True,
    ) as process:
        os.close(slave)
        try:
            yield master, process
        finally:
            process.kill()
            os.close(master)


def read_until(master: int, word: str, seconds: float = 10) -> str:
    """Read the terminal until a word appears, or it ends."""
    text, end = "", time.monotonic() + seconds
    while word not in text and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                text += os.read(master, 65536).decode(errors="replace")
            except OSError:
                break
    return text


# --- the command line ---


def test_unknown_process_lists_the_known_ones(tree: Tree):
    """A wrong name is exit code 2 and a sentence with the right ones."""
    for arguments in (["dump", "plug"], ["restart", "plug"], ["profile", "plug"]):
        done = tree.run(*arguments)
        assert done.code == 2
        assert "supervisor, syncloop, pleg, prober, eviction, api, node, volumes" in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["status", "--bogus"],
        ["status", "-o", "xml"],
        ["top", "-n", "0"],
        ["top", "-n", "x"],
        ["events", "--since", "5 minutes"],
        ["events", "--tail", "-1"],
        ["dump"],
        ["profile", "pleg", "--seconds", "0", "--hertz", "5000"],
    ],
)
def test_wrong_command_lines_are_one_sentence(tree: Tree, arguments: list[str]):
    """Exit code 2, one line on standard error, nothing on standard output."""
    done = tree.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("kubeletctl: ")
    assert done.err.count("\n") == 1


def test_help_lists_every_verb_with_its_purpose():
    """The list of verbs is made of their own documentation."""
    done = kubeletctl("--help")
    assert done.code == 0
    for verb in VERBS:
        assert f"\n  {verb} " in done.out
        assert kubeletctl(verb, "--help").code == 0
    assert kubeletctl().code == 2


def test_every_verb_is_documented():
    """The manual has a row in its table and a section for each."""
    text = (ROOT / "docs" / "kubeletctl.md").read_text()
    table = text[: text.index("## Naming a pod")]
    headings = " ".join(line for line in text.splitlines() if line.startswith("## "))
    for verb in VERBS:
        assert re.search(rf"\b{verb}\b", table)
        assert re.search(rf"\b{verb}\b", headings)


def test_broken_pipe_is_quiet(tree: Tree):
    """A reader that has seen enough is no error."""
    recorder = RecorderWriter.create(tree.root / "recorder" / "api")
    for number in range(4000):
        recorder.record("request", f"number {number} " + "x" * 150)
    recorder.close()
    command = [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(tree.root), "events"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(10) == 0


def test_terminal_gets_colours_and_a_pipe_does_not(tree: Tree):
    """Colours on a terminal, unless --no-color; 80 columns are never exceeded."""
    with on_a_terminal(tree, "status") as (master, _):
        text = read_until(master, "problems:")
    assert "\x1b[32mrunning" in text
    with on_a_terminal(tree, "--no-color", "status") as (master, _):
        text = read_until(master, "problems:")
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "PSS MiB" in text
    assert "RSS MiB" not in text


# --- top ---


def test_top_piped_prints_blocks(tree: Tree):
    """Each interval is a block of plain text with all columns."""
    done = tree.run("top", "--count", "2", "-n", "0.1", "--sort", "cpu")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert done.out.count("PROCESS") == 2
    assert "CTX/s" in done.out


def test_top_json_is_one_object_a_line(tree: Tree):
    """Programs get lines, with the usage of the interval."""
    lines = tree.run("top", "--count", "2", "-n", "0.2", "-o", "json").out.splitlines()
    assert len(lines) == 2
    found = json.loads(lines[1])
    assert len(found["processes"]) == 8
    pleg = next(one for one in found["processes"] if one["name"] == "pleg")
    assert 0 <= pleg["cpu_millicores"] < 1000
    assert pleg["context_switches_per_second"] > 0
    assert pleg["run_delay_percent"] >= 0


@pytest.mark.parametrize("way", ["key", "signal"])
def test_top_gives_the_terminal_back(tree: Tree, way: str):
    """However it ends, the alternate screen is left and the cursor is shown again."""
    with on_a_terminal(tree, "top", "-n", "0.2") as (master, process):
        text = read_until(master, "volumes")
        assert "\x1b[?1049h" in text
        if way == "key":
            os.write(master, b"q")
        else:
            process.send_signal(signal.SIGINT)
        assert "\x1b[?25h\x1b[?1049l" in read_until(master, "\x1b[?1049l")
        assert process.wait(10) == (0 if way == "key" else 130)


# --- events ---


def test_events_are_merged_and_filtered(tree: Tree):
    """All rings in the order of time; filters by process, pod, age and number."""
    found = [json.loads(line) for line in tree.run("events", "-o", "json").out.splitlines()]
    assert len(found) == 9  # each one's start, and a relist
    assert [one["time"] for one in found] == sorted(one["time"] for one in found)
    assert list(found[0]) == ["time", "process", "seq", "what", "pod", "text"]
    pleg = tree.run("events", "--process", "pleg").out.splitlines()
    assert [line.split()[2] for line in pleg] == ["started", "relisted"]
    assert tree.run("events", "--pod", "uid-1").out.endswith("12 pods  pod=uid-1\n")
    assert len(tree.run("events", "--tail", "3").out.splitlines()) == 3
    assert tree.run("events", "--tail", "0").out == ""
    assert tree.run("events", "--since", "1ns").out == ""


def test_events_follow(tree: Tree):
    """With -f a new event appears while the command runs."""
    command = [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(tree.root)]
    with subprocess.Popen(
        [*command, "events", "-f", "--tail", "1"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        recorder = RecorderWriter.create(tree.root / "recorder" / "api")
        recorder.record("request", "GET /pods \x1b[2J", "uid-9")
        recorder.close()
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert line.endswith("GET /pods \N{REPLACEMENT CHARACTER}[2J  pod=uid-9\n")


# --- dump ---


def test_dump_shows_threads_and_tasks(answering_tree: Tree):
    """A process with a turning loop shows both sorts of stacks, and goes on."""
    pid = answering_tree.pid("pleg")
    done = answering_tree.run("dump", "pleg")
    assert done.code == 0
    assert f"threads of pleg (pid {pid}):" in done.out
    assert "most recent call first" in done.out
    assert "asyncio tasks of pleg:" in done.out
    assert "burn_for_the_profile" not in done.err
    os.kill(pid, 0)


def test_dump_shows_only_what_is_new(tree: Tree):
    """A second dump does not repeat the first one."""
    tree.run("dump", "supervisor")
    done = tree.run("dump", "supervisor", "-o", "json").json()
    assert done["threads"].count("most recent call first") == 1
    assert done["tasks"] is None
    assert done["tasks_missing_because"] == "it has no event loop"


def test_dump_of_a_loop_that_does_not_answer_says_so(answering_tree: Tree):
    """A stopped process gives neither; both reasons are said, and the exit code is 1."""
    pid = answering_tree.pid("pleg")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = answering_tree.run("dump", "pleg")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert done.code == 1
    assert "stopped by a signal or a debugger" in done.out
    assert "no asyncio tasks of pleg: " in done.out


def test_dump_never_kills_a_process_without_a_handler(tree: Tree):
    """SIGUSR2 would end a process that has not installed its handler: it is not sent."""
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            tree.change(lambda state: tree.process(state, "api").update(pid=victim.pid))
            done = tree.run("dump", "api")
            assert done.code == 1
            assert "no handler for SIGUSR2" in done.out
            assert victim.poll() is None
        finally:
            victim.kill()


def test_dump_of_what_does_not_run(tree: Tree):
    """A process in back-off has no stacks."""
    tree.change(lambda state: tree.process(state, "api").update(pid=0, state="backoff"))
    done = tree.run("dump", "api")
    assert (done.code, done.err) == (1, "kubeletctl: api has no process: it is backoff\n")


# --- profile ---


def test_profile_writes_a_flame_graph_and_a_report(answering_tree: Tree, tmp_path: Path):
    """The SVG and the collapsed stacks name the function that burns the CPU."""
    svg, collapsed = tmp_path / "flame.svg", tmp_path / "stacks.txt"
    done = answering_tree.run(
        "profile", "pleg", "--seconds", "1", "-o", str(svg), "--collapsed", str(collapsed)
    )
    assert (done.code, done.err) == (0, "")
    ET.parse(svg)
    assert "burn_for_the_profile" in svg.read_text()
    assert "burn_for_the_profile" in done.out
    assert f"written: {svg}, {collapsed}" in done.out
    for line in collapsed.read_text().splitlines():
        assert int(line.rpartition(" ")[2]) > 0


def test_profile_to_standard_output_and_as_json(answering_tree: Tree, tmp_path: Path):
    """With -o - the SVG is all that standard output gets; -o json gives the report as JSON."""
    done = answering_tree.run("profile", "pleg", "--seconds", "0.3", "--mode", "wall", "-o", "-")
    ET.fromstring(done.out.encode())
    svg = str(tmp_path / "x.svg")
    report = answering_tree.run(
        "profile", "pleg", "--seconds", "0.3", "--mode", "wall", "-o", "json", "-o", svg
    ).json()
    assert (report["unit"], report["files"]) == ("samples", [svg])
    assert sum(one["weight"] for one in report["self"]) <= report["total"]


def test_profile_of_the_supervisor_names_the_alternative(tree: Tree):
    """It has no channel: say so, and what else there is."""
    done = tree.run("profile", "supervisor")
    assert done.code == 1
    assert "'kubeletctl dump supervisor'" in done.err


def test_profile_without_an_answer_is_one_sentence(tree: Tree):
    """A process that has no socket cannot be profiled."""
    done = tree.run("profile", "api", "--seconds", "0.1")
    assert done.code == 1
    assert done.err.startswith("kubeletctl: No profile: api ")


# --- the control socket ---


def test_restart_prints_both_pids(tree: Tree):
    """The supervisor is asked, and its answer is shown with the time that it took."""
    answer = {"ok": True, "old_pid": 11, "new_pid": 12}
    with supervisor_that_answers(tree.root, answer) as asked:
        done = tree.run("restart", "pleg")
    assert asked == [{"do": "restart", "kind": "pleg"}]
    assert done.code == 0
    assert done.out.startswith("pleg: pid 11 is now pid 12, in 0.")


def test_refusal_is_shown_with_its_reason(tree: Tree):
    """What the supervisor says against it is the error."""
    with supervisor_that_answers(tree.root, {"ok": False, "error": "not quarantined"}) as asked:
        done = tree.run("release", "uid-1")
    assert asked == [{"do": "release", "pod": "uid-1"}]
    assert (done.code, done.err) == (1, "kubeletctl: The supervisor refused: not quarantined\n")


def test_supervisor_that_hangs_up_is_said(tree: Tree):
    """No answer at all is explained too."""
    with supervisor_that_answers(tree.root, None):
        done = tree.run("release", "uid-1")
    assert done.code == 1
    assert "hung up without an answer" in done.err


def test_nobody_listening_is_exit_code_2(tree: Tree):
    """Without a control socket there is no supervisor to ask."""
    done = tree.run("restart", "pleg")
    assert done.code == 2
    assert "nobody listens on" in done.err


def test_reload_waits_for_new_processes(tree: Tree):
    """It returns when the tree runs again and none of the old processes is left."""
    state = tree.state
    old = {one["pid"] for one in state["processes"]}
    command = [sys.executable, "-m", "kubeletctl.main", "--run-dir", str(tree.root), "reload"]
    with (
        supervisor_that_answers(tree.root, {"ok": True}) as asked,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process,
    ):
        while not asked:
            time.sleep(0.01)
        with pytest.raises(subprocess.TimeoutExpired):  # it waits while the old ones are there
            process.wait(0.5)
        tree.change(lambda s: [one.update(pid=max(old) + 1) for one in s["processes"]])
        assert process.wait(10) == 0
        assert process.stdout is not None
        assert process.stdout.read().startswith("reloaded, in ")


# --- config and version ---


def test_config_is_shown_and_what_changed(tree: Tree):
    """The effective configuration, what was set by what, and what is not acted on."""
    effective = load(["--max-pods=50", f"--run-dir={tree.root}"]).config
    (tree.root / "config.json").write_bytes(effective.to_json())
    assert "maxPods: 50\n" in tree.run("config").out
    assert tree.run("config", "-o", "json").json()["maxPods"] == 50
    changed = tree.run("config", "--changed", "-o", "json").json()
    assert {"name": "maxPods", "value": 50, "set_by": "flag --max-pods"} in changed
    listed = tree.run("config", "--unimplemented", "-o", "json").json()
    assert [set(one) for one in listed] == [{"name", "value", "set_by"}] * len(listed)
    ranks = [one["set_by"] == "default" for one in listed]
    assert ranks == sorted(ranks)  # what was set comes first


def test_broken_config_is_one_sentence(tree: Tree):
    """A configuration that makes no sense is named."""
    (tree.root / "config.json").write_text("{")
    done = tree.run("config")
    assert done.code == 1
    assert str(tree.root / "config.json") in done.err


def test_version_of_both(tree: Tree):
    """The client's, the running kubelet's and Kubernetes'; that none runs is no error."""
    found = tree.run("version", "-o", "json").json()
    assert found["running"]["pid"] == tree.state["pid"]
    assert found["kubernetes"] == VERSION
    done = kubeletctl("--run-dir", "/nonexistent", "version")
    assert done.code == 0
    assert "not running" in done.out
