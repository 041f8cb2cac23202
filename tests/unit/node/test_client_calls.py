"""Calls to the API server: what is sent, what comes back, and what is said when it goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from kubelet import config
from procs.node.apiserver.client import BAD_ANSWER, Client
from procs.node.apiserver.limiter import Limits, Rate
from procs.node.apiserver.types import ApiError, PatchType, Purpose
from tests.unit.node.loopback import (
    Plain,
    Time,
    answer,
    hang_up,
    refusal,
    serving,
    status_object,
    story,
)

POD = {"kind": "Pod", "metadata": {"name": "p"}}


def client(transport, time=None, **more):
    time = time or Time()
    return Client(transport, Limits(**more.pop("limits", {})), time, sleep=time.sleep, **more)


async def error_of(call):
    with pytest.raises(ApiError) as found:
        await call
    return found.value


def test_each_verb_sends_what_the_api_expects():
    """Method, path, query, content type, body and purpose arrive as they were meant."""

    async def go():
        async with serving(*[answer(POD)] * 6) as (server, transport):
            api = client(transport)
            query = {"fieldSelector": "spec.nodeName=n 1,a!=b&c"}
            assert await api.get("/api/v1/pods", query=query) == POD
            await api.create("/api/v1/pods", POD, purpose=Purpose.EVENTS)
            await api.replace("/a", {"x": "é"}, purpose=Purpose.HEARTBEAT)
            await api.patch("/a", {"x": 1}, PatchType.MERGE)
            await api.patch("/a", [{"op": "test"}], PatchType.JSON)
            await api.delete("/a/b c?d", grace=0, uid="u")
            return server.asked, query

    (get, create, replace, merge, patch, delete), query = story(go())
    assert (get.method, get.path, get.query, get.body) == ("GET", "/api/v1/pods", query, b"")
    assert (create.method, create.json) == ("POST", POD)
    assert create.headers["x-purpose"] == "events"
    assert create.headers["content-type"] == "application/json"
    assert (replace.method, replace.json, replace.headers["x-purpose"]) == (
        "PUT",
        {"x": "é"},
        "heartbeat",
    )
    assert (merge.method, merge.headers["content-type"]) == ("PATCH", PatchType.MERGE.value)
    assert (patch.json, patch.headers["content-type"]) == ([{"op": "test"}], PatchType.JSON.value)
    assert (delete.method, delete.path) == ("DELETE", "/a/b%20c%3Fd")
    assert delete.json == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }


def test_delete_without_wishes_names_none():
    """No grace and no UID: the object's own grace, whichever object it is."""

    async def go():
        async with serving(answer(b"")) as (server, transport):
            assert await client(transport).delete("/a") == {}
            return server.asked[0].json

    assert story(go()) == {"kind": "DeleteOptions", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("step", "status", "reason", "said"),
    [
        (refusal(404, "NotFound", 'pods "x" not found'), 404, "NotFound", 'pods "x" not found'),
        (refusal(403, "Forbidden", "a\nb\x1b[1m"), 403, "Forbidden", "a\\nb\\x1b[1m"),
        (answer(status_object(409, 7, ["?"]), 409), 409, "", "GET /a was answered with 409"),
        (
            answer(b"<html>" + b"x" * 9000, 502, content_type="text/html"),
            502,
            "",
            "GET /a was answered with 502",
        ),
        (
            answer(b"no route\nsecret" + b"y" * 9000, 404, content_type="text/plain"),
            404,
            "",
            "GET /a was answered with 404: no route",
        ),
        (answer(b"\xff\xfe", 500), 500, "", "GET /a was answered with 500"),
        (answer(b"[" * 100_000, 500), 500, "", "GET /a was answered with 500"),
        (
            answer(b"<html>", 200),
            502,
            BAD_ANSWER,
            "GET /a was answered with 200 and 6 bytes that are no JSON object",
        ),
        (
            answer([1], 200),
            502,
            BAD_ANSWER,
            "GET /a was answered with 200 and 3 bytes that are no JSON object",
        ),
        (hang_up, 0, "", "cannot be reached: IncompleteReadError"),
    ],
)
def test_a_failure_is_one_sentence(step, status, reason, said):
    """Whatever comes, the error has its status, its reason and one bounded line of text."""

    async def go():
        async with serving(step) as (_server, transport):
            return await error_of(client(transport).get("/a", query={"token": "s"}))

    found = story(go())
    assert (found.status, found.reason, str(found)) == (status, reason, said)


def test_a_long_message_is_cut():
    """A Status with a huge message does not become a huge line."""

    async def go():
        async with serving(refusal(422, "Invalid", "m" * 100_000)) as (_server, transport):
            return await error_of(client(transport).get("/a"))

    assert len(str(story(go()))) == 2000


def test_details_and_retry_after_are_kept():
    """The details' retryAfterSeconds is what the caller may wait for, if no header says so."""
    details = {"retryAfterSeconds": 3, "causes": [{"reason": "X"}]}

    async def go():
        async with serving(refusal(504, "Timeout", details=details)) as (_server, transport):
            return await error_of(client(transport).get("/a"))

    found = story(go())
    assert (found.retry_after, found.details["causes"]) == (3, [{"reason": "X"}])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_call_is_made_again_when_the_server_asks_for_it(status):
    """429 and 5xx with Retry-After are waited out; the caller sees the answer alone."""
    time = Time()

    async def go():
        script = [refusal(status, retry_after="1"), refusal(status, retry_after="2"), answer(POD)]
        async with serving(*script) as (server, transport):
            api = client(transport, time)
            return await api.create("/a", POD), len(server.asked), api.metrics.retries

    found, calls, retries = story(go())
    assert (found, calls, time.slept) == (POD, 3, [1.0, 2.0])
    assert retries == {str(status): 2}


@pytest.mark.parametrize(
    ("step", "purpose", "calls"),
    [
        (refusal(429), Purpose.MAIN, 1),  # it does not say when
        (refusal(500, details={"retryAfterSeconds": 1}), Purpose.MAIN, 1),  # nor in a header
        (refusal(409, retry_after="1"), Purpose.MAIN, 1),  # waiting does not help
        (refusal(429, retry_after="31"), Purpose.MAIN, 1),  # longer than we are patient
        (refusal(429, retry_after="soon"), Purpose.MAIN, 1),
        (refusal(429, retry_after="-1"), Purpose.MAIN, 1),
        (refusal(429, retry_after="nan"), Purpose.MAIN, 1),
        (refusal(429, retry_after="0"), Purpose.MAIN, 11),  # ten times and no more
        (refusal(429, retry_after="10"), Purpose.MAIN, 4),  # 30 seconds and no more
        (refusal(429, retry_after="2"), Purpose.HEARTBEAT, 1),
    ],
)
def test_patience_ends(step, purpose, calls):
    """A call is not made again for ever, nor where that would not help."""

    async def go():
        async with serving(*[step] * 12) as (server, transport):
            await error_of(client(transport).get("/a", purpose=purpose))
            return len(server.asked)

    assert story(go()) == calls


def test_calls_of_one_purpose_wait_in_order_and_others_do_not():
    """A rate is kept by waiting in order; heartbeats go past (C-9)."""
    time = Time()
    order = []

    async def go():
        async with serving(*[answer(POD)] * 5) as (server, transport):
            api = client(transport, time, limits={"rates": {Purpose.MAIN: Rate(2, 2)}})

            async def call(name, purpose=Purpose.MAIN):
                await api.get(f"/{name}", purpose=purpose)
                order.append(name)

            for name in "abcd":
                await call(name)
            await call("beat", Purpose.HEARTBEAT)
            return [asked.path for asked in server.asked], api.metrics.waits

    paths, waits = story(go())
    assert paths == ["/a", "/b", "/c", "/d", "/beat"]
    assert time.slept == [0.5, 0.5]
    assert (waits[Purpose.MAIN].total, waits[Purpose.MAIN].seconds) == (4, 1.0)
    assert waits[Purpose.HEARTBEAT].seconds == 0


def test_whoever_listens_is_told_whether_the_server_answers():
    """An answer is an answer, whatever it says; silence has a reason."""
    heard = []

    async def go():
        async with serving(answer(POD), refusal(500), hang_up) as (_server, transport):
            api = client(transport, on_call=heard.append)
            await api.get("/a")
            await error_of(api.get("/a"))
            await error_of(api.get("/a"))
            return api.metrics.requests

    counts = story(go())
    assert heard == [None, None, "cannot be reached: IncompleteReadError"]
    assert counts == {("200", "GET"): 1, ("500", "GET"): 1, ("<error>", "GET"): 1}


def test_nobody_listening_on_the_port_is_no_answer():
    """A refused connection has status 0 and may pass."""

    async def go():
        async with serving() as (server, _transport):
            port = server.port
        return await error_of(client(Plain(port)).get("/a"))

    found = story(go())
    assert (found.unreachable, found.passing) == (True, True)


def test_a_cancelled_call_is_gone():
    """Who stops waiting for an answer is not answered later."""

    async def go():
        async with serving() as (server, transport):
            task = asyncio.create_task(client(transport).get("/a"))
            await server.idle.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    story(go())


@pytest.mark.parametrize(
    ("flags", "main", "events", "heartbeat"),
    [
        ([], Rate(50, 100), Rate(50, 100), 10),
        (["--kube-api-qps=7", "--kube-api-burst=9"], Rate(7, 9), Rate(50, 100), 10),
        (["--kube-api-qps=0"], Rate(5, 100), Rate(50, 100), 10),  # the client's own default
        (["--event-qps=0", "--event-burst=3"], Rate(50, 100), Rate(0, 3), 10),  # no limit
        (["--node-status-update-frequency=4s"], Rate(50, 100), Rate(50, 100), 4),
        (["--node-status-update-frequency=2m"], Rate(50, 100), Rate(50, 100), 10),  # the lease
        (["--node-status-update-frequency=100ms"], Rate(50, 100), Rate(50, 100), 1),
    ],
)
def test_limits_come_from_the_configuration(flags, main, events, heartbeat):
    """Each purpose has its rate; a heartbeat's answer is awaited until the next is due (C-9)."""
    found = Limits.of(config.load(flags).config)
    assert (found.rates[Purpose.MAIN], found.rates[Purpose.EVENTS]) == (main, events)
    assert Purpose.HEARTBEAT not in found.rates
    assert found.seconds == {Purpose.HEARTBEAT: heartbeat}
