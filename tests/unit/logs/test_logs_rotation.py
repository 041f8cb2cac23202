"""Rotation of logs against real directories, with deaths at every point (I-40)."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from kubelet import config
from kubelet.logs.names import Form, Rotated, rotated
from procs.syncloop.logs import files
from procs.syncloop.logs.decide import Decision, RotationPolicy, decide, next_stamp
from procs.syncloop.logs.rounds import Rounds, RunningLog
from tests.unit.logs.log_scene import Runtime, line, rounds, running, shown

A, B, C, D = (f"0.log.20260102-03040{n}" for n in (1, 2, 3, 4))
FULL = line("x" * 200)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """A runtime that writes a log."""
    made = Runtime(tmp_path / "0.log")
    yield made
    made.close()


def there(runtime: Runtime) -> list[str]:
    return sorted(os.listdir(runtime.path.parent))


def one_round(work: Rounds, *logs: RunningLog) -> None:
    asyncio.run(work.run(logs))


# --- decisions ---


@pytest.mark.parametrize(
    ("names", "files_", "rotating", "remove", "compress"),
    [
        ([], 5, True, (), ()),
        (["0.log", "1.log", f"1{A[1:]}", "0.log.x", "0.log.bak"], 2, True, (), ()),
        ([A], 5, True, (), (A,)),
        ([A], 5, False, (), ()),  # the newest stays as it is
        ([B, A], 5, False, (), (A,)),
        ([A + ".gz", B + ".gz", C], 5, True, (), (C,)),
        ([A + ".gz", B + ".gz", C], 4, True, (A + ".gz",), (C,)),
        ([A + ".gz", B + ".gz", C], 3, True, (A + ".gz", B + ".gz"), (C,)),
        ([A + ".gz", B + ".gz", C], 2, True, (A + ".gz", B + ".gz", C), ()),
        ([A + ".gz", B + ".gz", C], 3, False, (A + ".gz",), ()),
        ([A + ".tmp", A, B], 5, False, (A + ".tmp",), (A,)),  # died while it compressed
        ([A, A + ".gz", B], 5, True, (A,), (B,)),  # died before it removed
        ([A, A + ".gz", A + ".tmp"], 2, False, (A, A + ".tmp"), ()),
    ],
)
def test_what_becomes_of_older_parts(names, files_, rotating, remove, compress):
    """Left-overs go, then what is too much, oldest first; all but the newest are compressed."""
    found = decide(names, "0.log", files_, rotating=rotating)
    assert found == Decision(remove, compress)


def test_names_of_parts():
    """What belongs to another instance, or to nobody, is no part of a log."""
    assert rotated(A, "0.log") == Rotated("20260102-030401", Form.PLAIN, A)
    assert rotated(f"{A}.gz", "0.log") == Rotated("20260102-030401", Form.COMPRESSED, f"{A}.gz")
    for name in ("0.log", "0.logs", "10.log.20260102-030401", f"{A}.gz.tmp", f"{A}x"):
        assert rotated(name, "0.log") is None


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ([], "20260102-030405"),
        ([A, D + ".gz"], "20260102-030405"),
        (["0.log.20260102-030405"], "20260102-030406"),
        (["0.log.20991231-235959.gz"], "21000101-000000"),
        (["0.log.99999999-000001"], "99999999-000002"),
    ],
)
def test_stamps_only_grow(names: list[str], wanted: str):
    """A clock that was set back neither overwrites a part nor changes their order."""
    now = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - as the wall shows it
    assert next_stamp(names, "0.log", now) == wanted


def test_policy_is_what_is_configured():
    """The defaults are those of a kubelet; a negative size turns it off."""
    assert RotationPolicy.of(config.load([]).config) == RotationPolicy(10 << 20, 5, 1, 10.0)
    assert RotationPolicy.of(config.load(["--container-log-max-size=-1"]).config) is None


# --- rounds ---


def test_log_over_the_size_is_rotated(runtime: Runtime):
    """The newest part stays as it is, older ones are compressed, no more than the limit stay."""
    work = rounds(runtime, size=100, files=3)
    for at in range(5):
        one_round(work, running(runtime.path))
        runtime.write(line(f"{at} " + "x" * 100))
    names = there(runtime)
    assert len(names) == 3
    assert [Path(name).suffix == ".gz" for name in names] == [False, True, False]
    assert runtime.asked == ["id-1"] * 4
    assert shown(runtime.path).startswith(b"4 ")
    part = runtime.path.parent / names[1]
    assert b" 2 xxx" in gzip.decompress(part.read_bytes())
    assert stat.S_IMODE(part.stat().st_mode) == stat.S_IMODE(runtime.path.stat().st_mode)


def test_log_within_the_size_is_left_alone(runtime: Runtime):
    """Its size may be as large as the limit; a link is nobody's to move."""
    runtime.write(b"x" * 100)
    link = runtime.path.with_name("1.log")
    link.symlink_to(runtime.path)
    work = rounds(runtime, size=100)
    for _ in range(2):
        one_round(work, running(runtime.path), RunningLog("id-2", str(link)))
    assert there(runtime) == ["0.log", "1.log"]
    assert runtime.asked == []


def test_refused_reopening_puts_the_log_back(runtime: Runtime):
    """The runtime goes on to write to it, and the next round tries again."""
    runtime.write(FULL)
    runtime.refuses = True
    work = rounds(runtime)
    one_round(work, running(runtime.path))
    assert there(runtime) == ["0.log"]
    runtime.refuses = False
    one_round(work, running(runtime.path))
    assert len(there(runtime)) == 2
    assert runtime.path.stat().st_size == 0


def test_new_log_is_never_overwritten(runtime: Runtime):
    """A runtime that has opened the log anew and reports a failure keeps both."""
    runtime.write(FULL)
    runtime.fails_late = True
    one_round(rounds(runtime), running(runtime.path))
    names = there(runtime)
    assert len(names) == 2
    assert (runtime.path.parent / names[1]).read_bytes() == FULL


def test_missing_log_is_opened_anew(runtime: Runtime):
    """As after a death between the two steps; a runtime that does not make it is asked again."""
    runtime.path.unlink()
    runtime.refuses = True
    work = rounds(runtime)
    one_round(work, running(runtime.path))
    assert there(runtime) == []
    runtime.refuses = False
    one_round(work, running(runtime.path))
    assert there(runtime) == ["0.log"]
    assert runtime.asked == ["id-1", "id-1"]


def test_no_more_are_worked_on_at_a_time_than_there_are_workers(tmp_path: Path):
    """Each waits for its turn; one that fails does not keep the others from theirs."""
    logs = [RunningLog(f"id-{n}", str(tmp_path / f"{n}.log")) for n in range(6)]
    for one in logs:
        Path(one.path).write_bytes(FULL)
    at_once, most = 0, 0
    two = asyncio.Barrier(2)

    class Slow:
        async def reopen(self, container_id: str) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            async with asyncio.timeout(20):
                await two.wait()  # with less than two at a time, nobody would ever go on
            at_once -= 1
            if container_id == "id-0":
                raise OSError("it broke")
            (tmp_path / f"{container_id[3:]}.log").touch()

    one_round(rounds(Slow(), workers=2), *logs)
    assert most == 2
    assert len(os.listdir(tmp_path)) == 11


# --- deaths ---


def dies(work: Callable[[], None]) -> None:
    """Do something in a process that kills itself on the way."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), status


def die() -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return False


def test_death_before_reopening(runtime: Runtime):
    """The runtime writes to the part that was moved away, until the next round."""
    runtime.write(FULL)

    class Dying:
        async def reopen(self, _container_id: str) -> None:
            die()

    dies(lambda: one_round(rounds(Dying()), running(runtime.path)))
    runtime.write(line("late"))
    assert there(runtime) == ["0.log.20260102-030406"]
    assert shown(runtime.path).endswith(b"late\n")
    one_round(rounds(runtime), running(runtime.path))
    runtime.write(line("new"))
    assert there(runtime) == ["0.log", "0.log.20260102-030406"]
    assert shown(runtime.path) == b"new\n"


def test_death_while_compressing(runtime: Runtime):
    """What is unfinished goes, and it is compressed after all; nothing is lost."""
    old = [runtime.path.with_name(name) for name in (A, B)]
    for path in old:
        path.write_bytes(FULL)
    dies(lambda: files.compress(str(old[0]), die))
    assert there(runtime) == ["0.log", A, f"{A}.tmp", B]
    one_round(rounds(runtime), running(runtime.path))
    assert there(runtime) == ["0.log", f"{A}.gz", B]
    assert gzip.decompress(old[0].with_name(f"{A}.gz").read_bytes()) == FULL


def test_death_after_compressing(runtime: Runtime):
    """The part that is there in both forms is kept in one."""
    runtime.path.with_name(A).write_bytes(FULL)
    runtime.path.with_name(f"{A}.gz").write_bytes(gzip.compress(FULL))
    one_round(rounds(runtime), running(runtime.path))
    assert there(runtime) == ["0.log", f"{A}.gz"]


def test_death_while_putting_back(runtime: Runtime):
    """A log with two names loses the wrong one, and not its content."""
    runtime.write(line("one"))
    os.link(runtime.path, runtime.path.with_name(A))
    one_round(rounds(runtime), running(runtime.path))
    assert there(runtime) == ["0.log"]
    assert shown(runtime.path) == b"one\n"


def test_stop_does_not_wait_for_compressing(runtime: Runtime):
    """It is broken off, leaves no draft, and is done by the next process."""
    for name in (A, B):
        runtime.path.with_name(name).write_bytes(FULL)
    one_round(rounds(runtime, stopped=lambda: True), running(runtime.path))
    assert there(runtime) == ["0.log", A, B]
    one_round(rounds(runtime), running(runtime.path))
    assert there(runtime) == ["0.log", f"{A}.gz", B]


def test_leftovers_of_ended_containers_are_swept(tmp_path: Path):
    """Nobody rotates their logs again; what is not a part of a log stays."""
    directory = tmp_path / "ns_pod_uid" / "main"
    directory.mkdir(parents=True)
    for name in ("0.log", A, f"{A}.gz", f"{B}.tmp", C, D, f"1{C[1:]}.tmp", "notes.tmp", "x.log"):
        (directory / name).touch()
    assert files.sweep(str(tmp_path)) == []
    assert sorted(os.listdir(directory)) == ["0.log", f"{A}.gz", C, D, "notes.tmp", "x.log"]
    assert files.sweep(str(tmp_path / "none")) == []
