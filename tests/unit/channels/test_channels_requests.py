"""Requests: replies, refusals, limits and deadlines, between two ends on one loop."""

from __future__ import annotations

import asyncio
import os
import time

import msgpack
import pytest
import zmq

from kubelet.channels import messages, wire
from kubelet.channels.asker import PENDING_LIMIT
from kubelet.channels.channels import Channels
from kubelet.channels.errors import (
    BadReplyError,
    BadRequestError,
    BusyError,
    ChannelError,
    DeniedError,
    ErrorKind,
    FailedError,
    HandlerError,
    PeerDownError,
    RequestTimeoutError,
    UnknownRequestError,
)
from kubelet.channels.messages import (
    CheckTable,
    Metrics,
    MetricsSnapshot,
    Ping,
    Pong,
    Profile,
    Profiled,
    Restart,
    Restarting,
)
from tests.unit.channels.pair import nonzero, pair, pong, until


async def shielded(ask):
    """Await an ask to its end although the group around it is being cancelled meanwhile."""
    asking = asyncio.ensure_future(ask)
    while not asking.done():
        try:
            await asyncio.wait([asking])
        except asyncio.CancelledError:
            continue
    return asking.result()


def test_a_request_is_answered(run_dir):
    """The handler gets the typed message and the caller, the asker the typed reply."""

    async def story():
        async with pair(run_dir) as both:
            seen = []

            async def profile(message, caller):
                seen.append((message, caller))
                return Profiled(3, {"a;b": 2, "a;c": 1})

            both.server.handle(Profile, profile)
            before = time.monotonic_ns()
            reply = await both.client.ask("pleg", Profile(0.5, mode="wall"), timeout=10)
            assert reply == Profiled(3, {"a;b": 2, "a;c": 1})
            ((message, caller),) = seen
            assert message == Profile(0.5, 99, "wall")
            assert (caller.kind, caller.uid, caller.pid) == ("ctl", os.getuid(), os.getpid())
            assert before + 9.9e9 < caller.deadline_ns < time.monotonic_ns() + 10e9

    asyncio.run(story())


def test_many_requests_at_once_each_get_their_own_reply(run_dir):
    """Replies are matched by id, in whatever order they come."""

    async def story():
        async with pair(run_dir) as both:

            async def restart(message, _caller):
                await asyncio.sleep((int(message.reason) * 7 % 5) / 1000)
                return Restarting(int(message.reason))

            both.server.handle(Restart, restart, limit=200)
            asks = (both.client.ask("pleg", Restart(str(n))) for n in range(200))
            replies = await asyncio.gather(*asks)
            assert [reply.pid for reply in replies] == list(range(200))
            assert both.client.depths() == {"asked_pleg": 0, "unsent_pleg": 0}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (ErrorKind.FAILED, FailedError),
        (ErrorKind.TIMEOUT, RequestTimeoutError),
        (ErrorKind.BUSY, BusyError),
    ],
)
def test_an_expected_failure_is_answered_and_the_process_goes_on(run_dir, kind, raised):
    """HandlerError reaches the asker as a typed error with its text."""

    async def story():
        async with pair(run_dir) as both:

            async def ping(_message, _caller):
                raise HandlerError("the runtime is down", kind)

            both.server.handle(Ping, ping)
            for _ in range(3):
                with pytest.raises(raised, match="pleg answered ping: the runtime is down"):
                    await both.client.ask("pleg", Ping())
            assert both.server.counters()["requests_failed"] == 3

    asyncio.run(story())


def test_a_bug_in_a_handler_is_answered_and_then_ends_the_process(run_dir):
    """An exception that nobody expected reaches the asker, and the group that owns the tasks."""

    async def story():
        async with pair(run_dir) as both:

            async def ping(_message, _caller):
                return {}["pod"]

            both.server.handle(Ping, ping)
            with pytest.raises(FailedError, match="KeyError: 'pod'"):
                await shielded(both.client.ask("pleg", Ping()))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert caught.group_contains(KeyError)


def test_a_handler_that_returns_the_wrong_type_is_a_bug(run_dir):
    """A reply must be what the table says."""

    async def story():
        async with pair(run_dir) as both:

            async def ping(_message, _caller):
                return Restarting(1)

            both.server.handle(Ping, ping)
            with pytest.raises(FailedError, match="returned Restarting"):
                await shielded(both.client.ask("pleg", Ping()))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert caught.group_contains(TypeError)


@pytest.mark.parametrize(
    ("sender", "message"),
    [(None, Ping()), ("syncloop", Restart("x")), ("api", Metrics()), ("ctl", CheckTable("pods"))],
)
def test_a_request_from_the_wrong_sender_is_denied(run_dir, sender, message):
    """The handler never runs, the sender is told, and it is counted."""

    async def story():
        async with pair(run_dir) as both:

            async def never(_message, _caller):
                raise AssertionError("reached")

            both.server.handle(type(message), never)
            both.sender = sender
            with pytest.raises(DeniedError):
                await both.client.ask("pleg", message)
            assert both.server.counters()["requests_denied"] == 1

    asyncio.run(story())


def test_a_request_that_nobody_handles_is_unknown(run_dir):
    """A process answers for what it does not handle."""

    async def story():
        async with pair(run_dir) as both:
            with pytest.raises(UnknownRequestError, match="no request 'ping' here"):
                await both.client.ask("pleg", Ping())

    asyncio.run(story())


def test_more_of_a_request_than_its_limit_is_busy(run_dir):
    """What runs goes on; what is too much is told at once."""

    async def story():
        async with pair(run_dir) as both:
            go = asyncio.Event()

            async def ping(_message, _caller):
                await go.wait()
                return Pong("pleg", 1)

            both.server.handle(Ping, ping, limit=2)
            running = [asyncio.create_task(both.client.ask("pleg", Ping())) for _ in range(2)]
            await until(lambda: both.server.depths()["handling_ping"] == 2)
            with pytest.raises(BusyError, match="2 are running already"):
                await both.client.ask("pleg", Ping())
            go.set()
            assert [reply.pid for reply in await asyncio.gather(*running)] == [1, 1]
            assert both.server.depths()["handling_ping"] == 0
            assert (await both.client.ask("pleg", Ping())).pid == 1

    asyncio.run(story())


def test_too_many_pending_requests_to_a_peer_are_refused_here(run_dir):
    """The bound holds while nobody listens, and frees itself."""

    async def story():
        async with pair(run_dir) as both:
            asks = [
                asyncio.create_task(both.client.ask("volumes", Ping(), timeout=0.3))
                for _ in range(PENDING_LIMIT)
            ]
            await asyncio.sleep(0)
            assert both.client.depths()["unsent_volumes"] == PENDING_LIMIT
            with pytest.raises(BusyError, match="are pending"):
                await both.client.ask("volumes", Ping())
            ended = await asyncio.gather(*asks, return_exceptions=True)
            assert {type(error) for error in ended} == {PeerDownError}
            assert both.client.depths()["unsent_volumes"] == 0

    asyncio.run(story())


def test_a_silent_handler_is_a_time_out_and_its_late_reply_is_not_sent(run_dir):
    """The asker gives up at its deadline; the answer that nobody waits for stays unsent."""

    async def story():
        async with pair(run_dir) as both:
            go = asyncio.Event()

            async def ping(_message, _caller):
                await go.wait()
                return Pong("pleg", 1)

            both.server.handle(Ping, ping)
            begun = time.monotonic()
            with pytest.raises(RequestTimeoutError, match=r"did not answer ping within 0\.1 s"):
                await both.client.ask("pleg", Ping(), timeout=0.1)
            assert time.monotonic() - begun < 2
            go.set()
            await until(lambda: both.server.counters()["replies_late"] == 1)
            assert both.client.counters()["answers_late"] == 0

    asyncio.run(story())


def test_a_request_that_arrives_after_its_deadline_is_dropped(run_dir):
    """A process that comes to itself an hour later does nothing that nobody waits for."""

    async def story():
        hour = 3600 * 10**9
        async with pair(run_dir, clock=lambda: time.monotonic_ns() + hour) as both:
            both.server.handle(Ping, pong)
            with pytest.raises(RequestTimeoutError):
                await both.client.ask("pleg", Ping(), timeout=0.1)
            assert both.server.counters()["requests_late"] == 1
            assert both.server.counters()["replies_sent"] == 0

    asyncio.run(story())


def test_a_cancelled_asker_leaves_nothing_behind(run_dir):
    """The reply to a request whose asker was cancelled is counted as late."""

    async def story():
        async with pair(run_dir) as both:
            go = asyncio.Event()

            async def ping(_message, _caller):
                await go.wait()
                return Pong("pleg", 1)

            both.server.handle(Ping, ping)
            asking = asyncio.create_task(both.client.ask("pleg", Ping()))
            await until(lambda: both.server.depths()["handling_ping"] == 1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert both.client.depths()["asked_pleg"] == 0
            go.set()
            await until(lambda: both.client.counters()["answers_late"] == 1)

    asyncio.run(story())


def test_closing_tells_who_still_waits(run_dir):
    """No asker hangs on a channel that is closed under it."""

    async def story():
        async with pair(run_dir) as both:
            asking = asyncio.create_task(both.client.ask("volumes", Ping(), timeout=60))
            await asyncio.sleep(0)
            await both.client.close()
            with pytest.raises(ChannelError, match="closed"):
                await asking

    asyncio.run(story())


def test_a_request_over_the_limit_is_not_sent(run_dir):
    """A message of a megabyte is refused where it is made."""

    async def story():
        async with pair(run_dir) as both:
            with pytest.raises(BadRequestError, match="allowed is 1048576"):
                await both.client.ask("pleg", Restart("x" * wire.MAX_FRAME))

    asyncio.run(story())


def test_a_reply_over_the_limit_is_a_failure_with_its_size(run_dir):
    """The asker learns why there is no reply."""

    async def story():
        async with pair(run_dir) as both:

            async def metrics(_message, _caller):
                return MetricsSnapshot({f"counter_{n:020}": n for n in range(50_000)}, {})

            both.server.handle(Metrics, metrics)
            with pytest.raises(FailedError, match=r"the reply has 1[0-9]{6} bytes"):
                await both.client.ask("pleg", Metrics())

    asyncio.run(story())


def test_mistakes_of_ours_are_found_where_they_are_made(run_dir):
    """A request to a kind that does not handle it, a second handler, and a use before start."""

    async def story():
        async with pair(run_dir) as both:
            both.server.handle(Ping, pong)
            with pytest.raises(ValueError, match="already"):
                both.server.handle(Ping, pong)
            with pytest.raises(ValueError, match="not handled by nobody"):
                await both.client.ask("nobody", Ping())
        idle = Channels("api", run_dir, lambda _uid, _pid: None, asyncio.create_task)
        with pytest.raises(ChannelError, match="not started"):
            idle.publish("pods", "k", 1)
        with pytest.raises(ChannelError, match="not started"):
            await idle.ask("pleg", Ping())

    asyncio.run(story())


class Stranger:
    """A plain DEALER that may send what it likes."""

    def __init__(self, run_dir):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.connect(f"ipc://{run_dir}/channels/pleg/requests")

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.context.destroy(linger=0)

    async def answer(self) -> wire.Envelope:
        await until(lambda: self.socket.poll(0))
        return wire.decode(self.socket.recv())


def request(**changes) -> bytes:
    fields = {
        "schema": 1,
        "sort": "request",
        "name": "ping",
        "id": 9,
        "deadline": time.monotonic_ns() + 10**10,
        "body": {},
    }
    return msgpack.packb(list((fields | changes).values()))


@pytest.mark.parametrize(
    ("parts", "counter"),
    [
        ([b""], "requests_garbage"),
        ([b"\xff\x00garbage"], "requests_garbage"),
        ([b"\x96\x01\x02"], "requests_garbage"),
        ([b"", b"", b""], "requests_garbage"),
        ([b"x" * 100, request()], "requests_garbage"),
        ([b"x" * ((1 << 20) + 1)], "requests_oversized"),
        ([b"x" * (1 << 20), b"x"], "requests_oversized"),
        ([b"x" * (5 << 20)], "requests_oversized"),
    ],
)
def test_garbage_is_counted_and_dropped(run_dir, parts, counter):
    """What is no request is not answered, and the next request is."""

    async def story():
        async with pair(run_dir) as both:
            both.server.handle(Ping, pong)
            with Stranger(run_dir) as stranger:
                stranger.socket.send_multipart(parts)
                await until(lambda: both.server.counters()[counter] == 1)
                assert nonzero(both.server) == {"requests_received": 1, counter: 1}
                stranger.socket.send(request())
                assert (await stranger.answer()).sort == wire.REPLY

    asyncio.run(story())


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"sort": "order"}, ErrorKind.BAD_REQUEST, "sort"),
        ({"deadline": None}, ErrorKind.BAD_REQUEST, "integers"),
        ({"body": {"x": 1}}, ErrorKind.BAD_REQUEST, "Ping has no field 'x'"),
        ({"body": []}, ErrorKind.BAD_REQUEST, "not a map"),
        ({"schema": 2}, ErrorKind.BAD_REQUEST, "version 2 of ping, spoken here is 1"),
        ({"name": "pong"}, ErrorKind.UNKNOWN, "no request 'pong' here"),
        ({"name": "x" * 100_000}, ErrorKind.UNKNOWN, "no request 'xxx"),
    ],
)
def test_a_bad_request_with_an_id_is_answered(run_dir, changes, kind, says):
    """Whoever can be told what is wrong with its request is told."""

    async def story():
        async with pair(run_dir) as both:
            both.server.handle(Ping, pong)
            with Stranger(run_dir) as stranger:
                stranger.socket.send(request(**changes))
                answer = await stranger.answer()
                assert (answer.sort, answer.id) == (wire.ERROR, 9)
                told, text = wire.decode_error(answer.body)
                assert told is kind
                assert says in text

    asyncio.run(story())


def test_a_reply_to_a_peer_that_left_is_counted(run_dir):
    """ROUTER_MANDATORY tells that nobody is there any more."""

    async def story():
        async with pair(run_dir) as both:
            go = asyncio.Event()

            async def ping(_message, _caller):
                await go.wait()
                return Pong("pleg", 1)

            both.server.handle(Ping, ping)
            with Stranger(run_dir) as stranger:
                stranger.socket.send(request())
                await until(lambda: both.server.depths()["handling_ping"] == 1)
            await asyncio.sleep(0.05)  # for the disconnect to arrive; nothing here tells of it
            go.set()
            await until(lambda: both.server.counters()["replies_undelivered"] == 1)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "counter", "raised"),
    [
        ([b"\xc1"], "answers_garbage", RequestTimeoutError),
        ([b"a", b"b"], "answers_garbage", RequestTimeoutError),
        ([b"x" * (2 << 20)], "answers_oversized", RequestTimeoutError),
        ([msgpack.packb([1, "reply", "ping", 999, 0, {}])], "answers_late", RequestTimeoutError),
        (
            [msgpack.packb([1, "reply", "ping", 1, 0, {"kind": 5}])],
            "answers_garbage",
            BadReplyError,
        ),
        ([msgpack.packb([2, "reply", "ping", 1, 0, {}])], "answers_garbage", BadReplyError),
        ([msgpack.packb([1, "reply", "pong", 1, 0, {}])], "answers_garbage", BadReplyError),
        ([msgpack.packb([1, "request", "ping", 1, 0, {}])], "answers_garbage", BadReplyError),
        ([msgpack.packb([1, "error", "ping", 1, 0, {}])], "answers_garbage", BadReplyError),
    ],
)
def test_a_bad_answer_is_counted_and_never_believed(run_dir, answer, counter, raised):
    """What claims the right id but is no reply fails the request; the rest is dropped."""

    async def story():
        context = zmq.Context()
        router = context.socket(zmq.ROUTER)
        router.bind(f"ipc://{run_dir}/channels/volumes/requests")
        try:
            async with pair(run_dir) as both:
                asking = asyncio.create_task(both.client.ask("volumes", Ping(), timeout=0.5))
                await until(lambda: router.poll(0))
                route, _ = router.recv_multipart()
                router.send_multipart([route, *answer])
                with pytest.raises(raised):
                    await asking
                assert both.client.counters()[counter] == 1
        finally:
            context.destroy(linger=0)

    asyncio.run(story())


def test_a_request_while_the_process_stops_is_refused(run_dir):
    """A task group that is ending takes no handler; the asker is told, not left."""

    def stopping(_coroutine):
        raise RuntimeError("TaskGroup is shutting down")

    async def story():
        async with pair(run_dir) as both:
            server = Channels("volumes", run_dir, lambda _uid, _pid: "ctl", stopping)
            await server.start()
            server.handle(Ping, pong)
            with pytest.raises(FailedError, match="stopping"):
                await both.client.ask("volumes", Ping())
            assert server.depths()["handling_ping"] == 0
            await server.close()

    asyncio.run(story())


def test_every_request_of_the_table_makes_its_way(run_dir):
    """Each body and reply of the table is carried as it is."""
    exchanges = [
        (Ping(), Pong("pleg", 1)),
        (messages.Tasks(), messages.TaskStacks("Task 1\n  at main")),
        (Profile(1.0, 250, "cpu"), Profiled(0, {})),
        (Metrics(), MetricsSnapshot({"a": 1}, {"b": 0.5})),
        (CheckTable("pods"), messages.TableChecked("pods", 7, None)),
        (CheckTable("pods"), messages.TableChecked("pods", 7, "bad checksum of entry 5")),
        (Restart("operator"), Restarting(5)),
        (messages.SetVerbosity(4), messages.VerbositySet(2)),
    ]

    async def story():
        async with pair(run_dir) as both:
            replies = {}

            async def handler(message, _caller):
                return replies[type(message)]

            for row in messages.BY_NAME.values():
                if "pleg" in row.handled_by:
                    both.server.handle(row.body, handler)
            for message, reply in exchanges:
                both.sender = "syncloop" if isinstance(message, CheckTable) else "ctl"
                replies[type(message)] = reply
                assert await both.client.ask("pleg", message) == reply

    asyncio.run(story())
