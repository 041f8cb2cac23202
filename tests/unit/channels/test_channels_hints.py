"""Hints between two ends on one loop, and what a socket on the loop owes the others."""

from __future__ import annotations

import asyncio

import pytest
import zmq

from kubelet.channels import sockets, wire
from kubelet.channels.channels import Channels
from kubelet.channels.counters import Complaint
from kubelet.channels.messages import Ping
from kubelet.channels.wire import Hint, NumberedHint
from tests.unit.channels.pair import nonzero, pair, pong, until


def test_a_hint_arrives(run_dir):
    """After the first hint, which stands for the whole table, changes come one by one."""

    async def story():
        async with pair(run_dir) as both:
            got = []
            both.server.offer("runtime", lambda: 5)
            both.client.subscribe({"runtime": "pleg"}, got.append)
            await until(lambda: got)
            assert got == [Hint("runtime", "*", 5)]
            both.server.publish("runtime", "uid-1", 6)
            both.server.publish("runtime", "uid-2", 7)
            await until(lambda: len(got) == 3)
            assert got[1:] == [Hint("runtime", "uid-1", 6), Hint("runtime", "uid-2", 7)]
            assert both.client.counters()["sub_missed"] == 0

    asyncio.run(story())


def test_a_table_offered_late_is_announced(run_dir):
    """Who subscribed before the writer was ready hears of it when it is."""

    async def story():
        async with pair(run_dir) as both:
            got = []
            both.client.subscribe({"runtime": "pleg"}, got.append)
            await until(lambda: both.server.counters()["hints_subscriptions"] == 1)
            assert got == []
            both.server.offer("runtime", lambda: 9)
            await until(lambda: got)
            assert got == [Hint("runtime", "*", 9)]

    asyncio.run(story())


def test_each_reader_hears_only_of_its_tables(run_dir):
    """A topic is a whole table's name."""

    async def story():
        async with pair(run_dir) as both:
            got = []
            for table in ("pod", "pods", "podsets"):
                both.server.offer(table, lambda: 1)
            both.client.subscribe({"pods": "pleg"}, got.append)
            await until(lambda: got)
            for table in ("pod", "podsets", "pods"):
                both.server.publish(table, "k", 2)
            await until(lambda: len(got) == 2)
            assert {hint.table for hint in got} == {"pods"}

    asyncio.run(story())


def test_a_second_reader_makes_the_first_compare_too_and_no_more(run_dir):
    """Each subscriber, not only a topic's first, is greeted."""

    async def story():
        async with pair(run_dir) as both:
            first, second = [], []
            both.server.offer("runtime", lambda: 5)
            both.client.subscribe({"runtime": "pleg"}, first.append)
            await until(lambda: first)
            both.server.subscribe({"runtime": "pleg"}, second.append)
            await until(lambda: second)
            assert second == [Hint("runtime", "*", 5)]

    asyncio.run(story())


def test_a_table_is_subscribed_once(run_dir):
    """Two callbacks for a table would hide one of them."""

    async def story():
        async with pair(run_dir) as both:
            both.client.subscribe({"runtime": "pleg"}, print)
            with pytest.raises(ValueError, match="already"):
                both.client.subscribe({"runtime": "pleg"}, print)

    asyncio.run(story())


def test_a_bug_while_greeting_ends_the_process(run_dir):
    """A table that cannot tell its generation is not a line in a log."""
    generations = [1]

    async def story():
        async with pair(run_dir) as both:
            both.server.offer("runtime", generations.pop)
            both.client.subscribe({"runtime": "pleg"}, print)
            await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert caught.group_contains(IndexError)


def test_a_bug_in_a_callback_ends_the_process(run_dir):
    """An exception on a hint does not vanish in the loop's log."""

    def on_hint(_hint):
        raise KeyError("pod")

    async def story():
        async with pair(run_dir) as both:
            both.client.subscribe({"runtime": "pleg"}, on_hint)
            both.server.offer("runtime", lambda: 5)
            await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert caught.group_contains(KeyError)


class Forger:
    """A plain XPUB in place of a writer, that may publish what it likes."""

    def __init__(self, run_dir):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.bind(f"ipc://{run_dir}/channels/volumes/hints")

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.context.destroy(linger=0)

    def hint(self, key: str, epoch: int, number: int) -> None:
        hint = NumberedHint(Hint("mounts", key, 1), epoch, number)
        self.socket.send(wire.encode_hint(hint))


def test_lost_hints_are_noticed_by_their_numbers(run_dir):
    """A gap is counted exactly and widens the next hint to the whole table."""

    async def story():
        async with pair(run_dir) as both:
            got = []
            with Forger(run_dir) as forger:
                both.client.subscribe({"mounts": "volumes"}, got.append)
                await until(lambda: forger.socket.poll(0))
                steps = [("a", 7, 1), ("b", 7, 2), ("c", 7, 6), ("d", 7, 7), ("*", 7, 9)]
                for key, epoch, number in [*steps, ("e", 8, 500), ("f", 8, 501)]:
                    forger.hint(key, epoch, number)
                await until(lambda: len(got) == 7)
            # "a" comes from a writer not heard before, "e" from its successor: no gap, but news
            assert [hint.key for hint in got] == ["*", "b", "*", "d", "*", "*", "f"]
            assert both.client.counters()["sub_missed"] == 3 + 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("frame", "counter"),
    [
        (b"mounts\0", "sub_garbage"),
        (b"mounts\0\xc1\xff", "sub_garbage"),
        (b"mounts\0" + b"x" * (1 << 20), "sub_oversized"),
        (b"mounts\0" + wire.encode_hint(NumberedHint(Hint("pods", "k", 1), 1, 1)), "sub_garbage"),
    ],
)
def test_what_is_no_hint_is_counted_and_dropped(run_dir, frame, counter):
    """Garbage from a writer reaches no callback, and the next hint does."""

    async def story():
        async with pair(run_dir) as both:
            got = []
            with Forger(run_dir) as forger:
                both.client.subscribe({"mounts": "volumes"}, got.append)
                await until(lambda: forger.socket.poll(0))
                forger.socket.send(frame)
                forger.hint("*", 1, 1)
                await until(lambda: got)
            assert nonzero(both.client) == {counter: 1, "sub_received": 1}

    asyncio.run(story())


@pytest.mark.parametrize("message", [b"\x02nonsense", b"", b"\xff" * 5000])
def test_what_is_no_subscription_is_counted_and_dropped(run_dir, message):
    """A message sent up to the publisher has no effect but a number."""

    async def story():
        async with pair(run_dir) as both:
            both.server.offer("runtime", lambda: 1)
            context = zmq.Context()
            try:
                xsub = context.socket(zmq.XSUB)
                xsub.connect(f"ipc://{run_dir}/channels/pleg/hints")
                xsub.send(message)
                await until(lambda: both.server.counters()["hints_garbage"] == 1)
                xsub.send(b"\x01runtime\0")
                await until(lambda: xsub.poll(0))
            finally:
                context.destroy(linger=0)

    asyncio.run(story())


def test_a_busy_socket_leaves_the_loop_its_turns(run_dir):
    """Many waiting messages are handled in batches, with the rest of the process between them."""

    async def story():
        async with pair(run_dir) as both:
            order = []
            both.server.offer("runtime", lambda: 0)
            both.client.subscribe({"runtime": "pleg"}, lambda hint: order.append(hint.key))
            await until(lambda: order)
            for n in range(800):
                both.server.publish("runtime", str(n), n)

            def other() -> None:
                order.append("other")
                asyncio.get_running_loop().call_soon(other)

            other()
            await until(lambda: "799" in order)
            longest = run = 0
            for key in order:
                run = 0 if key == "other" else run + 1
                longest = max(longest, run)
            assert longest <= sockets.BATCH + 1

    asyncio.run(story())


def test_a_predecessor_that_closes_late_does_not_unlink_its_successor(run_dir):
    """Names belong to whoever bound last; closing never removes them."""

    async def story():
        async with asyncio.TaskGroup() as group:

            def make(kind):
                return Channels(kind, run_dir, lambda _uid, _pid: "ctl", group.create_task)

            old, new, client = make("pleg"), make("pleg"), make("syncloop")
            await old.start()
            await new.start()
            await client.start()
            new.handle(Ping, pong)
            await old.close()
            assert (await client.ask("pleg", Ping())).kind == "pleg"
            await client.close()
            await new.close()
            names = sorted(p.name for p in (run_dir / "channels" / "pleg").iterdir())
            assert names == ["hints", "requests"]

    asyncio.run(story())


def test_the_sockets_are_closed_to_others(run_dir):
    """Owner and group may connect, nobody else; the process's own umask is left as it was."""

    async def story():
        async with pair(run_dir):
            for role in ("hints", "requests"):
                path = run_dir / "channels" / "pleg" / role
                assert path.is_socket()
                assert path.stat().st_mode & 0o007 == 0
                assert path.stat().st_mode & 0o770 == 0o770

    asyncio.run(story())


def test_a_run_directory_that_is_not_there_is_an_error_that_leaves_nothing(run_dir):
    """A failed start closes what it had opened, and may be tried again."""

    async def story():
        channels = Channels("api", run_dir / "none", lambda _uid, _pid: None, asyncio.create_task)
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                await channels.start()

    asyncio.run(story())


def test_strangers_are_counted_once_it_is_certain():
    """A connection counts when it ended, or its time is up, without a finished handshake."""
    now = 0
    noticed = Complaint("Closed connections")
    strangers = sockets.Strangers(lambda: now, noticed)

    def connect(fd, *, proves):
        strangers.event(zmq.EVENT_ACCEPTED, fd)
        if proves:
            strangers.event(zmq.EVENT_HANDSHAKE_SUCCEEDED, 0)

    connect(5, proves=True)
    connect(6, proves=False)
    assert strangers.count == 0
    strangers.event(zmq.EVENT_DISCONNECTED, 6)
    now += 10 * 10**9  # 5 is old now, so it is the one that finished
    assert strangers.settle() == 1
    connect(6, proves=True)
    strangers.event(zmq.EVENT_DISCONNECTED, 6)
    strangers.event(zmq.EVENT_DISCONNECTED, 5)
    assert strangers.settle() == 1
    assert noticed.count == 1
