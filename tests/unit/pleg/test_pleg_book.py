"""The one writer: the newer look wins, an exit is final, a successor goes on from the table."""

from __future__ import annotations

import pytest

from kubelet.pods.cache import Seen
from kubelet.pods.runtime import (
    RUNTIME_KEY,
    TABLE,
    ContainerRecord,
    ContainerState,
    PodRecord,
    RuntimeRecord,
    SandboxRecord,
)
from procs.pleg.book import Book, final
from shm.errors import TableFull

NOW = 10_000


def pod(state=ContainerState.RUNNING, uid="u", **more):
    return PodRecord(
        uid,
        sandboxes=(SandboxRecord("s"),),
        containers=(ContainerRecord("c", "app", state=state, **more),),
    )


@pytest.fixture
def book(process):
    return Book(process, clock=lambda: NOW)


def test_a_change_is_written_hinted_and_noted(process, book):
    """G-4: cached with the time at which the look began; the events are noted."""
    assert book.commit(pod(), 5, {})
    assert process.view.pod("u") == Seen(pod(), 5)
    assert process.hints == ["u"]
    assert [(r[0], r[1]) for r in process.records] == [
        ("ContainerDied", "s"),
        ("ContainerStarted", "c"),
    ]


def test_what_did_not_change_is_not_written(process, book):
    """Unless somebody waits for the stamp."""
    book.commit(pod(), 5, {})
    assert not book.commit(pod(), 6, {})
    assert process.view.pod("u").stamp_ns == 5
    assert not book.commit(pod(), 7, {}, asked=True)
    assert process.view.pod("u").stamp_ns == 7


def test_an_older_look_does_not_overwrite_a_newer_one(process, book):
    """A full look that took long finds the pod looked at since."""
    book.commit(pod(exit_code=2), 9, {})
    assert not book.commit(pod(exit_code=1), 5, {})
    book.remove("u", 5)
    assert process.view.pod("u") == Seen(pod(exit_code=2), 9)
    assert process.row.counters["looks_overtaken"] == 1


def test_an_exit_is_final(book):
    """A look that asked before the exit and ends after it does not bring the container back."""
    ended = pod(ContainerState.EXITED, exit_code=3)
    book.commit(pod(), 5, {})
    book.amend("u", ended.containers[0])
    assert book.records["u"] == ended
    book.commit(pod(), 6, {})
    assert book.records["u"] == ended
    assert final(None, pod()) == pod()
    assert final(ended, pod(uid="u")) == ended


def test_an_exit_ahead_of_its_look_keeps_the_stamp(process, book):
    """The rest of the pod was not looked at."""
    book.commit(pod(), 5, {})
    book.amend("u", pod(ContainerState.EXITED).containers[0])
    seen = process.view.pod("u")
    assert seen.stamp_ns == 5
    assert seen.record.containers[0].state is ContainerState.EXITED
    book.amend("nobody", ContainerRecord("c", "app"))
    book.amend("u", ContainerRecord("unknown", "app"))
    assert book.records["u"] == seen.record


def test_a_pod_that_a_full_look_did_not_find_goes(process, book):
    """With the events of its end; and one whose end was seen before goes in silence."""
    book.commit(pod(), 5, {})
    book.remove("u", 6)
    assert process.tables.get(TABLE, "u") is None
    assert ("ContainerRemoved", "c", "u") in process.records
    book.commit(PodRecord("v"), 7, {}, asked=True)
    noted = len(process.records)
    book.remove("v", 8)
    assert len(process.records) == noted


def test_watchers_hear_of_changes_alone(book):
    """Such as those who keep a descriptor for what runs."""
    heard = []
    book.on_change(lambda uid, record: heard.append((uid, record)))
    book.commit(pod(), 5, {})
    book.commit(pod(), 6, {}, asked=True)
    book.remove("u", 7)
    assert heard == [("u", pod()), ("u", None)]


def test_a_full_look_speaks_for_all_but_the_unseen(book):
    """The same rule as the readers'."""
    book.commit(pod(), 5, {})
    book.looked_in_full(8, ["v"])
    assert (book.seen_ns("u"), book.seen_ns("v"), book.seen_ns("w")) == (8, 0, 8)


def test_only_a_change_of_the_runtime_is_hinted(process, book):
    """The stamp of the full look moves each second without waking anybody."""
    book.looked_in_full(8, [])
    book.put_runtime(RuntimeRecord(name="sim"))
    assert process.hints == [RUNTIME_KEY]
    book.looked_in_full(9, [])
    book.put_runtime(RuntimeRecord(name="sim"))
    assert process.hints == [RUNTIME_KEY]
    assert process.view.runtime() == (RuntimeRecord(name="sim"), 9)


def test_a_successor_goes_on_from_the_table(process, book):
    """Records, stamps and shapes are there again; nothing is written for it."""
    book.commit(pod(), 5, {})
    book.looked_in_full(8, ["v"])
    book.put_runtime(RuntimeRecord(name="sim", unseen=("v",)))
    hints = list(process.hints)
    successor = Book(process, clock=lambda: NOW)
    successor.load()
    assert successor.records == {"u": pod()}
    assert successor.shapes == {"u": {"c": 1, "s": 101}}
    assert (successor.seen_ns("u"), successor.seen_ns("v")) == (8, 0)
    assert process.hints == hints


def test_what_is_odd_in_the_table_is_looked_at_again(process, book):
    """An entry that is no record, and stamps of another boot."""
    process.tables.put(TABLE, "x", {"nonsense": 1}, 5)
    process.tables.put(TABLE, "y", pod(uid="y").to_wire(), NOW + 1)
    process.tables.put(TABLE, RUNTIME_KEY, RuntimeRecord().to_wire(), NOW + 1)
    book.load()
    assert set(book.uids) == {"x", "y"}
    assert book.shapes == {"x": None, "y": None}
    assert (book.seen_ns("x"), book.seen_ns("y"), book.full_look_ns) == (0, 0, 0)
    assert book.commit(pod(uid="x"), 6, {})


def test_a_full_table_keeps_the_old_entry_and_says_so(process, book, monkeypatch):
    """The pod is looked at again; its reader sees from the stamp that it is old."""
    book.commit(pod(), 5, {})

    def full(*_arguments):
        raise TableFull(TABLE, wanted=1, used=1, limit=1, why="it has reached its limit")

    monkeypatch.setattr(process, "put", full)
    assert not book.commit(pod(ContainerState.EXITED), 6, {})
    assert process.view.pod("u") == Seen(pod(), 5)
    assert book.shapes["u"] is None
    assert "limit" in book.write_problem


def test_an_odd_pod_is_noted_once(process, book):
    """When it becomes odd, not at each look."""
    odd = PodRecord("u", sandboxes=(SandboxRecord("s"),), problems=("it has 2 ready sandboxes",))
    book.commit(odd, 5, {})
    book.commit(odd, 6, {}, asked=True)
    assert [r for r in process.records if r[0] == "odd-pod"] == [
        ("odd-pod", "it has 2 ready sandboxes", "u")
    ]
