"""The whole tree: up, killed part by part, stopped, restarted, reloaded."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import statistics
import threading
import time
from pathlib import Path

import pytest

from shm.tables import TABLES
from supervisor.kinds import BY_NAME, KINDS
from tests.processes.node import (
    EVERYONE,
    NAMES,
    Node,
    alive,
    children,
    descriptors,
    free_port,
    wait_for,
)

ROUNDS = int(os.environ.get("KUBELET_KILL_ROUNDS", "200"))

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="privileges are root's to give up")


def test_the_tree_is_up_when_it_says_ready(node: Node) -> None:
    """READY=1 comes when all eight processes run; status agrees and exits 0."""
    done = node.ctl("status", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = node.status()
    assert found["healthy"] is True
    # What it depends on is down, which is said and is not its own illness.
    (problem,) = wait_for("the runtime's trouble is told", lambda: node.status()["problems"])
    assert problem.startswith("container runtime: not healthy")
    assert "no-runtime.sock" in problem
    assert [p["name"] for p in found["processes"]] == list(EVERYONE)
    assert {p["state"] for p in found["processes"]} == {"running"}
    assert len({p["pid"] for p in found["processes"]}) == 8
    titles = {Path(f"/proc/{p['pid']}/cmdline").read_text().strip("\0") for p in found["processes"]}
    assert titles == {f"kubelet: {name}" for name in EVERYONE}


def _status_fields(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@as_root
def test_each_process_keeps_only_what_its_kind_needs(node: Node) -> None:
    """No root for api and prober, no new privileges anywhere, no capability beyond the table's."""
    from supervisor.linux import capability_mask, permitted_capabilities

    have = permitted_capabilities()
    uid = node.state()["unprivileged_uid"]
    for name, pid in node.pids().items():
        kind, found = BY_NAME[name], _status_fields(pid)
        assert found["NoNewPrivs"] == "1", name
        assert set(found["Uid"].split()) == {"0" if kind.root else str(uid)}, name
        allowed = capability_mask(kind.capabilities) & have
        for field in ("CapPrm", "CapEff", "CapBnd"):
            assert int(found[field], 16) == allowed, (name, field)


@as_root
def test_tables_are_mapped_writable_by_their_writer_alone(node: Node) -> None:
    """Every other mapping of a table is read-only, and only declared readers have one."""
    from shm.tables import TABLES

    for name, pid in node.pids().items():
        maps = Path(f"/proc/{pid}/maps").read_text()
        for table in TABLES:
            modes = set(re.findall(rf" (r[w-])[x-]s .*/tables/{table.name}\n", maps))
            wanted = {"rw"} if table.writer == name else {"r-"} if name in table.readers else set()
            assert modes == wanted, (name, table.name)


@as_root
def test_each_process_has_a_sub_cgroup_with_its_limit(node: Node) -> None:
    """Where cgroups are writable each kind is in its own, with the memory limit of the table."""
    for name, process in node.processes().items():
        if process["cgroup"] is None:
            pytest.skip("; ".join(node.state()["notes"]))
        group = Path(process["cgroup"])
        assert str(process["pid"]) in (group / "cgroup.procs").read_text().split()
        limits = [group / "memory.max", group / "memory.limit_in_bytes"]
        limit = next(path for path in limits if path.exists())
        assert int(limit.read_text()) == BY_NAME[name].memory_limit


def test_any_process_may_be_killed_at_any_time(node: Node) -> None:
    """Each kind in turn and random pairs: back every time, nobody else touched, nothing leaked."""
    chance = random.Random(7)
    restarts = dict.fromkeys(NAMES, 0)
    took: list[float] = []
    open_before = descriptors(node.pid)
    files_before = {p for p in node.run_dir.rglob("*") if "reports" not in p.parts}
    for number in range(ROUNDS):
        victims = [NAMES[number % 7]] if number % 2 else chance.sample(NAMES, 2)
        pids = node.pids()
        started = time.monotonic()
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)
            restarts[victim] += 1
        for victim in victims:
            wait_for(f"{victim} is back", lambda v=victim, p=pids: node.beating(v, p[v]))
            took.append(time.monotonic() - started)
        wait_for("the supervisor has seen it", node.all_running)
        after = node.pids()
        assert {n: p for n, p in after.items() if n not in victims} == {
            n: p for n, p in pids.items() if n not in victims
        }
    found = node.processes()
    assert {name: p["restarts"] for name, p in found.items()} == restarts
    assert descriptors(node.pid) <= open_before
    assert set(children(node.pid).values()) <= {"S", "R"}
    assert set(children(node.pid)) == set(node.pids().values())
    assert {p for p in node.run_dir.rglob("*") if "reports" not in p.parts} == files_before
    assert node.status()["healthy"] is True
    ordered = sorted(took)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99) - 1]
    print(
        f"\nback after SIGKILL, {len(took)} kills: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms"
    )


def test_a_stopped_process_is_found_reported_and_replaced(make_node) -> None:
    """SIGSTOP: within the time-out it is judged stuck; the report has its stack and operation."""
    node = make_node("--heartbeat-timeout=1s", "--heartbeat-interval=200ms").start()
    pids = node.pids()
    for name in NAMES:
        os.kill(pids[name], signal.SIGSTOP)
        stopped = time.monotonic_ns()
        wait_for(f"{name} is replaced", lambda n=name: node.beating(n, pids[n]), 10)
        wait_for("the supervisor has seen it", node.all_running)
        last = node.processes()[name]["last_exit"]
        assert "no heartbeat for" in last["reason"]
        # Judged when its time-out ends; the rest is the machine's and the dump's.
        assert last["at_ns"] - stopped < 1.5e9
        assert "process state T" in last["reason"]
        report = (node.run_dir / last["report"]).read_text()
        assert f"process:    {name} (pid {pids[name]})" in report
        assert "operation:" in report
        assert 'File "' in report, report
        assert "in run_child" in report, report  # the whole stack, wherever it stood
    assert {p["restarts"] for p in node.processes().values()} == {1}


def test_a_killed_supervisor_takes_its_children_along_and_the_next_finds_the_tables(
    make_node,
) -> None:
    """No child survives it by a second; the next kubelet attaches to the same tables."""
    node = make_node().start()
    pids = node.pids()
    inodes = {p.name: p.stat().st_ino for p in (node.run_dir / "tables").iterdir()}
    os.kill(node.pid, signal.SIGKILL)
    node.wait()
    wait_for("all children are gone", lambda: not any(map(alive, pids.values())), 1.0)
    assert node.ctl("status").returncode == 2
    node.start()
    assert {p.name: p.stat().st_ino for p in (node.run_dir / "tables").iterdir()} == inodes
    found = re.search(r'"Found the tables of an earlier kubelet" .*tables=(\d+)', node.log())
    assert found is not None
    assert int(found[1]) == len(TABLES)


def test_a_stop_goes_stage_by_stage(node: Node) -> None:
    """SIGTERM ends the kinds in the order of their stages, and leaves exit code 0."""
    assert node.stop() == 0
    ended = [e.text.partition(":")[0] for e in node.events() if e.what == "ended"]
    stages = [BY_NAME[name].stop_stage for name in ended]
    assert sorted(ended) == sorted(NAMES)
    assert stages == sorted(stages)
    done = node.ctl("status")
    assert done.returncode == 2
    assert "no kubelet" in done.stderr.lower()


def test_a_pause_of_the_whole_machine_is_nobodys_fault(make_node) -> None:
    """All eight stopped for longer than the time-out, then continued: no process is replaced."""
    node = make_node("--heartbeat-timeout=1s", "--heartbeat-interval=200ms").start()
    before = node.pids()
    everyone = [node.pid, *before.values()]
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    threading.Event().wait(3.0)  # the pause itself
    for pid in everyone:
        os.kill(pid, signal.SIGCONT)
    beats = {name: node.row(name).beats for name in NAMES}
    wait_for("all beat again", lambda: all(node.row(n).beats > beats[n] + 3 for n in NAMES))
    assert node.pids() == before
    assert any(e.what == "gap" for e in node.events())


def test_a_reload_replaces_everyone_and_keeps_the_pid_and_the_listener(make_node) -> None:
    """SIGHUP: same supervisor, new configuration, new children, and no connection refused."""
    port = free_port()
    node = make_node(config={"healthzPort": port}).start()
    before, pid = node.pids(), node.pid
    stop, refused, served = threading.Event(), [], []
    prober = threading.Thread(target=_ask_health, args=(port, stop, refused, served))
    prober.start()
    node.write_config(maxPods=42)
    node.signal(signal.SIGHUP)
    node.await_notice("RELOADING=1")
    node.await_notice("READY=1")
    stop.set()
    prober.join()
    assert refused == []
    assert served
    after = node.pids()
    assert node.state()["pid"] == pid
    assert all(after[name] != before[name] for name in NAMES)
    assert {p["restarts"] for p in node.processes().values()} == {1}
    assert set(children(pid)) == set(after.values())
    assert '"maxPods": 42' in node.ctl("config", "-o", "json").stdout
    node.signal(signal.SIGHUP)  # and once more: what went through the first exec still works
    node.await_notice("READY=1")
    assert node.stop() == 0


def _ask_health(port: int, stop: threading.Event, refused: list[str], served: list[int]) -> None:
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
                sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b""
                while chunk := sock.recv(4096):
                    answer += chunk
            if answer.endswith(b"\r\n\r\nok"):
                served.append(1)
        except ConnectionRefusedError as err:
            refused.append(str(err))
        except OSError:
            continue  # a connection that died with its server; a refused one is the failure


def test_a_bad_reload_is_refused_with_every_problem_and_changes_nothing(node: Node) -> None:
    """The new file has two faults: both are named, nobody is restarted, the old one counts."""
    before = node.pids()
    good = node.config_path.read_text()
    node.write_config(maxPods=-1, syncFrequency="-1s")
    done = node.ctl("reload")
    assert done.returncode != 0
    assert "maxPods" in done.stderr
    assert "syncFrequency" in done.stderr
    assert node.pids() == before
    assert node.status()["healthy"] is True
    node.config_path.write_text(good)


def test_a_dying_api_refuses_no_connection(make_node) -> None:
    """The listening socket is the supervisor's: connections wait in its backlog."""
    port = free_port()
    node = make_node(config={"healthzPort": port}).start()
    stop, refused, served = threading.Event(), [], []
    asker = threading.Thread(target=_ask_health, args=(port, stop, refused, served))
    asker.start()
    for _ in range(5):
        pid = node.pids()["api"]
        os.kill(pid, signal.SIGKILL)
        wait_for("api is back", lambda p=pid: node.beating("api", p))
        wait_for("the supervisor has seen it", node.all_running)
    count = len(served)
    wait_for("it answers", lambda: len(served) > count)
    stop.set()
    asker.join()
    assert refused == []


def test_an_address_in_use_is_said_and_tried_again(make_node) -> None:
    """H-3: the rest of the node runs, status names the address, and later it works."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        node = make_node(config={"healthzPort": port}).start()
        assert any(f"127.0.0.1:{port}" in p for p in node.status()["problems"])
    stop, refused, served = threading.Event(), [], []
    asker = threading.Thread(target=_ask_health, args=(port, stop, refused, served))
    asker.start()
    wait_for("it is served", lambda: served, 15)
    stop.set()
    asker.join()
    wait_for("status is clean again", lambda: node.status()["healthy"])


def test_listeners_are_stored_with_systemd_and_taken_back(make_node) -> None:
    """FDSTORE at the start; a supervisor after a SIGKILL listens on the very same socket."""
    port = free_port()
    node = make_node(config={"healthzPort": port}).start()
    node.await_notice("STATUS=")
    assert "healthz" in node.stored
    inode = os.fstat(node.stored["healthz"]).st_ino
    os.kill(node.pid, signal.SIGKILL)
    node.wait()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as waiting:  # nobody serves
        fd = node.stored["healthz"]
        node.spawn_with_stored({"healthz": fd})
        node.await_notice("READY=1")
        waiting.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert waiting.recv(4096).startswith(b"HTTP/1.1 200")
    listening = [
        os.stat(f"/proc/{node.pid}/fd/{n}").st_ino for n in os.listdir(f"/proc/{node.pid}/fd")
    ]
    assert inode in listening


def test_the_watchdog_is_fed(make_node) -> None:
    """WATCHDOG=1 comes within the period, for as long as the supervisor's loop turns."""
    node = make_node(environ={"WATCHDOG_USEC": "2000000"}).start()
    for _ in range(3):
        node.await_notice("WATCHDOG=1", 2.0)


def test_a_second_kubelet_on_the_run_directory_is_refused(node: Node, make_node) -> None:
    """It names the directory and the holder, exits 1, and the first one does not notice."""
    other = make_node()
    other.run_dir = node.run_dir
    other.spawn()
    assert other.wait() == 1
    assert f"--run-dir: {node.run_dir}: another kubelet (pid {node.pid}) is using it" in other.log()
    assert node.status()["healthy"] is True


def test_a_contended_lock_file_ends_it(make_node, run_root: Path) -> None:
    """C-11: with --exit-on-lock-contention, somebody opening the lock file ends the kubelet."""
    lock = run_root / "lock"
    node = make_node(f"--lock-file={lock}", "--exit-on-lock-contention").start()
    lock.open().close()
    assert node.wait() == 0


@pytest.mark.parametrize("damage", ["truncate", "garbage", "version"])
def test_a_damaged_table_is_found_said_and_rebuilt(node: Node, damage: str) -> None:
    """The writer's successor begins anew with an empty table and says why."""
    path = node.run_dir / "tables" / "runtime"
    with path.open("r+b") as file:
        if damage == "truncate":
            file.truncate(100)
        elif damage == "garbage":
            file.write(random.Random(3).randbytes(4096))
        else:
            file.seek(8)
            file.write(b"\xff" * 8)
    pids = node.pids()
    os.kill(pids["pleg"], signal.SIGKILL)
    wait_for("the table is rebuilt", lambda: '"Table rebuilt"' in node.log())
    wait_for("everybody runs", node.all_running)
    assert re.search(r'"Table rebuilt" process="pleg" table="runtime" reason=".+"', node.log())
    wait_for("status is healthy", lambda: node.status()["healthy"])


def test_every_kind_has_its_page() -> None:
    """A newcomer finds what each process owns, reads, sends, and what its death means."""
    for kind in KINDS:
        module = __import__(f"procs.{kind.name}.main", fromlist=["main"])
        assert "When it dies" in module.__doc__ or "when it dies" in module.__doc__
