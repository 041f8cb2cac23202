"""Writers killed at random instants while readers run.

The test starts three real processes from this very file: two readers and one killer. The killer
forks a writer, kills it with SIGKILL after a random time, starts the next one before the last is
reaped, and goes on like that. Every value describes itself, so that a reader can tell a mixed one
without trusting the checksum.

KUBELET_CRASH_ROUNDS sets the number of kills; `bench/shm_bench.py --crash N` prints what was
counted.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from array import array
from contextlib import contextmanager
from pathlib import Path

import pytest

from shm import layout
from shm.table import Entry, Reader, Writer
from shm.tables import Declaration

ROUNDS = int(os.environ.get("KUBELET_CRASH_ROUNDS", "10000"))
DECLARATION = Declaration(
    "crash", "pleg", ("api",), "key", "values that say what they are", 1, 1 << 24
)
KEYS = [f"pod-{i}" for i in range(6)]
PASSING_KEYS = [f"passing-{i}" for i in range(16)]  # these come and go
SIZES = (64, 700, 4_096, 12_000)
HEAD = struct.Struct("=QQI")  # generation, repeated word, number of words


def make_value(key: str, generation: int, rng: random.Random) -> bytes:
    """Return a value that states its key, its generation and its length in every part."""
    words = rng.choice(SIZES) // 8
    word = rng.getrandbits(64)
    return (
        HEAD.pack(generation, word, words)
        + key.encode()
        + b":"
        + word.to_bytes(8, "little") * words
    )


def is_whole(entry: Entry) -> bool:
    """Tell, without any checksum, whether the value is one that was put under this key."""
    generation, word, words = HEAD.unpack_from(entry.payload)
    expected = entry.key.encode() + b":" + word.to_bytes(8, "little") * words
    return (
        entry.payload[HEAD.size :] == expected
        and generation == entry.generation
        and entry.stamp_ns == generation * 3
    )


# -- the writer, which is killed ------------------------------------------------------------------


def write_for_ever(directory: Path, inside: memoryview, attached: int, seed: int) -> None:
    """Put, delete and put again until killed; ``inside[0]`` is odd while a change is made."""
    rng = random.Random(seed)
    inside[0] = 0
    writer = Writer.attach(directory, DECLARATION)
    if writer.reason is not None or writer.fresh:
        raise RuntimeError(f"the table was not taken over: {writer.reason}")
    inside[0] = 2
    os.eventfd_write(attached, 1)
    while True:
        key = rng.choice(KEYS)
        if rng.random() < 0.1:
            key = rng.choice(PASSING_KEYS)
        value = make_value(key, writer.generation + 1, rng)
        inside[0] += 1
        if key in PASSING_KEYS and rng.random() < 0.6:
            writer.delete(key)
        else:
            writer.put(key, value, (writer.generation + 1) * 3)
        inside[0] += 1


def fork_writer(directory: Path, inside: memoryview, attached: int, seed: int) -> int:
    """Return the pid of a new writer."""
    pid = os.fork()
    if pid:
        return pid
    try:
        write_for_ever(directory, inside, attached, seed)
    except BaseException:  # noqa: BLE001 - this is the end of the process, whatever it was
        traceback.print_exc()
    os._exit(3)


def left_half_made(path: Path) -> bool:
    """Tell whether the table shows a change that was begun and not completed."""
    with path.open("rb") as file:
        header = array("Q", file.read(layout.PAGE))
        complete = header[layout.W_GENERATION]
        for chunk in range(layout.MAX_CHUNKS):
            word = header[layout.W_CHUNKS + chunk]
            if word == 0:
                break
            file.seek(layout.decode_chunk(chunk, word, header[layout.W_SIZE]))
            slots = array("Q", file.read(layout.chunk_bytes(chunk)))
            seqs, guards, *generations = (slots[i :: layout.SLOT_WORDS] for i in (0, 1, 2, 7))
            if any(s and s ^ layout.ALL_ONES != g for s, g in zip(seqs, guards, strict=True)):
                return True
            if max(seqs) >> 2 > complete or max(map(max, generations)) > complete:
                return True
    return False


def kill_writers(directory: Path, rounds: int, seed: int) -> dict[str, int]:
    """Kill as many writers; count where it hit them.

    Every fifth is killed a short time after its birth, which is mostly while it attaches, the
    others a short time after they have attached.
    """
    gc.freeze()  # a collection in the children would copy pages
    rng = random.Random(seed)
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    inside = memoryview(shared).cast("Q")
    attached = os.eventfd(0, os.EFD_CLOEXEC)
    counts = dict.fromkeys(("attaching", "between", "inside", "half made", "died"), 0)
    pid = fork_writer(directory, inside, attached, rng.getrandbits(32))
    for turn in range(rounds):
        if turn % 5:
            select.select([attached], [], [], 5)
        time.sleep(rng.uniform(0, 0.001))
        os.kill(pid, signal.SIGKILL)
        if turn % 2:  # on every other turn its successor comes before it is gone
            _, status = os.waitpid(pid, 0)
            count_hit(counts, inside[0], directory / DECLARATION.name)
            drain(attached)
            pid = fork_writer(directory, inside, attached, rng.getrandbits(32))
        else:
            drain(attached)
            dying = pid
            pid = fork_writer(directory, inside, attached, rng.getrandbits(32))
            _, status = os.waitpid(dying, 0)
        if os.WTERMSIG(status) != signal.SIGKILL:
            counts["died"] += 1
            break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return counts


def count_hit(counts: dict[str, int], state: int, path: Path) -> None:
    """Count what the killed writer was doing, and what it left."""
    counts["attaching" if state == 0 else "inside" if state & 1 else "between"] += 1
    counts["half made"] += left_half_made(path)


def drain(event: int) -> None:
    """Forget that the last writer had attached."""
    if select.select([event], [], [], 0)[0]:
        os.eventfd_read(event)


# -- the readers, which run all the time ----------------------------------------------------------


def read_for_ever(directory: Path, seed: int) -> dict[str, float]:
    """Read until told to stop by SIGTERM; return what was seen."""
    rng = random.Random(seed)
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    os.nice(5)  # there are more processes than cores; the writer is to be killed at work
    print("ready", flush=True)
    reader = Reader.attach(directory, DECLARATION)
    newest: dict[str, int] = {}
    mirror: dict[str, int] = {}
    seen = 0
    result = {"reads": 0, "values": 0, "mixed": 0, "went back": 0, "longest": 0.0, "lost": 0}
    while not stop:
        for _ in range(200):
            key = rng.choice(KEYS if rng.random() < 0.7 else PASSING_KEYS)
            begin = time.thread_time()  # not the time in which others had the processor
            entry = reader.get(key)
            result["longest"] = max(result["longest"], time.thread_time() - begin)
            result["reads"] += 1
            if entry is not None:
                result["values"] += 1
                result["mixed"] += not is_whole(entry)
                result["went back"] += entry.generation < newest.get(key, 0)
                newest[key] = entry.generation
        seen = follow(reader, mirror, seen)
    # All writers are dead now, and the last successor has completed what they left.
    follow(reader, mirror, seen)
    result["lost"] = mirror != {e.key: e.generation for e in reader.items()}
    return result


def follow(reader: Reader, mirror: dict[str, int], seen: int) -> int:
    """Bring a mirror up to date from the changes alone."""
    seen, keys = reader.changed_since(seen)
    for key in keys:
        entry = reader.get(key)
        if entry is None:
            mirror.pop(key, None)
        else:
            mirror[key] = entry.generation
    return seen


# -- the tests ------------------------------------------------------------------------------------


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start a part of the test as a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@contextmanager
def tables():
    """Give a directory on tmpfs.

    No fixture: the forked processes come from this file, and do not carry pytest with them.
    """
    path = Path(tempfile.mkdtemp(prefix="kubelet-crash-", dir="/dev/shm"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.mark.timeout(1500)
def test_no_reader_ever_sees_a_mixed_value():
    """Thousands of writers die in the middle of things; readers see whole values and never wait."""
    with tables() as directory:
        counts, seen = run_processes(directory, ROUNDS)
        successor = Writer.attach(directory, DECLARATION)
        state = successor.reason, successor.verify(), len(successor) >= len(KEYS)
        size = successor.size
        successor.close()
        left = os.listdir(directory)
    print(counts, seen)
    assert counts["died"] == 0
    assert counts["inside"] > 0
    assert counts["half made"] > 0
    for result in seen:
        assert result["values"] > 1000
        assert (result["mixed"], result["went back"], result["lost"]) == (0, 0, 0)
        assert result["longest"] < 0.1
    assert state == (None, None, True)
    assert size < 8 << 20
    assert left == [DECLARATION.name]


def run_processes(directory: Path, rounds: int) -> tuple[dict[str, int], list[dict[str, float]]]:
    """Run the killer to its end with readers around it; return what they counted."""
    Writer.attach(directory, DECLARATION).close()
    readers = [start("read", directory, seed) for seed in (1, 2)]
    killer = None
    try:
        for reader in readers:
            if reader.stdout.readline() != "ready\n":
                raise RuntimeError("a reader did not start")
        killer = start("kill", directory, rounds, 99)
        counts = json.loads(killer.communicate(timeout=60 + rounds / 10)[0])
        Writer.attach(directory, DECLARATION).close()  # completes what the last one left
        for reader in readers:
            reader.terminate()
        return counts, [json.loads(reader.communicate(timeout=30)[0]) for reader in readers]
    finally:
        for process in [*readers, *([killer] if killer else [])]:
            process.kill()
            process.wait()
            process.stdout.close()


def test_a_creator_killed_at_any_time_leaves_no_half_made_table():
    """Whoever comes next finds no table or a sound one, and sweeps up what was left."""
    with tables() as directory:
        creators = start("create", directory, min(ROUNDS, 300), 5)
        counts = json.loads(creators.communicate(timeout=60)[0])
        Writer.attach(directory, DECLARATION).close()
        Writer.attach(directory, DECLARATION).close()  # who creates leaves sweeping to the next
        left = os.listdir(directory)
    assert counts["unsound"] == 0
    assert counts["absent"] > 0
    assert counts["present"] > 0
    assert left == [DECLARATION.name]


def kill_creators(directory: Path, rounds: int, seed: int) -> dict[str, int]:
    """Kill writers that have to make their table first."""
    rng = random.Random(seed)
    path = directory / DECLARATION.name
    counts = dict.fromkeys(("absent", "present", "unsound"), 0)
    for _ in range(rounds):
        path.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            Writer.attach(directory, DECLARATION)
            signal.pause()
        time.sleep(rng.uniform(0, 0.0015))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if not path.exists():
            counts["absent"] += 1
            continue
        counts["present"] += 1
        writer = Writer.attach(directory, DECLARATION)
        counts["unsound"] += writer.reason is not None
        writer.close()
    return counts


PARTS = {"kill": kill_writers, "read": read_for_ever, "create": kill_creators}

if __name__ == "__main__":
    part, place, *numbers = sys.argv[1:]
    print(json.dumps(PARTS[part](Path(place), *map(int, numbers))), flush=True)
