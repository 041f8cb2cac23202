"""The recorder against real tables and a server: nothing is lost, nothing is said twice."""

from __future__ import annotations

import asyncio

import pytest

from kubelet import logging as klog
from kubelet.channels.messages import EventNoted, RecordEvent
from kubelet.pods.rows import SOURCES_KEY, Event
from procs.node.apiserver.types import ApiError, Reference
from procs.node.events import recorder, sink
from procs.node.events.sink import Fate, fate
from shm.codec import pack
from tests.unit.node.events_scene import T0, S, scene
from tests.unit.node.loopback import hang_up, refusal, story


def event(reason="Pulled", message="m", at=0.0, **more):
    at_ns = T0 + int(at * S)
    return Event("Normal", reason, message, first_ns=at_ns, last_ns=at_ns, **more)


def run(tmp_path, work):
    async def go():
        async with scene(tmp_path) as found:
            return await work(found)

    return story(go())


def test_a_pods_event_is_told_and_counted(tmp_path):
    """A row of syncloop becomes an event; what is repeated raises its count (N-63)."""

    async def work(s):
        s.live()
        s.happen(event(field_path="spec.containers{c}"))
        await s.kept.until(lambda k: len(k.events) == 1)
        s.happen(event(at=5, field_path="spec.containers{c}"))
        await s.kept.until(lambda k: k.calls == ["POST", "PATCH"])
        s.happen(event("Started", at=6))
        await s.process.row.until("events_told", 3)
        return s.kept, s.process.row.counters

    kept, counters = run(tmp_path, work)
    assert kept.said == [("Pulled", "m", 2), ("Started", "m", 1)]
    assert kept.calls == ["POST", "PATCH", "POST"]
    first = kept.events[f"web.{T0:x}"]
    assert first["involvedObject"] == {
        "kind": "Pod",
        "namespace": "shop",
        "name": "web",
        "uid": "u1",
        "apiVersion": "v1",
        "fieldPath": "spec.containers{c}",
    }
    assert first["source"] == {"component": "kubelet", "host": "n1"}
    assert (first["firstTimestamp"], first["lastTimestamp"]) == (
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:25Z",
    )
    assert counters["events_told"] == 3


def test_events_go_with_their_own_purpose(tmp_path):
    """Events have a rate and connections of their own (C-9)."""
    seen = []

    async def work(s):
        step = s.kept.step

        async def look(asked, writer):
            seen.append((asked.method, asked.headers["x-purpose"], asked.headers["content-type"]))
            await step(asked, writer)

        s.server.script[0] = look
        s.live()
        s.happen(event())
        await s.kept.until(lambda k: len(k.calls) == 1)
        s.happen(event(at=1))
        await s.kept.until(lambda k: len(k.calls) == 2)

    run(tmp_path, work)
    assert seen == [
        ("POST", "events", "application/json"),
        ("PATCH", "events", "application/strategic-merge-patch+json"),
    ]


def test_a_successor_repeats_nothing_and_forgets_nothing(tmp_path):
    """Killed between events: what was told stays told, what happened meanwhile is told."""

    async def work(s):
        s.live()
        s.happen(event())
        s.happen(event("Started"))
        await s.process.row.until("events_told", 2)
        await s.die()
        s.happen(event(at=9))
        s.happen(event("Killing", at=10))
        s.live()
        await s.process.row.until("events_told", 2)
        await s.die()
        s.live()
        s.happen(event("Last", at=11))
        await s.kept.until(lambda k: "Last" in str(k.said))
        return s.kept

    kept = run(tmp_path, work)
    assert sorted(kept.calls) == ["PATCH", "POST", "POST", "POST", "POST"]
    assert sorted(kept.said) == [
        ("Killing", "m", 1),
        ("Last", "m", 1),
        ("Pulled", "m", 2),
        ("Started", "m", 1),
    ]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_killed_within_a_call(tmp_path, method, again):
    """Killed after the server did it and before it was noted: there is one event, counted once.

    It goes on being counted, be it that it happens again before the successor lives or after.
    """

    async def work(s):
        s.live()
        stop = asyncio.Event()
        if method == "PATCH":
            s.happen(event())
            await s.process.row.until("events_told", 1)

        async def never(_asked, _writer):
            stop.set()
            await asyncio.Event().wait()

        s.kept.after = [never]
        s.happen(event(at=1))
        await stop.wait()
        await s.die()
        if again:
            s.happen(event(at=2))
        s.live()
        s.happen(event("Next", at=3))
        await s.process.row.until("events_told", 2)
        before = list(s.kept.said)
        s.happen(event(at=4))
        await s.process.row.until("events_told", 3)
        return before, s.kept.said

    before, after = run(tmp_path, work)
    count = (1 if method == "POST" else 2) + again
    assert before == [("Pulled", "m", count), ("Next", "m", 1)]
    assert after == [("Pulled", "m", count + 1), ("Next", "m", 1)]


def test_the_ledger_lost_is_no_storm(tmp_path):
    """Even without its memory a successor makes no second event: names come from the row."""

    async def work(s):
        s.live()
        s.happen(event())
        s.happen(event("Started", at=1))
        await s.kept.until(lambda k: len(k.events) == 2)
        await s.die()
        (s.directory / "ledger").unlink()
        s.live()
        await s.kept.until(lambda k: len(k.calls) == 4)
        return s.kept

    kept = run(tmp_path, work)
    assert kept.said == [("Pulled", "m", 1), ("Started", "m", 1)]
    assert kept.calls == ["POST"] * 4


def test_a_row_that_goes_is_told_all_the_same(tmp_path):
    """A pod that is forgotten while the server is away does not take its last words with it."""

    async def work(s):
        s.live(attach=False)
        s.happen(event("Killing"))
        s.gone()
        s.attach()
        await s.kept.until(lambda k: len(k.events) == 1)
        return s.kept.said

    assert run(tmp_path, work) == [("Killing", "m", 1)]


def test_what_waits_is_counted_not_queued(tmp_path):
    """While nobody answers, repetitions cost nothing: on return there is one call for each event.

    The wait ends when somebody says that the server is back.
    """

    async def work(s):
        s.live()
        s.kept.troubles = [hang_up]
        s.happen(event())
        await s.kept.until(lambda k: k.calls == ["refused"])
        for n in range(10):
            s.happen(event(at=n + 1))
        s.recorder.wake()
        await s.kept.until(lambda k: k.events)
        return s.kept, s.heard

    kept, heard = run(tmp_path, work)
    assert kept.calls[:2] == ["refused", "POST"]
    assert kept.said == [("Pulled", "m", 11)]
    assert heard[0].unreachable


def test_an_event_that_the_server_lost_is_made_anew(tmp_path):
    """The API server throws events away after an hour; a repetition then is a new event."""

    async def work(s):
        s.live()
        s.happen(event(count=1))
        await s.kept.until(lambda k: k.events)
        s.kept.events.clear()
        s.happen(event(at=2))
        await s.kept.until(lambda k: k.events)
        return s.kept

    kept = run(tmp_path, work)
    assert kept.calls == ["POST", "PATCH", "POST"]
    assert kept.said == [("Pulled", "m", 2)]


TERMINATING = {"causes": [{"reason": "NamespaceTerminating"}]}


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (refusal(403, "Forbidden", "not allowed"), True),
        (refusal(422, "Invalid", "bad"), True),
        (refusal(409, "Conflict", "odd"), True),
        (refusal(403, "Forbidden", "namespace goes", TERMINATING), False),
        (refusal(404, "NotFound", "no namespace"), False),
    ],
)
def test_what_the_server_will_not_have_is_dropped(tmp_path, capfd, step, line):
    """A refusal is a line, once, or nothing where nobody misses it; the next event is told."""
    klog.configure(klog.Settings(verbosity=0))

    async def work(s):
        s.live()
        s.kept.troubles = [step]
        s.happen(event("Bad"))
        s.happen(event("Good", at=1))
        await s.kept.until(lambda k: k.events)
        return s.kept, s.process.row.counters

    kept, counters = run(tmp_path, work)
    assert (kept.calls, kept.said) == (["refused", "POST"], [("Good", "m", 1)])
    assert counters["events_dropped"] == 1
    assert ("Event dropped" in capfd.readouterr().err) is line


@pytest.mark.parametrize(
    ("error", "tries", "age", "found"),
    [
        (ApiError("x", status=0), 100, 10, Fate.RETRY),
        (ApiError("x", status=0), 1, 3601, Fate.DROP_QUIETLY),
        (ApiError("x", status=503), 11, 10, Fate.RETRY),
        (ApiError("x", status=503), 12, 10, Fate.DROP),
        (ApiError("x", status=429), 11, 10, Fate.RETRY),
        (ApiError("x", status=401), 11, 10, Fate.RETRY),
        (ApiError("x", status=401), 12, 10, Fate.DROP),
        (ApiError("x", status=400), 1, 10, Fate.DROP),
        (ApiError("x", status=404), 1, 10, Fate.DROP_QUIETLY),
        (ApiError("x", status=403, details={"causes": "odd"}), 1, 10, Fate.DROP),
    ],
)
def test_fates(error, tries, age, found):
    """Twelve tries where the server answers; as long as it would keep it where it does not."""
    assert fate(error, tries, age * S) is found


def test_an_event_that_fails_lets_others_pass(tmp_path, monkeypatch):
    """A server that fails for one event is asked for the others in between, twelve times in all."""
    monkeypatch.setattr(sink, "APART", 0.001)

    async def work(s):
        s.live()
        s.kept.troubles = [refusal(500, "InternalError")]
        s.happen(event("Bad"))
        s.happen(event("Good", at=1))
        await s.kept.until(lambda k: len(k.events) == 2)
        s.kept.troubles = [refusal(500, "InternalError")] * (sink.TRIES + 5)
        s.happen(event("Worse", at=2))
        await s.process.row.until("events_dropped", 1)
        left = len(s.kept.troubles)
        s.kept.troubles.clear()
        s.happen(event("Fine", at=3))
        await s.kept.until(lambda k: "Fine" in str(k.said))
        return s.kept.said, left

    said, left = run(tmp_path, work)
    assert [reason for reason, _, _ in said] == ["Good", "Bad", "Fine"]
    assert left == 5


@pytest.mark.parametrize(
    ("error", "tries", "chance", "seconds"),
    [
        (ApiError("x"), 1, 0.0, 0.0),
        (ApiError("x"), 1, 0.9, 9.0),
        (ApiError("x"), 2, 0.0, 7.5),
        (ApiError("x"), 9, 0.5, 10.0),
        (ApiError("x", status=429, retry_after=18.0), 1, 0.0, 18.0),
        (ApiError("x", status=429, retry_after=1.0), 2, 0.5, 10.0),
    ],
)
def test_waits_between_tries(error, tries, chance, seconds):
    """About ten seconds lie between tries; the server may ask for more (N-63)."""
    assert sink.pause(error, tries, chance) == pytest.approx(seconds)


def test_a_refusal_is_waited_out(tmp_path):
    """News that the server is back does not shorten a wait that the server asked for."""

    async def work(s):
        s.live()
        s.kept.troubles = [refusal(500, "InternalError")] * 2
        s.happen(event())
        await s.process.row.until("events_retried", 2)  # now it waits for seconds
        for _ in range(100):
            s.recorder.wake()
            await asyncio.sleep(0)
        return s.kept.calls

    assert run(tmp_path, work) == ["refused"] * 2


def test_events_of_the_node_and_of_others(tmp_path):
    """Emit and requests of other processes: kind Node without a name is this node (Q-1)."""

    async def work(s):
        recorder = s.live()
        recorder.emit(recorder._view.reference, "Normal", "Starting", "Starting kubelet.")
        found = await s.process.channels.ask(RecordEvent("Warning", "SystemOOM", "oom", at_ns=T0))
        assert found == EventNoted()
        await s.process.channels.ask(
            RecordEvent(
                "Warning", "Unhealthy", "probe", "Pod", "shop", "web", "u1", "spec.containers{c}"
            )
        )
        await s.kept.until(lambda k: len(k.events) == 3)
        return s.kept, s.process.records

    kept, records = run(tmp_path, work)
    starting, oom, unhealthy = kept.events.values()
    assert starting["involvedObject"] == {
        "kind": "Node",
        "name": "n1",
        "uid": "n1",
        "apiVersion": "v1",
    }
    assert starting["metadata"]["namespace"] == "default"
    assert (oom["metadata"]["name"], oom["type"]) == (f"n1.{T0:x}", "Warning")
    assert unhealthy["involvedObject"]["fieldPath"] == "spec.containers{c}"
    assert unhealthy["metadata"]["namespace"] == "shop"
    assert records[2] == ("event", "Unhealthy: probe", "u1")


def test_emitted_events_survive(tmp_path):
    """What was emitted before a death is told after it, once."""

    async def work(s):
        s.live(attach=False).emit(Reference("Node", "n1", uid="u"), "Normal", "Rebooted", "boot")
        await s.die()
        s.live()
        await s.process.row.until("events_told", 1)
        await s.die()
        s.live().emit(Reference("Node", "n1", uid="u"), "Normal", "Rebooted", "boot")
        await s.kept.until(lambda k: len(k.calls) == 2)
        return s.kept

    kept = run(tmp_path, work)
    assert (kept.calls, kept.said) == (["POST", "PATCH"], [("Rebooted", "boot", 2)])


def test_what_is_said_again_of_the_same_moment_is_told_once(tmp_path):
    """Who does not know whether its predecessor said it, says it again with its moment."""

    async def work(s):
        about, at_ns = Reference("Node", "n1", uid="u"), T0
        s.live().emit(about, "Normal", "NodeReady", "ready", at_ns)
        await s.process.row.until("events_told", 1)
        await s.die()
        successor = s.live()
        successor.emit(about, "Normal", "NodeReady", "ready", at_ns)
        successor.emit(about, "Normal", "NodeReady", "ready", at_ns + 1)
        await s.kept.until(lambda k: len(k.calls) == 2)
        return s.kept

    kept = run(tmp_path, work)
    assert (kept.calls, kept.said) == (["POST", "PATCH"], [("NodeReady", "ready", 2)])


def test_without_an_api_server_events_are_in_the_log(tmp_path, capfd):
    """Standalone: nothing is kept and nothing waits (C-8)."""
    klog.configure(klog.Settings(verbosity=2))

    async def work(s):
        s.happen(event())
        recorder = s.live("--node-ip=127.0.0.1", attach=False)
        recorder.emit(Reference("Node", "n1"), "Normal", "Starting", "here we go")
        assert await s.process.channels.ask(RecordEvent("Normal", "R", "m")) == EventNoted()
        assert s.process.tasks == set()
        return list(s.process.tables.keys("ledger"))

    assert run(tmp_path, work) == []
    lines = capfd.readouterr().err
    assert 'reason="Starting" text="here we go"' in lines
    klog.configure(klog.Settings(verbosity=0))


def test_odd_rows_are_passed_by(tmp_path, capfd):
    """A row that is none of ours, and that of the sources, hurt nobody."""

    async def work(s):
        s.syncloop.put(SOURCES_KEY, pack({"delivered": {}}))
        s.syncloop.put("odd", pack({"what": 1}))
        s.live()
        s.process.hint("*")
        s.process.hint("nobody")
        s.happen(event())
        await s.kept.until(lambda k: k.events)
        return s.kept.said

    assert run(tmp_path, work) == [("Pulled", "m", 1)]
    assert "Events of a pod cannot be read" in capfd.readouterr().err


def test_an_odd_ledger_is_forgotten(tmp_path):
    """What a ledger holds that is no book is deleted, and work goes on."""

    async def work(s):
        s.live(attach=False)
        s.process.tables.put("ledger", "events/u1", {"odd": 1})
        s.process.tables.put("ledger", "other/x", 7)
        await s.die()
        s.live()
        s.happen(event())
        await s.kept.until(lambda k: k.events)
        return s.process.tables.value("ledger", "other/x")

    assert run(tmp_path, work) == 7


def test_old_news_is_no_news(tmp_path):
    """What happened more than an hour ago is not told any more, nor is it a repetition later."""

    async def work(s):
        s.happen(event("Old", at=-3700))
        s.happen(event("Recent", at=-3500))
        s.live()
        await s.kept.until(lambda k: k.events)
        s.happen(event("Old", at=1))
        await s.kept.until(lambda k: len(k.events) == 2)
        return s.kept.said

    assert run(tmp_path, work) == [("Recent", "m", 1), ("Old", "m", 1)]


def test_many_similar_events_become_one(tmp_path):
    """A pod that fails each time with another message does not flood, a successor's life long."""

    async def work(s):
        s.live()
        for n in range(12):
            s.happen(event("Failed", f"no {n}", at=n))
        await s.kept.until(lambda k: len(k.events) == 10 and k.said[9][2] == 3)
        await s.die()
        s.live()
        s.happen(event("Failed", "no 12", at=12))
        await s.kept.until(lambda k: k.said[9][2] == 4)
        return s.kept.said

    said = run(tmp_path, work)
    assert said[:9] == [("Failed", f"no {n}", 1) for n in range(9)]
    assert said[9:] == [("Failed", "(combined from similar events): no 12", 4)]


def test_too_many_wait(tmp_path):
    """A full desk takes no more of what is nowhere else, and counts it; rows wait in the table."""

    async def work(s):
        recorder = s.live(attach=False)
        recorder._desk._limit = 3
        for n in range(5):
            recorder.emit(Reference("Node", f"n{n}"), "Normal", "R", "m")
        for n in range(4):
            s.happen(event(), uid=f"u{n}", name=f"web{n}")
        assert recorder._desk.waiting == 3
        s.attach()
        await s.kept.until(lambda k: len(k.events) == 7)
        return s.kept, s.process.row.counters

    kept, counters = run(tmp_path, work)
    assert counters["events_dropped_full"] == 2
    assert sorted(e["involvedObject"]["name"] for e in kept.events.values()) == [
        "n0",
        "n1",
        "n2",
        "web0",
        "web1",
        "web2",
        "web3",
    ]


def test_what_nobody_needs_is_forgotten(tmp_path):
    """Books of pods that are gone are thrown away after a while; others and unsent ones stay."""

    async def work(s):
        s.live()
        s.happen(event(), uid="u1", name="a")
        s.happen(event(), uid="u2", name="b")
        await s.kept.until(lambda k: len(k.events) == 2)
        s.gone("u1")
        s.wall.now_ns += 700 * S
        s.clock.now_ns += 700 * S
        s.happen(event("Later", at=700), uid="u3", name="c")
        await s.process.row.until("events_told", 3)
        s.happen(event("Later", "n", at=701), uid="u3", name="c")  # so it has pruned before
        await s.process.row.until("events_told", 4)
        return list(s.process.tables.keys("ledger"))

    assert sorted(run(tmp_path, work)) == ["events/u2", "events/u3"]


def test_an_unchanged_row_costs_nothing(tmp_path, monkeypatch):
    """Rows are looked at each second; what is as it was is neither decoded nor written."""
    decoded = []

    async def work(s):
        s.live()
        s.happen(event())
        await s.process.row.until("events_told", 1)
        before = s.process.tables.writers["ledger"].generation
        unpack = recorder.unpack
        monkeypatch.setattr(recorder, "unpack", lambda data: decoded.append(1) or unpack(data))
        for _ in range(5):
            s.process.hint("*")
            s.process.hint("u1")
        assert (decoded, s.process.tables.writers["ledger"].generation) == ([], before)
        s.happen(event("Next", at=1))
        await s.process.row.until("events_told", 2)

    run(tmp_path, work)
    assert decoded == [1]


def test_revoked_rights_are_told(tmp_path):
    """A node that may not write events says so, and that it may again."""

    async def work(s):
        s.live()
        s.kept.troubles = [refusal(403, "Forbidden", "not allowed")]
        s.happen(event("Bad"))
        s.happen(event("Good", at=1))
        await s.process.row.until("events_told", 1)
        return [found and str(found) for found in s.heard]

    assert run(tmp_path, work) == ["not allowed", None]
