"""The sampler, in processes of its own: what it sees, what it costs, what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubelet.process import sampler

ROOT = Path(__file__).parents[2]

# A loop that burns CPU in short callbacks, as an event loop does, and sleeps in between.
PRELUDE = """
import asyncio, json, os, signal, sys, threading, time
from dataclasses import asdict
from kubelet.process import sampler

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(50))

async def work():
    while True:
        burn(0.001)
        await asyncio.sleep(0.002)

async def busy(*arguments):
    worker = asyncio.create_task(work())
    try:
        return await sampler.profile(*arguments)
    finally:
        worker.cancel()

def show(profile, **more):
    print(json.dumps({**asdict(profile.metadata), "stacks": profile.stacks, **more}))
"""


def run(code: str) -> dict[str, Any]:
    """Run the code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["printed"] = done.stderr
    return found


def weight(found: dict[str, Any], word: str) -> int:
    """Add up the stacks with a word in them."""
    return sum(value for stack, value in found["stacks"].items() if word in stack)


def test_cpu_mode_sees_short_callbacks_and_not_the_idle_select():
    """Nearly all CPU time of a loop of 1 ms callbacks is put down to the callbacks."""
    found = run("show(asyncio.run(busy(1.5, 200, 'cpu')))")
    total = sum(found["stacks"].values())
    assert found["unit"] == "microseconds"
    assert found["woken_by"] == "signal"
    assert weight(found, "burn (") > 0.6 * total
    assert weight(found, "select (selectors.py") < 0.3 * total
    assert total == pytest.approx(found["process_cpu_us"] - found["sampler_cpu_us"], rel=0.1)


def test_cpu_mode_works_after_a_fork():
    """All our processes are forked; the main thread's CPU clock must be that of the child."""
    found = run("""
import os
child = os.fork()
if child == 0:
    show(asyncio.run(busy(1, 200, "cpu")))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
""")
    assert weight(found, "burn (") > 0.5 * sum(found["stacks"].values()) > 0


def test_wall_mode_counts_waiting():
    """An idle loop is all select, at about the rate that was asked for."""
    found = run("show(asyncio.run(sampler.profile(1, 100, 'wall')))")
    assert found["unit"] == "samples"
    assert weight(found, "select (selectors.py") > 0.9 * sum(found["stacks"].values())
    assert 50 < sum(found["stacks"].values()) < 150


def test_idle_process_shows_nothing_in_cpu_mode():
    """A loop that sleeps uses no CPU worth a sample."""
    found = run("show(asyncio.run(sampler.profile(0.5, 200, 'cpu')))")
    assert sum(found["stacks"].values()) < 50_000


def test_other_threads_are_seen_by_their_names():
    """Every thread is a root of its own; separators in names are made harmless."""
    found = run("""
thread = threading.Thread(target=burn, args=(1.0,), name="work;er 1", daemon=True)
async def main():
    thread.start()
    return await sampler.profile(0.8, 200, "wall")
show(asyncio.run(main()))
""")
    roots = {stack.split(";")[0] for stack in found["stacks"]}
    assert roots == {"MainThread", "work:er 1"}
    assert weight(found, "work:er 1;") > 20


def test_frames_read_function_file_and_line():
    """The innermost frame is last, with the path that an import would give."""
    found = run("show(asyncio.run(sampler.profile(0.3, 100, 'wall')))")
    stack = max(found["stacks"], key=lambda one: found["stacks"][one])
    first, *_, last = stack.split(";")
    assert first == "MainThread"
    assert last.startswith("EpollSelector.select (selectors.py:")
    assert "Runner.run (asyncio/runners.py:" in stack


def test_outside_the_main_thread_a_thread_samples():
    """A loop in another thread has no signals: the fallback samples, and leaves no thread."""
    found = run("""
result = []
loop = threading.Thread(
    target=lambda: result.append(asyncio.run(busy(0.5, 100, "wall"))), name="loop"
)
interval = sys.getswitchinterval()
loop.start()
loop.join()
left = [one.name for one in threading.enumerate()]
show(result[0], left=left, interval=sys.getswitchinterval() == interval)
""")
    assert found["woken_by"] == "thread"
    assert found["left"] == ["MainThread"]
    assert found["interval"] is True
    assert weight(found, "loop;") > 20


@pytest.mark.parametrize("where", ["main", "thread"])
def test_cancelling_ends_the_sampling(where: str):
    """No timer, handler or thread is left, and another profile can be taken at once."""
    found = run(f"""
async def main():
    task = asyncio.create_task(sampler.profile(100, 200, "wall"))
    await asyncio.sleep(0.2)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    names = [one.name for one in threading.enumerate()]
    return await sampler.profile(0.2, 100, "wall"), names

result = []
def body():
    result.extend(asyncio.run(main()))
if {where!r} == "main":
    body()
else:
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
show(result[0], names=result[1], timer=signal.getitimer(signal.ITIMER_REAL))
""")
    assert "profile-sampler" not in found["names"]
    assert found["timer"] == [0.0, 0.0]
    assert found["samples"] > 5


def test_late_signal_does_not_kill():
    """The default action of the timers' signals is to die: it is not put back."""
    found = run("""
profile = asyncio.run(busy(0.3, 1000, "cpu"))
os.kill(os.getpid(), signal.SIGPROF)
show(profile)
""")
    assert found["samples"] > 5


def test_timer_in_use_is_left_alone():
    """A process that uses the timer itself is sampled by a thread."""
    found = run("""
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 50)
profile = asyncio.run(sampler.profile(0.3, 100, "wall"))
show(profile, left=signal.getitimer(signal.ITIMER_REAL)[0])
""")
    assert found["woken_by"] == "thread"
    assert 40 < found["left"] < 50


def test_two_at_a_time_are_refused():
    """The second is told that the first is running."""
    found = run("""
async def main():
    first = asyncio.create_task(sampler.profile(0.3, 100, "wall"))
    await asyncio.sleep(0.05)
    try:
        await sampler.sample(0.1, 100, "wall")
    except sampler.SamplerBusyError as problem:
        return await first, str(problem)
profile, problem = asyncio.run(main())
show(profile, problem=problem)
""")
    assert found["problem"] == "this process is being profiled already"


def test_deep_stacks_are_cut_at_the_outer_end():
    """The frame that runs is always there; what is cut is said."""
    found = run("""
async def main():
    def deep(level):
        return burn(0.2) if level == 0 else deep(level - 1)
    asyncio.get_running_loop().call_later(0.01, deep, 300)
    return await sampler.profile(0.3, 200, "cpu")
show(asyncio.run(main()))
""")
    deep = [stack.split(";") for stack in found["stacks"] if "burn (" in stack]
    assert deep
    for frames in deep:
        assert len(frames) == sampler.MAX_DEPTH + 1
        assert frames[1] == sampler.CUT_FRAMES


def test_cost_is_measured_and_small():
    """At 200 Hz the sampling takes a few percent of a core at most, and says how much."""
    found = run("show(asyncio.run(busy(1, 200, 'cpu')))")
    assert 0 < found["sampler_cpu_us"] < found["process_cpu_us"]
    assert found["sampler_cost_percent"] < 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 0, "x"), ["seconds is 0", "hertz is 0", "mode is 'x'"]),
        ((301, 1001, "cpu"), ["seconds is 301", "hertz is 1001"]),
        ((float("nan"), 1, "wall"), ["seconds is nan"]),
    ],
)
def test_settings_out_of_range_are_all_named(arguments, words):
    """Every bad setting is in the error, with what is allowed."""
    with pytest.raises(ValueError) as caught:
        sampler.check(*arguments)
    assert all(word in str(caught.value) for word in words)
    assert str(caught.value).count(";") == len(words) - 1


def test_fit_keeps_the_heaviest_and_the_sum():
    """What does not fit into a message is added up, never lost."""
    stacks = {f"t;{'x' * 50}{number}": number for number in range(1, 101)}
    small = sampler.fit(stacks, 1000)
    assert sum(small.values()) == sum(stacks.values())
    assert sum(len(stack) for stack in small) < 1000
    assert f"t;{'x' * 50}100" in small
    assert sampler.OTHER_STACKS in small
    assert sampler.fit(stacks, 10**6) == stacks


def test_number_of_stacks_is_bounded(monkeypatch):
    """Beyond the limit samples are added up under one name, and counted."""
    monkeypatch.setattr(sampler, "MAX_STACKS", 2)
    samples = sampler._Samples(100, sampler.Mode.WALL)
    for stack in ("a", "b", "c", "d", "a"):
        samples._add(stack, 1)
    assert samples.weights == {"a": 2, "b": 1, sampler.OTHER_STACKS: 2}
    assert samples.dropped == 2
