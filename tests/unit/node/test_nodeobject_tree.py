"""Ready tells the truth about the kubelet's own processes: which one, since when."""

from __future__ import annotations

import json
import os

import pytest

from procs.node.nodeobject.tree import Judge, Look, Tree, judge, worked_ns
from shm.board import Row, RowWriter
from supervisor.statereader import parse
from tests.unit.node.nodeobject_scene import SECOND, WALL, process_of, state_of

ENDED = {"reason": "exit code 70", "at_ns": 0, "report": None}


def row(pid, beat_s, started_s=1):
    """A row of the board."""
    return Row(pid, started_s * SECOND, 1, int(beat_s * SECOND), "", "", 0, "", 0, 0, ((0, 0),) * 2)


def ended(at_s):
    return {**ENDED, "at_ns": int(at_s * SECOND)}


def look(*processes, rows=(), **more):
    """The tree as it was seen."""
    state = parse(json.dumps(state_of(list(processes), **more)).encode(), "state.json")
    return Look(state, dict(rows))


@pytest.mark.parametrize(
    ("process", "seen", "expected_s"),
    [
        (process_of("pleg", started_ns=SECOND), row(7, 50), 50),  # it beats
        (process_of("pleg", started_ns=SECOND), row(8, 50), 1),  # that was its predecessor
        (process_of("pleg", started_ns=SECOND), None, 1),
        (process_of("pleg", started_ns=49 * SECOND), row(7, 49.9), 1),  # too young to tell
        (process_of("pleg", started_ns=49 * SECOND), row(7, 50), 50),
        (process_of("pleg", 0, "backoff", 40 * SECOND, ended(50)), row(7, 50), 50),
        (process_of("pleg", 0, "backoff", 40 * SECOND, ended(40.5)), row(7, 40.4), 1),  # at birth
    ],
)
def test_when_a_process_last_worked(process, seen, expected_s):
    """A life of a second counts, from its last beat or its end; the tree's start counts for all."""
    (found,) = look(process).state.processes
    assert worked_ns(found, seen, SECOND) == expected_s * SECOND


DOWN = process_of("syncloop", 0, "backoff", 9 * SECOND, ended(9.2))


@pytest.mark.parametrize(
    ("at", "before_s", "now_s", "silent", "again_s"),
    [
        (look(process_of("pleg"), rows={"pleg": row(7, 99)}), {}, 100, [], 0),
        (look(DOWN), {}, 3, [], 0),
        (look(DOWN), {}, 20, [], 31),
        (look(DOWN), {}, 32, ["syncloop"], 0),
        (look(DOWN), {"syncloop": 10}, 32, [], 40),
        (look(DOWN), {"syncloop": 10}, 41, ["syncloop"], 0),
        (look(process_of("pleg"), rows={"pleg": row(7, 50)}), {}, 81, ["pleg"], 81.5),
        (look(DOWN, phase="stopping"), {}, 99, [], 0),
        (look(process_of("node", 0, "backoff"), process_of("other", 0)), {}, 99, [], 0),
    ],
)
def test_who_is_silent_for_too_long(at, before_s, now_s, silent, again_s):
    """Thirty seconds; and when it is worth another look. This process itself is not judged."""
    before = {kind: s * SECOND for kind, s in before_s.items()}
    found = judge(at, before, now_s * SECOND)
    assert [one.kind for one in found.silences] == silent
    assert found.again_ns // 10**8 == int(again_s * 10)


def test_a_process_that_is_killed_all_the_time_works():
    """Restarts that come at once cost nothing, however many they are."""
    wells = {}
    for second in range(2, 200, 2):
        process = process_of("pleg", 7, "running", second * SECOND, ended(second))
        found = judge(
            look(process, rows={"pleg": row(7, second + 1.5)}), wells, (second + 2) * SECOND
        )
        wells = found.wells
        assert not found.silences


def test_one_that_dies_at_each_start_does_not():
    """Ten starts of 0.3 s each are no work."""
    wells, found = {}, None
    for second in range(2, 40, 4):
        process = process_of("pleg", 0, "backoff", second * SECOND, ended(second + 0.3))
        found = judge(look(process), wells, (second + 1) * SECOND)
        wells = found.wells
    assert [one.kind for one in found.silences] == ["pleg"]


class Kept(list):
    """What was to be kept."""

    def __call__(self, wells):
        self.append(wells)


def told(judging, at, now_s):
    return judging.judge(at, now_s * SECOND, WALL + now_s * SECOND)


def test_the_sentence_names_who_since_when_and_why():
    """It stays the same for as long as the matter does: an age in it would be news each time."""
    judging = Judge({"syncloop": SECOND}, Kept())
    (first,), _ = told(judging, look(DOWN), 40)
    (second,), _ = judging.judge(look(DOWN), 50 * SECOND, WALL + 51 * SECOND)  # the clock was set
    assert first == second
    assert first == (
        "process syncloop of this kubelet does not work since 2023-11-14T22:13:21Z: "
        "it is down; before, it ended with exit code 70"
    )


def test_a_successor_of_this_process_remembers():
    """Our own restart makes nobody well: what was silent is silent for as long as before."""
    kept = Kept()
    judging = Judge({}, kept)
    told(judging, look(process_of("syncloop"), rows={"syncloop": row(7, 10)}), 10)
    assert kept == []
    told(judging, look(DOWN), 20)
    assert kept == [{"syncloop": 10 * SECOND}]
    told(judging, look(DOWN), 21)
    assert len(kept) == 1
    successor = Judge(kept[0], kept)
    assert told(successor, look(DOWN), 39)[0] == []
    assert told(successor, look(DOWN), 41)[0] != []
    well = look(process_of("syncloop", started_ns=50 * SECOND), rows={"syncloop": row(7, 52)})
    assert told(successor, well, 52)[0] == []
    assert kept[-1] == {}


def test_who_died_with_this_process_is_not_blamed():
    """In an old tree, a second after both were killed: nobody remembers that it ever worked."""
    kept = Kept()
    young = process_of("pleg", 8, "running", 100 * SECOND, ended(99.9))
    successor = Judge({}, kept)
    assert told(successor, look(young, rows={"pleg": row(8, 100.1)}), 101)[0] == []
    down = process_of("pleg", 0, "backoff", 100 * SECOND, ended(100.2))
    assert told(successor, look(down), 130)[0] == []
    assert kept == [{"pleg": 101 * SECOND}]
    assert told(successor, look(down), 132)[0] != []  # but it has not come back


def test_a_gap_in_our_own_time_excuses_everyone():
    """A machine that stood still for a minute has no silent processes after it."""
    judging = Judge({}, Kept())
    well = look(process_of("pleg"), rows={"pleg": row(7, 10)})
    judging.alive(10 * SECOND)
    assert told(judging, well, 10)[0] == []
    assert told(judging, well, 80)[0] == []  # nobody has beaten yet, and we were away too
    for second in range(81, 120):
        judging.alive(second * SECOND)
    assert told(judging, well, 120)[0] != []  # but by now it should have


def test_reading(tmp_path):
    """The supervisor's file and the rows of the board; without them nobody is blamed."""
    tree = Tree(str(tmp_path))
    assert tree.look() is None
    for text in ("", "{", '{"schema": 9}', '{"schema": 1}', "[]"):
        (tmp_path / "state.json").write_text(text)
        assert tree.look() is None
    os.mkdir(tmp_path / "board")
    (tmp_path / "board" / "api").write_text("nonsense")
    writer = RowWriter.create(tmp_path / "board" / "pleg")
    writer.beat()
    writer.close()
    (tmp_path / "state.json").write_text(json.dumps(state_of([process_of("pleg", os.getpid())])))
    found = tree.look()
    assert list(found.rows) == ["pleg"]
    assert found.rows["pleg"].pid == os.getpid()
    assert found.state.processes[0].name == "pleg"
