"""List and watch against a server on the loopback that follows a script."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from procs.node.apiserver.client import Client
from procs.node.apiserver.limiter import Limits
from procs.node.apiserver.reflector import Reflector, Timing, watching
from procs.node.apiserver.types import Watched
from tests.unit.node.loopback import (
    Time,
    answer,
    frame,
    hang_up,
    refusal,
    serving,
    status_object,
    story,
    watch,
)

PODS = Watched("/api/v1/pods", fields="spec.nodeName=n", name="pods")


def pod(name, version):
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def full(name, version):
    return {"apiVersion": "v1", "kind": "Pod", **pod(name, version)}


def pods(version, *items, more=""):
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return answer({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


def bookmark(version):
    return frame("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


class Notes:
    """A Watcher that keeps what is true, and what it was told."""

    def __init__(self):
        self.told = []
        self.now = {}
        self.errors = []

    def listed(self, items, version):
        self.told.append(("listed", version))
        self.now = {i["metadata"]["name"]: i for i in items}

    def changed(self, item):
        self.told.append(("changed", item["metadata"]["name"], item["metadata"]["resourceVersion"]))
        self.now[item["metadata"]["name"]] = item

    def deleted(self, item):
        self.told.append(("deleted", item["metadata"]["name"]))
        self.now.pop(item["metadata"]["name"], None)


class Scene:
    """A reflector at work."""

    def __init__(self, server, transport, seconds=0.0, timing=None):
        self.time = Time()
        self.server = server
        self.notes = Notes()
        client = Client(transport, Limits(), self.time, sleep=self.time.sleep)

        def clock():
            self.time.pass_(seconds)
            return self.time()

        self.reflector = Reflector(
            client,
            transport,
            PODS,
            self.notes,
            self.notes.errors.append,
            random.Random(4),
            clock,
            sleep=self.time.sleep,
            timing=timing,
        )

    @property
    def asked(self):
        """What was asked: for lists the version and page, for watches the version alone."""
        found = []
        for a in self.server.asked:
            q = a.query
            if "watch" in q:
                found.append(("watch", q["resourceVersion"]))
            else:
                version = q.get("resourceVersion", "")
                found.append(("list", version, q.get("limit", ""), q.get("continue", "")))
        return found


@contextlib.asynccontextmanager
async def scene(*script, **more):
    async with serving(*script) as (server, transport):
        found = Scene(server, transport, **more)
        task = asyncio.create_task(found.reflector.run())
        try:
            yield found
        finally:
            await found.reflector.stop()
            if not task.cancelled() and task.exception():
                raise task.exception()


def told(*script, **more):
    """Run a script to its end; the scene as it is then."""

    async def go():
        async with scene(*script, **more) as found:
            await found.server.idle.wait()
        return found

    return story(go())


def test_a_list_then_changes_in_order():
    """Everything is told in order; a list says what its items are, as a watch does."""
    found = told(
        pods(5, pod("a", 3), pod("b", 4)),
        watch(
            frame("ADDED", full("c", 6)) + frame("MODIFIED", full("a", 7)),
            frame("DELETED", full("b", 8)),
        ),
    )
    assert found.notes.told == [
        ("listed", "5"),
        ("changed", "c", "6"),
        ("changed", "a", "7"),
        ("deleted", "b"),
    ]
    assert found.notes.now == {"a": full("a", 7), "c": full("c", 6)}
    assert found.asked == [("list", "0", "", ""), ("watch", "5"), ("watch", "8")]
    assert found.reflector.synced.is_set()
    assert found.notes.errors == [None]
    assert found.time.slept == []
    first, second = (a.query for a in found.server.asked[:2])
    assert first == {"fieldSelector": "spec.nodeName=n", "resourceVersion": "0"}
    assert second["fieldSelector"] == "spec.nodeName=n"
    assert second["allowWatchBookmarks"] == "true"
    assert 300 <= int(second["timeoutSeconds"]) <= 600


def test_the_end_of_a_watch_is_normal_and_bookmarks_count():
    """A watch that ends is resumed at once where it, or a bookmark, was; nothing is listed."""
    found = told(
        pods(5),
        watch(frame("ADDED", full("a", 6)), bookmark(9)),
        watch(bookmark(12)),
        watch(frame("MODIFIED", full("a", 13)), bookmark(11)),  # what came last counts
    )
    assert found.asked == [
        ("list", "0", "", ""),
        ("watch", "5"),
        ("watch", "9"),
        ("watch", "12"),
        ("watch", "11"),
    ]
    assert found.time.slept == []
    assert found.notes.errors == [None]


def test_a_version_that_is_too_old_is_listed_anew_at_once():
    """410 as an answer: a list of what the server has; if that is no better, of the store (P-4)."""
    found = told(
        pods(5, pod("a", 3), pod("b", 4)),
        refusal(410, "Expired", "too old resource version"),
        pods(5, pod("a", 3)),
        refusal(410, "Expired"),
        pods(50, pod("a", 3)),
    )
    assert found.asked == [
        ("list", "0", "", ""),
        ("watch", "5"),
        ("list", "5", "", ""),
        ("watch", "5"),
        ("list", "", "500", ""),
        ("watch", "50"),
    ]
    assert found.server.asked[2].query["resourceVersionMatch"] == "NotOlderThan"
    assert set(found.time.slept) == {0.0}
    assert found.notes.now.keys() == {"a"}  # what was deleted meanwhile is gone with the list
    assert found.notes.errors == [None]


def test_a_version_that_is_too_old_in_an_event():
    """410 within a watch does the same."""
    gone = status_object(410, "Expired", "too old resource version: 5 (90)")
    found = told(pods(5), watch(frame("ADDED", full("a", 6)), frame("ERROR", gone)), pods(90))
    assert found.asked[2:] == [("list", "6", "", ""), ("watch", "90")]
    assert set(found.time.slept) == {0.0}


def test_a_list_that_is_too_old_is_read_from_the_store():
    """A list from a version that the server cannot give is not asked for again."""
    found = told(refusal(410, "Expired"), pods(50))
    assert found.asked[:2] == [("list", "0", "", ""), ("list", "", "500", "")]


def test_gone_for_ever_is_not_a_hot_loop():
    """A server for which every version is too old is asked ever less often."""
    found = told(*[pods(5), refusal(410, "Expired")] * 8)
    waits = [s for s in found.time.slept if s]
    assert len(waits) >= 5
    assert waits[-1] > 2


def test_half_a_frame_is_dropped_and_comes_again():
    """A watch that ends within a frame is resumed before it."""
    whole = frame("MODIFIED", full("a", 7))
    found = told(
        pods(5, pod("a", 3)), watch(frame("ADDED", full("b", 6)), whole[:20]), watch(whole)
    )
    assert found.asked == [("list", "0", "", ""), ("watch", "5"), ("watch", "6"), ("watch", "7")]
    assert found.notes.told[1:] == [("changed", "b", "6"), ("changed", "a", "7")]


def test_a_broken_connection_is_resumed():
    """A connection that breaks within a watch, chunk and all, loses nothing."""

    async def broken(_asked, writer):
        data = frame("ADDED", full("a", 6))
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%s\r\n" % (len(data), data) + b"500\r\nabc")

    found = told(pods(5), broken, watch(frame("DELETED", full("a", 7))))
    assert found.asked[1:] == [("watch", "5"), ("watch", "6"), ("watch", "7")]
    assert [e and e.status for e in found.notes.errors] == [None, 0, None]
    assert found.notes.now == {}


def test_garbage_is_told_resumed_and_then_gone_around():
    """Garbage is a sentence; the watch is resumed once, then everything is listed."""
    found = told(
        pods(5),
        watch(frame("ADDED", full("a", 6)), b"<html>busy</html>\n"),
        watch(b"<html>busy</html>\n"),
        pods(8, pod("a", 6)),
    )
    assert found.asked == [
        ("list", "0", "", ""),
        ("watch", "5"),
        ("watch", "6"),
        ("list", "6", "", ""),
        ("watch", "8"),
    ]
    said = [str(e) for e in found.notes.errors if e]
    assert said == ["the watch sent 17 bytes that are not JSON"] * 2
    assert found.notes.errors[-1] is None


def test_a_version_that_the_server_has_not_heard_of():
    """After a restart of server or store: wait as asked, list again, and then from the store."""
    large = refusal(
        504,
        "Timeout",
        "Timeout: Too large resource version: 9, current: 2",
        {"retryAfterSeconds": 1, "causes": [{"reason": "ResourceVersionTooLarge"}]},
    )
    found = told(
        pods(5, pod("a", 3), pod("b", 3)),
        watch(bookmark(9)),
        large,
        large,
        pods(2, pod("a", 2)),
    )
    assert found.asked == [
        ("list", "0", "", ""),
        ("watch", "5"),
        ("watch", "9"),
        ("list", "9", "", ""),
        ("list", "", "500", ""),
        ("watch", "2"),
    ]
    assert found.time.slept == [1.0, 1.0]
    assert found.notes.now == {"a": full("a", 2)}


def test_pages():
    """A list from the store comes in pages, and is told as one."""
    found = told(
        refusal(410, "Expired"),
        pods(50, pod("a", 1), more="m1"),
        pods(50, pod("b", 2), more="m2"),
        pods(50, pod("c", 3)),
    )
    assert found.asked[1:] == [
        ("list", "", "500", ""),
        ("list", "", "500", "m1"),
        ("list", "", "500", "m2"),
        ("watch", "50"),
    ]
    assert found.notes.told == [("listed", "50")]
    assert found.notes.now.keys() == {"a", "b", "c"}


def test_pages_that_expire():
    """Pages that took too long are given up for one whole list; none is told twice."""
    found = told(
        refusal(410, "Expired"),
        pods(50, pod("a", 1), more="m1"),
        refusal(410, "Expired"),
        pods(60, pod("a", 1), pod("b", 2)),
    )
    assert found.asked[1:] == [
        ("list", "", "500", ""),
        ("list", "", "500", "m1"),
        ("list", "", "", ""),
        ("watch", "60"),
    ]
    assert found.notes.told == [("listed", "60")]


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"metadata": None},
        {"metadata": {"resourceVersion": "6"}},
        {"metadata": {"name": "x"}},
        {"metadata": {"name": 7, "resourceVersion": "6"}},
        {"metadata": {"name": "x", "resourceVersion": 6}},
        None,
        [],
        "x",
    ],
)
def test_odd_objects_are_left_out(bad, capfd):
    """An object that cannot be told from others is a line in the log, and nothing else."""
    found = told(
        pods(5, bad, pod("a", 1)),
        watch(frame("ADDED", bad), frame("MODIFIED", full("a", 7)), frame("ODD", full("a", 7))),
    )
    assert found.notes.told == [("listed", "5"), ("changed", "a", "7")]
    assert found.notes.errors == [None]
    lines = capfd.readouterr().err
    assert lines.count("Object left out") == 2
    assert lines.count("unknown type left out") == 1


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "PodList", "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": 4}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "4"}, "items": 5},
        {"kind": "PodList", "metadata": {"resourceVersion": "4", "continue": "x"}, "items": []},
    ],
)
def test_an_odd_list_is_no_list(body):
    """A list that makes no sense is an error that passes; it does not empty what is known."""
    found = told(answer(body), answer(body), pods(5, pod("a", 1)))
    assert found.notes.told == [("listed", "5")]
    assert found.notes.errors[0].passing


def test_an_empty_list_may_have_no_items():
    """Null is how an empty list may be written."""
    found = told(
        answer({"kind": "PodList", "metadata": {"resourceVersion": "4"}, "items": None}),
    )
    assert (found.notes.told, found.notes.now) == ([("listed", "4")], {})


def test_an_error_event_that_is_none():
    """An ERROR without a status is an error all the same."""
    found = told(pods(5), watch(b'{"type":"ERROR","object":7}\n'))
    assert [e and e.status for e in found.notes.errors] == [None, 502]


def test_waits_grow_while_it_fails_and_the_server_is_asked_less():
    """401, 403, 429, 5xx: told, and asked for with waits that double to 30 s."""
    script = [refusal(s, "X", f"no {s}") for s in (401, 403, 429, 500, 503) * 3]
    found = told(*script, pods(5))
    waits = found.time.slept[:15]
    bounds = [min(30.0, 0.2 * 2**n) for n in range(15)]
    assert all(b / 2 <= w <= b for w, b in zip(waits, bounds, strict=True))
    assert [e.status for e in found.notes.errors[:5]] == [401, 403, 429, 500, 503]
    assert found.notes.errors[-1] is None


def test_retry_after_is_kept():
    """A watch that is refused with Retry-After is not asked for before."""
    found = told(pods(5), refusal(429, "TooManyRequests", retry_after="17"))
    assert found.time.slept == [17.0]


def test_a_server_that_is_away_is_looked_for_often():
    """Without an answer the longest wait is five seconds."""
    found = told(*[hang_up] * 14, pods(5))
    assert found.time.slept[0] <= 0.2
    assert all(2.5 <= wait <= 5 for wait in found.time.slept[6:14])
    assert all(e.unreachable for e in found.notes.errors[:14])


def test_watches_that_end_at_once_again_and_again_wait():
    """A watch that ends before it brought anything has failed."""
    found = told(pods(5), *[watch()] * 6)
    assert len(found.time.slept) == 6
    assert found.time.slept[5] > found.time.slept[0]
    assert str(found.notes.errors[-1]) == "the watch of pods ended at once"


def test_watches_that_end_after_their_time_do_not():
    """A quiet watch that lasts is resumed at once."""
    found = told(pods(5), *[watch()] * 6, seconds=100)
    assert found.time.slept == []
    assert found.notes.errors == [None]


def test_a_watch_that_worked_is_resumed_at_once_when_it_breaks():
    """The first retry after a healthy time comes without a wait."""
    found = told(pods(5), watch(b"garbage\n"), watch(bookmark(6)), seconds=30)
    assert found.time.slept == [0.0]


def test_a_silent_watch_is_ended_when_the_server_did_not():
    """A connection over which nothing comes any more is given up after its time."""
    never = asyncio.Event()
    found = told(
        pods(5),
        watch(bookmark(7), hold=never),
        timing=Timing(shortest=0, longest=0, overdue=0.05),
    )
    assert found.asked[:3] == [("list", "0", "", ""), ("watch", "5"), ("watch", "7")]
    assert found.notes.errors == [None]


def test_stop_is_the_end():
    """After a stop nothing is told, and no connection is left."""

    async def go():
        hold = asyncio.Event()
        late = watch(frame("ADDED", full("a", 6)), hold=hold)
        async with scene(pods(5), late) as found:
            await found.server.count(2)
            await found.reflector.stop()
            before = list(found.notes.told)
            hold.set()
            await asyncio.sleep(0)
            assert found.notes.told == before
            await found.reflector.stop()  # again is nothing

    story(go())


def test_stop_before_the_start():
    """A reflector that was stopped before it ran asks nothing."""

    async def go():
        async with serving() as (server, transport):
            found = Scene(server, transport)
            await found.reflector.stop()
            await found.reflector.run()
            return server.asked

    assert story(go()) == []


def test_what_a_kit_watches_with():
    """The factory spawns the reflector in the process, named after what it watches."""

    class Process:
        def __init__(self):
            self.names = []

        def spawn(self, work, name):
            self.names.append(name)
            return asyncio.create_task(work)

    async def go():
        async with serving(pods(5, pod("a", 1))) as (server, transport):
            process, notes = Process(), Notes()
            found = watching(process, Client(transport, Limits()))(PODS, notes, None)
            await server.idle.wait()
            await found.stop()
            return process.names, notes.told

    assert story(go()) == (["watch pods"], [("listed", "5")])
