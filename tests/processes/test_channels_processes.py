"""The channels between real processes that are killed, stopped, restarted and lied to."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from kubelet.channels import client, wire
from kubelet.channels.channels import Channels
from kubelet.channels.errors import ChannelError, DeniedError
from kubelet.channels.messages import Ping, Pong, Restart, Restarting
from kubelet.channels.peers import PeerBook
from supervisor.kinds import NAMES

NOBODY, GROUP = 64998, 64997
HOLD = "hold"  # a request with this reason is never answered
AT_ONCE = 5.0  # seconds: nothing that is due at once may take longer on a loaded machine

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture
def run_dir():
    directory = Path(tempfile.mkdtemp(prefix="ch-", dir="/dev/shm"))
    directory.chmod(0o755)
    for kind in NAMES:
        (directory / "channels" / kind).mkdir(parents=True)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def fork():
    """Start processes that end with the test."""
    with contextlib.ExitStack() as stack:

        def start(main, *args) -> Child:
            child = Child(main, *args)
            stack.callback(child.end)
            return child

        yield start


class Link:
    """The child's side of the pipes to the test."""

    def __init__(self, down: int, up: int) -> None:
        self._down, self._up = down, up
        self._reader: asyncio.StreamReader | None = None

    def say(self, what: object) -> None:
        os.write(self._up, json.dumps(what).encode() + b"\n")

    async def told(self):
        if self._reader is None:
            self._reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(self._reader)
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: protocol, os.fdopen(self._down, "rb"))
        return json.loads(await self._reader.readline())


class Child:
    """A forked process that runs a coroutine; it is told, and says, lines of JSON."""

    def __init__(self, main, *args) -> None:
        self._up, up = os.pipe()
        down, self._down = os.pipe()
        self._buffer = b""
        self._ended = False
        self.pid = os.fork()
        if self.pid == 0:
            try:
                asyncio.run(main(Link(down, up), *args))
            except BaseException:  # noqa: BLE001 - a forked child must never return
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(up)
        os.close(down)

    def tell(self, what: object) -> None:
        os.write(self._down, json.dumps(what).encode() + b"\n")

    def hear(self, seconds: float = 30.0):
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0, "the process said nothing"
            if select.select([self._up], [], [], left)[0]:
                data = os.read(self._up, 1 << 20)
                assert data, "the process ended"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def ask(self, what: object):
        self.tell(what)
        return self.hear()

    def until(self, question: object, condition, seconds: float = 20.0):
        """Ask the same thing until the answer is as expected."""
        deadline = time.monotonic() + seconds
        while not condition(answer := self.ask(question)):
            assert time.monotonic() < deadline, answer
            time.sleep(0.005)
        return answer

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self.signal(signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._up)
            os.close(self._down)


@contextlib.asynccontextmanager
async def channels_of(kind: str, run_dir: Path, peers=lambda _uid, _pid: "ctl"):
    async with asyncio.TaskGroup() as group:
        channels = Channels(kind, run_dir, peers, group.create_task)
        await channels.start()
        try:
            yield channels
        finally:
            await channels.close()


async def answer_questions(link: Link, channels: Channels) -> None:
    """Tell the test what the channels count."""
    while True:
        link.say(getattr(channels, await link.told())())


async def server(link: Link, run_dir: Path, ledger: Path, state: Path | None = None) -> None:
    """Be pleg: write the reason of each restart that was asked into a ledger."""
    peers = PeerBook(state, os.getuid()) if state else lambda _uid, _pid: "ctl"
    async with channels_of("pleg", run_dir, peers) as channels:

        async def restart(message: Restart, _caller) -> Restarting:
            with ledger.open("a") as file:
                file.write(message.reason + "\n")
            if message.reason.startswith(HOLD):
                await asyncio.Event().wait()
            return Restarting(os.getpid())

        async def ping(_message, _caller) -> Pong:
            return Pong("pleg", os.getpid())

        channels.handle(Restart, restart, limit=1000)
        channels.handle(Ping, ping)
        link.say("ready")
        await answer_questions(link, channels)


async def outcome(channels: Channels, message, timeout: float) -> list:  # noqa: ASYNC109
    """Ask, and return what became of it and after how long."""
    begun = time.monotonic()
    try:
        reply = await channels.ask("pleg", message, timeout=timeout)
        ended = reply.pid
    except ChannelError as error:
        ended = type(error).__name__
    return [ended, time.monotonic() - begun]


async def asker(link: Link, run_dir: Path) -> None:
    """Be syncloop: ask what the test tells, all at once, and say what became of it."""
    async with channels_of("syncloop", run_dir) as channels:
        link.say("ready")
        while True:
            reasons, seconds = await link.told()
            asks = (outcome(channels, Restart(reason), seconds) for reason in reasons)
            link.say(await asyncio.gather(*asks))


def ready(child: Child) -> Child:
    assert child.hear() == "ready"
    return child


def entries(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


def test_a_server_killed_with_requests_pending(run_dir, fork, tmp_path):
    """All of them fail at once, none is carried out twice, and the successor answers."""
    ledger = tmp_path / "ledger"
    first = ready(fork(server, run_dir, ledger))
    asking = ready(fork(asker, run_dir))
    reasons = [f"{HOLD}-{n}" for n in range(50)]
    asking.tell([reasons, 60])
    first.until("depths", lambda _depths: len(entries(ledger)) == 50)
    first.end()
    for ended, took in asking.hear():
        assert ended == "PeerGoneError"
        assert took < 20  # not the time-out
    second = ready(fork(server, run_dir, ledger))
    ((ended, took),) = asking.ask([["again"], 20])
    assert ended == second.pid
    assert took < AT_ONCE
    assert sorted(entries(ledger)) == sorted([*reasons, "again"])
    assert second.ask("counters")["requests_received"] == 1


def test_a_server_that_is_not_there(run_dir, fork, tmp_path):
    """A request ends at its time-out, or is answered by a server that starts within it."""
    ledger = tmp_path / "ledger"
    asking = ready(fork(asker, run_dir))
    for ended, took in asking.ask([["a", "b"], 0.3]):
        assert ended == "PeerDownError"
        assert 0.25 < took < AT_ONCE
    asking.tell([["c", "d"], 30])
    serving = ready(fork(server, run_dir, ledger))
    assert {ended for ended, _ in asking.hear()} == {serving.pid}
    assert sorted(entries(ledger)) == ["c", "d"]  # what timed out was never sent


def test_a_stopped_server_drops_what_has_become_late(run_dir, fork, tmp_path):
    """Requests time out, and when the server wakes it does nothing that nobody waits for."""
    ledger = tmp_path / "ledger"
    serving, asking = ready(fork(server, run_dir, ledger)), ready(fork(asker, run_dir))
    assert asking.ask([["first"], 20])[0][0] == serving.pid
    serving.signal(signal.SIGSTOP)
    for ended, took in asking.ask([[f"late-{n}" for n in range(20)], 0.3]):
        assert ended == "RequestTimeoutError"
        assert took < AT_ONCE
    serving.signal(signal.SIGCONT)
    serving.until("counters", lambda counters: counters["requests_late"] == 20)
    assert entries(ledger) == ["first"]
    assert asking.ask([["next"], 20])[0][0] == serving.pid


async def storm(link: Link, run_dir: Path) -> None:
    """Ask without pause in eight tasks until told to stop; say what became of each."""
    outcomes: list[list] = []
    stop = asyncio.Event()

    async def ask(channels: Channels, worker: int) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            reason = f"{worker}-{count}"
            outcomes.append([reason, *await outcome(channels, Restart(reason), 2.0)])

    async with channels_of("syncloop", run_dir) as channels:
        link.say("ready")
        async with asyncio.TaskGroup() as group:
            for worker in range(8):
                group.create_task(ask(channels, worker))
            await link.told()
            stop.set()
        link.say({"outcomes": outcomes, "depths": channels.depths()})


def test_a_server_killed_at_random_instants(run_dir, fork, tmp_path):
    """No asker hangs, nothing is carried out twice, and what was answered was carried out."""
    ledger = tmp_path / "ledger"
    asking = ready(fork(storm, run_dir))
    chance = random.Random(7)
    pids = set()
    for _ in range(15):
        serving = ready(fork(server, run_dir, ledger))
        pids.add(serving.pid)
        done = len(entries(ledger))
        serving.until("depths", lambda _depths, done=done: len(entries(ledger)) > done)
        time.sleep(chance.uniform(0, 0.05))
        serving.end()
    ready(fork(server, run_dir, ledger))
    report = asking.ask("stop")
    assert report["depths"] == {"asked_pleg": 0, "unsent_pleg": 0}
    assert max(took for _, _, took in report["outcomes"]) < 2 + AT_ONCE
    carried_out = collections.Counter(entries(ledger))
    assert max(carried_out.values()) == 1
    errors = {ended for _, ended, _ in report["outcomes"] if isinstance(ended, str)}
    assert errors <= {"PeerGoneError", "RequestTimeoutError", "PeerDownError"}
    answered = [reason for reason, ended, _ in report["outcomes"] if not isinstance(ended, str)]
    assert set(answered) <= set(carried_out)
    assert len({ended for _, ended, _ in report["outcomes"]} & pids) > 5


async def publisher(link: Link, run_dir: Path, generation: int) -> None:
    """Be pleg: publish as many hints as told, in bursts, and say how long the longest took."""
    async with channels_of("pleg", run_dir) as channels:
        channels.offer("runtime", lambda: generation)
        link.say("ready")
        while True:
            count, burst = await link.told()
            worst = 0.0
            for n in range(count):
                begun = time.thread_time()
                channels.publish("runtime", str(n), generation + n)
                worst = max(worst, time.thread_time() - begun)
                if n % burst == burst - 1:
                    await asyncio.sleep(0.005)
            link.say({"worst": worst, **channels.counters()})


async def subscriber(link: Link, run_dir: Path, kind: str) -> None:
    """Follow pleg's table and say what was heard."""
    heard = {"stars": [], "keys": 0, "last": ""}

    def on_hint(hint) -> None:
        heard["last"] = hint.key
        if hint.key == "*":
            heard["stars"].append(hint.generation)
        else:
            heard["keys"] += 1

    async with channels_of(kind, run_dir) as channels:
        channels.subscribe({"runtime": "pleg"}, on_hint)
        link.say("ready")
        while True:
            await link.told()
            link.say(heard | channels.counters())


def test_a_restarted_publisher_is_followed_again(run_dir, fork):
    """Every reader is told to compare generations, each time its writer comes back."""
    readers = [ready(fork(subscriber, run_dir, kind)) for kind in ("syncloop", "api")]
    for generation in (100, 200, 300):
        writing = ready(fork(publisher, run_dir, generation))
        for reader in readers:
            reader.until("", lambda heard, g=generation: g in heard["stars"])
        writing.ask([10, 10])
        for reader in readers:
            reader.until("", lambda heard: heard["last"] == "9")
        writing.end()
    for reader in readers:
        heard = reader.ask("")
        assert heard["keys"] == 30
        assert heard["sub_missed"] == 0


def test_a_stopped_reader_harms_nobody_and_finds_its_way_back(run_dir, fork):
    """The publisher never blocks, the other reader hears everything, and losses are counted."""
    writing = ready(fork(publisher, run_dir, 1))
    stopped = ready(fork(subscriber, run_dir, "api"))
    before = stopped.until("", lambda heard: heard["stars"])
    healthy = ready(fork(subscriber, run_dir, "syncloop"))
    healthy.until("", lambda heard: heard["stars"])
    sent = writing.ask([0, 1])["hints_sent"]
    before = stopped.until("", lambda heard: len(heard["stars"]) == sent - 1)

    stopped.signal(signal.SIGSTOP)
    report = writing.ask([10_000, 50])
    assert report["worst"] < 0.1
    assert report["hints_overflowed"] >= 1
    heard = healthy.until("", lambda heard: heard["last"] == "9999")
    assert heard["keys"] > 9_000  # a full queue of one reader keeps nothing from the other

    stopped.signal(signal.SIGCONT)
    stars = len(before["stars"])

    def nudged() -> dict:
        writing.ask([1, 1])
        return stopped.ask("")

    deadline = time.monotonic() + 20
    while len((heard := nudged())["stars"]) == stars:
        assert time.monotonic() < deadline, heard
        time.sleep(0.01)
    sent = writing.ask([0, 1])["hints_sent"] - sent
    heard = stopped.until(
        "", lambda h: h["sub_received"] + h["sub_missed"] == before["sub_received"] + sent
    )
    assert heard["sub_missed"] > 1000


def test_a_burst_without_pause_never_blocks(run_dir, fork):
    """Ten thousand hints at once cost the publisher no wait, whoever listens."""
    writing = ready(fork(publisher, run_dir, 1))
    reading = ready(fork(subscriber, run_dir, "api"))
    reading.until("", lambda heard: heard["stars"])
    reading.signal(signal.SIGSTOP)
    begun = time.monotonic()
    report = writing.ask([10_000, 20_000])
    assert time.monotonic() - begun < AT_ONCE
    assert report["worst"] < 0.1
    assert report["hints_overflowed"] >= 1


RAW_GARBAGE = [
    b"",
    b"\x00" * 100,
    b"\xff" * 100,
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL",  # a greeting cut off
    random.Random(3).randbytes(10_000),
]


@pytest.mark.parametrize("role", ["requests", "hints"])
def test_bytes_that_are_not_zeromq(run_dir, fork, tmp_path, role):
    """Each such connection is counted, and the process goes on answering."""
    serving = ready(fork(server, run_dir, tmp_path / "ledger"))
    for garbage in RAW_GARBAGE:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(run_dir / "channels" / "pleg" / role))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                raw.sendall(garbage)
    counter = f"{role}_bad_peers"
    serving.until("counters", lambda counters: counters[counter] == len(RAW_GARBAGE))
    assert client.call(run_dir, "pleg", Ping(), timeout=10) == Pong("pleg", serving.pid)
    assert serving.ask("counters")[counter] == len(RAW_GARBAGE)


def test_a_connection_that_says_nothing_is_closed(run_dir, fork, tmp_path):
    """Nobody holds a descriptor of ours by keeping silent."""
    ready(fork(server, run_dir, tmp_path / "ledger"))
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(run_dir / "channels" / "pleg" / "requests"))
        raw.settimeout(20)
        while raw.recv(1000):
            pass


class RawPeer:
    """A DEALER made by hand, which claims a Peer-Address of its own."""

    def __init__(self, path: Path, claims: bytes = b"localhost:0:0:1") -> None:
        self.raw = socket.socket(socket.AF_UNIX)
        self.raw.settimeout(20)
        self.raw.connect(str(path))
        self.raw.sendall(
            b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32
        )
        ready = b"\x05READY"
        for name, value in ((b"Socket-Type", b"DEALER"), (b"Peer-Address", claims)):
            ready += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
        self.raw.sendall(b"\x04" + bytes([len(ready)]) + ready)
        self.receive_until(b"READY")  # the protocol allows no message before

    def send(self, frame: bytes) -> None:
        self.raw.sendall(b"\x02" + struct.pack(">Q", len(frame)) + frame)

    def receive_until(self, *marks: bytes) -> bytes:
        data = b""
        while not any(mark in data for mark in marks):
            more = self.raw.recv(1 << 16)
            assert more, "the connection was closed"
            data += more
        return data


def raw_request(name: str, body: object) -> bytes:
    return wire.encode(wire.Envelope(1, wire.REQUEST, name, 5, time.monotonic_ns() + 10**10, body))


def test_garbage_in_good_frames(run_dir, fork, tmp_path):
    """Frames of random bytes, truncated and oversized ones are counted and cost nothing else."""
    serving = ready(fork(server, run_dir, tmp_path / "ledger"))
    path = run_dir / "channels" / "pleg" / "requests"
    chance = random.Random(11)
    good = raw_request("restart", {"reason": "x"})
    peer = RawPeer(path)
    for n in range(200):
        peer.send(chance.randbytes(n))
        peer.send(good[: n % len(good)])
    for size in (wire.MAX_FRAME + 1, 2 << 20, 15 << 20):
        peer.send(b"x" * size)
    counters = serving.until("counters", lambda c: c["requests_received"] == 403)
    assert counters["requests_garbage"] == 400
    assert counters["requests_oversized"] == 3
    peer.send(good)
    peer.receive_until(b"reply")

    # Announced as larger than 16 MiB: libzmq closes the connection without reading it.
    peer.raw.sendall(b"\x02" + struct.pack(">Q", 17 << 20))
    with contextlib.suppress(ConnectionResetError):
        while peer.raw.recv(1000):
            pass
    assert entries(tmp_path / "ledger") == ["x"]
    assert client.call(run_dir, "pleg", Ping(), timeout=10).pid == serving.pid


class State:
    """The supervisor's list of processes, replaced by rename."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, supervisor: int = 1 << 30, **kinds: int) -> None:
        processes = [{"name": name, "pid": pid} for name, pid in kinds.items()]
        state = {"pid": supervisor, "unprivileged_uid": NOBODY, "processes": processes}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.rename(self.path)


async def unprivileged(link: Link, run_dir: Path, group: int) -> None:
    """Ask without root: over the channels' own client, and over a connection made by hand."""
    os.setgroups([])
    os.setgid(group)
    os.setuid(NOBODY)
    while True:
        how = await link.told()
        try:
            if how == "forged":
                peer = RawPeer(run_dir / "channels" / "pleg" / "requests")
                peer.send(raw_request("restart", {"reason": "forged"}))
                link.say("denied" if b"denied" in peer.receive_until(b"denied", b"reply") else "ok")
            elif how == "connect":
                RawPeer(run_dir / "channels" / "pleg" / "requests")
                link.say("ok")
            else:
                message = Ping() if how == "ping" else Restart(how)
                client.call(run_dir, "pleg", message, timeout=10)
                link.say("ok")
        except (ChannelError, OSError) as error:
            link.say(type(error).__name__)


@pytest.fixture
def guarded(run_dir, fork, tmp_path):
    """A server that knows its peers from the supervisor's list, in a group's directory."""
    directory = run_dir / "channels" / "pleg"
    os.chown(directory, -1, GROUP)
    directory.chmod(0o750)
    state = State(tmp_path / "state.json")
    state.write()
    ready(fork(server, run_dir, tmp_path / "ledger", state.path))
    return state


@needs_root
def test_a_process_of_another_user_is_what_the_supervisor_says(run_dir, fork, guarded, tmp_path):
    """The kernel tells who asks; what a message or a connection claims does not count."""
    other = fork(unprivileged, run_dir, GROUP)
    assert other.ask("ping") == "DeniedError"  # a stranger may not even ping
    assert other.ask("forged") == "denied"
    guarded.write(prober=other.pid)
    assert other.ask("ping") == "ok"
    assert other.ask("restart-by-prober") == "DeniedError"
    assert other.ask("forged") == "denied"
    guarded.write(prober=other.pid + 1)  # it was replaced: its id means nothing any more
    assert other.ask("ping") == "DeniedError"
    assert client.call(run_dir, "pleg", Restart("by-root"), timeout=10)
    assert entries(tmp_path / "ledger") == ["by-root"]


@needs_root
def test_a_user_outside_the_group_cannot_connect(run_dir, fork, guarded):
    """The directory and the socket keep others out before anything is asked."""
    assert guarded.path.exists()
    other = fork(unprivileged, run_dir, NOBODY)
    assert other.ask("connect") == "PermissionError"
    assert other.ask("ping") == "DeniedError"
    (run_dir / "channels" / "pleg").chmod(0o755)
    assert other.ask("connect") == "PermissionError"
    assert other.ask("ping") == "DeniedError"


@needs_root
def test_root_inside_the_tree_is_not_the_operator(run_dir, guarded):
    """A descendant of the supervisor that is no listed process may ask nothing."""
    guarded.write(supervisor=os.getppid())
    with pytest.raises(DeniedError):
        client.call(run_dir, "pleg", Restart("x"), timeout=10)
    guarded.write(supervisor=os.getppid(), api=os.getpid())
    with pytest.raises(DeniedError, match="not from api"):
        client.call(run_dir, "pleg", Restart("x"), timeout=10)
    assert client.call(run_dir, "pleg", Ping(), timeout=10).kind == "pleg"


async def open_and_close(link: Link, run_dir: Path) -> None:
    """Open, use and close both ends a hundred times; say what is open after each ten."""
    before = len(os.listdir("/proc/self/task"))  # gRPC, if it was used, begins anew after a fork
    for n in range(101):
        async with channels_of("pleg", run_dir) as one, channels_of("syncloop", run_dir) as two:
            heard = asyncio.Event()
            one.offer("runtime", lambda: 1)
            two.subscribe({"runtime": "pleg"}, lambda _hint, heard=heard: heard.set())
            with contextlib.suppress(ChannelError):
                await two.ask("pleg", Ping(), timeout=10)  # answered: nobody handles it
            await heard.wait()
        if n % 10 == 0:
            await _threads_ended(before)
            descriptors, threads = (len(os.listdir(f"/proc/self/{w}")) for w in ("fd", "task"))
            link.say([descriptors, threads - before])


async def _threads_ended(before: int) -> None:
    """Give threads that were told to end the time for it: the kernel is busy with others too."""
    for _ in range(500):
        if len(os.listdir("/proc/self/task")) <= before:
            return
        await asyncio.sleep(0.01)


def test_opening_and_closing_leaves_nothing_behind(run_dir, fork):
    """Descriptors and threads are the same after the first and after the hundred and first."""
    child = fork(open_and_close, run_dir)
    counts = [tuple(child.hear()) for _ in range(11)]
    assert set(counts) == {counts[0]}
    assert counts[0][1] == 0
