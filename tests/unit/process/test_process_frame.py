"""A process's frame: its tables, its operations, its heartbeat, and where errors end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubelet.process.frame import leaves
from kubelet.process.heartbeat import Heartbeat
from kubelet.process.operations import Operations, pod_of
from kubelet.process.tables import Tables
from shm.board import RowWriter, read_row
from shm.table import Writer
from shm.tables import BY_NAME, TABLES


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with every table in it, as the supervisor makes them."""
    for declaration in TABLES:
        Writer.attach(tmp_path, declaration).close()
    return tmp_path


@pytest.fixture
def row(tmp_path: Path):
    """A row on the board."""
    row = RowWriter.create(tmp_path / "row")
    yield row
    row.close()


def test_what_the_writer_puts_the_reader_gets(directory: Path) -> None:
    """Values go through MessagePack; a reader that sees a change names the table at its tick."""
    pleg, syncloop = Tables(directory, "pleg"), Tables(directory, "syncloop")
    syncloop.tick()
    pleg.put("runtime", "uid", {"state": "running"}, stamp_ns=7)
    assert syncloop.value("runtime", "uid") == {"state": "running"}
    assert syncloop.get("runtime", "uid").stamp_ns == 7
    assert syncloop.tick() == ["runtime"]
    assert syncloop.tick() == []
    assert dict(syncloop.items("runtime")) == {"uid": {"state": "running"}}
    assert syncloop.read["runtime"] == "pleg"
    with pytest.raises(KeyError):
        syncloop.put("runtime", "uid", {})
    pleg.close()
    syncloop.close()


def test_a_broken_table_is_empty_is_complained_about_and_comes_back(directory: Path) -> None:
    """The reader lives on, asks at each tick, and reads the writer's new table when it is there."""
    path = directory / "runtime"
    path.write_bytes(b"\xff" * 8192)
    reader = Tables(directory, "syncloop")
    asked: list[str] = []
    reader.on_broken(lambda table, _reason: asked.append(table))
    assert reader.value("runtime", "uid") is None
    assert list(reader.items("runtime")) == []
    assert "runtime" in reader.unavailable
    reader.tick()
    reader.tick()
    assert asked == ["runtime", "runtime"]
    writer = Tables(directory, "pleg")
    assert writer.writers["runtime"].reason
    writer.put("runtime", "uid", 1)
    assert "runtime" in reader.tick()
    assert reader.value("runtime", "uid") == 1
    assert reader.unavailable == {}
    writer.close()
    reader.close()


def test_a_replaced_table_is_followed(directory: Path) -> None:
    """A reader of a table that its writer had to begin anew sees the new one at its next tick."""
    reader = Tables(directory, "api")
    (directory / "stats").write_bytes(b"")  # truncated by somebody: its mapping must not be read
    (directory / "stats").unlink()
    fresh = Writer.attach(directory, BY_NAME["stats"])
    fresh.put("node", b"\x01")
    assert "stats" in reader.tick()
    assert reader.value("stats", "node") == 1
    fresh.close()
    reader.close()


def test_the_board_shows_the_operation_begun_last_that_still_goes_on(row, tmp_path: Path) -> None:
    """An inner one hides the outer, which shows again when it is over."""
    operations = Operations(row)
    with operations.doing("outer", pod="a"):
        with operations.doing("inner", pod="b"):
            found = read_row(tmp_path / "row")
            assert (found.operation, found.pod) == ("inner", "b")
        assert read_row(tmp_path / "row").operation == "outer"
    assert read_row(tmp_path / "row").operation == ""


def test_an_error_remembers_the_innermost_pod(row) -> None:
    """That is the one which it happened on, also inside groups of groups."""
    operations = Operations(row)
    with (
        pytest.raises(ValueError) as caught,
        operations.doing("all", pod="outer"),
        operations.doing("one", pod="inner"),
    ):
        raise ValueError("x")
    assert pod_of(caught.value) == "inner"
    group = ExceptionGroup("a", [KeyError(), ExceptionGroup("b", [caught.value])])
    assert [pod_of(leaf) for leaf in leaves(group)] == ["", "inner"]


def test_the_heartbeat_is_the_loops_own(row, tmp_path: Path) -> None:
    """It beats while the loop turns, not while it is blocked, and then says how late it was."""

    async def live() -> None:
        beat = Heartbeat(row, 0.01)
        first = asyncio.Event()
        beat.start(first.set)
        await first.wait()
        await asyncio.sleep(0.05)
        before = read_row(tmp_path / "row").beats
        assert before > 2
        blocked_until = asyncio.get_running_loop().time() + 0.2
        while asyncio.get_running_loop().time() < blocked_until:
            assert read_row(tmp_path / "row").beats == before
        await asyncio.sleep(0.02)
        beat.stop()

    asyncio.run(live())
    found = read_row(tmp_path / "row")
    assert found.lag_max_ns > 150_000_000
