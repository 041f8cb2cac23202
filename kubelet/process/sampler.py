"""A sampling profiler that a process runs on itself.

It looks at the Python stacks of all threads ``hertz`` times a second and adds each one up under its
collapsed form, ``thread;outermost (file.py:1);...;innermost (file.py:9)``. Nothing has to be
installed on the node, and nothing outside the process needs the right to trace it.

Two ways to weigh a sample:

``wall``
    one for each period that passed, so that waiting shows as wide as working;
``cpu``
    the microseconds of processor time that this thread used since the sample before, so that a
    loop asleep in ``select`` does not show at all. What native threads used (they have no Python
    frames) is listed as a stack of its own, so that the sum is the whole process.

Two ways to be woken:

A timer signal, when the event loop runs in the main thread, as it does in all our processes. The
handler runs in the very thread that it looks at, between two of its bytecodes. The kernel looks at
the CPU timer once in each of its own ticks (100 to 1000 a second), so a higher ``hertz`` in mode
``cpu`` gives no more samples than that; the weights stay true.

A thread, otherwise. It sees a busy thread only when that one lets go of the interpreter lock, which
a callback of a millisecond never does before it is over: nearly all of its work would be put down
to the ``select`` that follows (measured: 9 of 10 samples). A switch interval as short as can be
while the sampler waits helps, and is all that can be done.

Asking pthreads for the clock of a thread that has just ended is undefined behaviour, so the clock's
number is made from the kernel's thread id instead: for a thread that is gone that is an error, not
a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import CodeType, FrameType
from typing import Any, Final

MAX_SECONDS: Final = 300.0
MAX_HERTZ: Final = 1000
MAX_DEPTH: Final = 128
MAX_STACKS: Final = 20_000

CUT_FRAMES: Final = "(outer frames cut)"
MOVING: Final = "(moving)"
OTHER_STACKS: Final = "(other stacks)"
NOT_SAMPLED: Final = "(after the last sample)"
NATIVE_THREADS: Final = "(native threads)"
NO_PYTHON: Final = "(no Python frames)"

_THREAD_NAME: Final = "profile-sampler"
_EAGER: Final = 5e-6  # switch interval while the sampling thread waits: its turn comes at once
_UNDISTURBED: Final = 1.0  # ... and while it looks: nobody takes the turn away
_LOOKS: Final = 3  # tries to read one stack that does not move meanwhile


class Mode(StrEnum):
    """What a sample weighs."""

    CPU = "cpu"
    WALL = "wall"


class SamplerBusyError(RuntimeError):
    """Another profile of this process is still running; two would measure each other."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """How a profile was taken and what taking it cost."""

    mode: str
    unit: str  # of the weights: "microseconds" or "samples"
    woken_by: str  # "signal" or "thread"
    hertz: int
    seconds: float  # as measured, not as asked
    samples: int  # times that the stacks were looked at
    torn: int  # stacks of other threads that moved each time they were read
    threads: int  # different threads seen
    stacks: int  # different stacks seen
    dropped: int  # samples put into "(other stacks)" because the limit was reached
    process_cpu_us: int  # what the whole process used meanwhile
    sampler_cpu_us: int  # what the sampling itself used, part of the figure above
    sampler_cost_percent: float  # of one core


@dataclass(frozen=True, slots=True)
class Profile:
    """Collapsed stacks with their weights, and how they were taken."""

    stacks: dict[str, int]
    metadata: Metadata


_running = threading.Lock()


async def sample(seconds: float, hertz: int, mode: str) -> dict[str, int]:
    """Profile this process and return its collapsed stacks with their weights."""
    return (await profile(seconds, hertz, mode)).stacks


async def profile(seconds: float, hertz: int, mode: str) -> Profile:
    """Profile this process for ``seconds``, while its event loop goes on.

    Raises ``ValueError`` on a setting out of range, naming all of them, and ``SamplerBusyError``
    when a profile is being taken already. Cancelling it ends the sampling as well.
    """
    chosen = check(seconds, hertz, mode)
    if not _running.acquire(blocking=False):
        raise SamplerBusyError("this process is being profiled already")
    try:
        samples = _Samples(hertz, chosen)
        if _may_use_signal(chosen):
            return await _woken_by_signal(samples, seconds)
        return await _woken_by_thread(samples, seconds)
    finally:
        _running.release()


def check(seconds: float, hertz: int, mode: str) -> Mode:
    """Return the mode if all three settings are in range; otherwise say all that is wrong."""
    wrong = []
    if not 0 < seconds <= MAX_SECONDS:
        wrong.append(f"seconds is {seconds!r}, must be above 0 and at most {MAX_SECONDS:g}")
    if not 1 <= hertz <= MAX_HERTZ:
        wrong.append(f"hertz is {hertz!r}, must be between 1 and {MAX_HERTZ}")
    if mode not in list(Mode):
        wrong.append(f"mode is {mode!r}, must be one of {', '.join(Mode)}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return Mode(mode)


def fit(stacks: dict[str, int], max_bytes: int) -> dict[str, int]:
    """Return the heaviest stacks that fit into a message; the rest is added up in one. Pure."""
    kept: dict[str, int] = {}
    rest = 0
    room = max_bytes - _size(OTHER_STACKS)
    for stack, weight in sorted(stacks.items(), key=lambda item: (-item[1], item[0])):
        room -= _size(stack)
        if room < 0 or stack == OTHER_STACKS:
            rest += weight
        else:
            kept[stack] = weight
    return {**kept, OTHER_STACKS: rest} if rest else kept


def _size(stack: str) -> int:
    """Return what a stack and its weight take at most, in MessagePack."""
    return len(stack.encode()) + 5 + 9


# --- woken by a timer signal ---------------------------------------------------------------------

# A timer that counts the processor time of the whole process, or one that counts the time of day.
_TIMERS: Final = {
    Mode.CPU: (signal.ITIMER_PROF, signal.SIGPROF),
    Mode.WALL: (signal.ITIMER_REAL, signal.SIGALRM),
}


def _may_use_signal(mode: Mode) -> bool:
    """Only the main thread handles signals, and a timer in use belongs to whoever set it."""
    timer, number = _TIMERS[mode]
    if threading.current_thread() is not threading.main_thread():
        return False
    unused = signal.getsignal(number) in {signal.SIG_DFL, signal.SIG_IGN}
    return unused and signal.getitimer(timer) == (0.0, 0.0)


async def _woken_by_signal(samples: _Samples, seconds: float) -> Profile:
    end = time.monotonic_ns() + int(seconds * 1e9)
    with samples.measuring(), _timer(samples, end):
        await asyncio.sleep(seconds)
    return samples.result("signal")


@contextlib.contextmanager
def _timer(samples: _Samples, end_ns: int) -> Iterator[None]:
    """Have ``samples`` look whenever the timer fires, until ``end_ns`` or the end of the block."""
    timer, number = _TIMERS[samples.mode]
    main = threading.get_ident()

    def arm() -> None:
        signal.setitimer(timer, samples.next_pause())

    def handler(_number: int, frame: FrameType | None) -> None:
        # The timer fires once and is set again here, so the handler never interrupts itself. An
        # exception would surface in whatever the process was doing: none leaves.
        began = time.thread_time_ns()
        samples.guarded(lambda: samples.look({main: frame} if frame else {}))
        samples.exclude(main, time.thread_time_ns() - began)
        if time.monotonic_ns() < end_ns and samples.failure is None:
            arm()

    signal.signal(number, handler)
    signal.siginterrupt(number, False)
    try:
        arm()
        yield
    finally:
        signal.setitimer(timer, 0)
        # Not the default action, which is to die: one last signal may be on its way.
        signal.signal(number, signal.SIG_IGN)


# --- woken by a thread ---------------------------------------------------------------------------


async def _woken_by_thread(samples: _Samples, seconds: float) -> Profile:
    """Run the sampling thread, wait for it without blocking the loop, and leave none behind."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    gate = threading.Lock()  # held: go on. A bare lock, for no Python runs between it and the look
    gate.acquire()

    def body() -> None:
        began = time.thread_time_ns()
        samples.guarded(lambda: _thread_loop(samples, gate, seconds))
        samples.own_cpu_ns = time.thread_time_ns() - began
        with contextlib.suppress(RuntimeError):  # a loop closed meanwhile has nobody left to tell
            loop.call_soon_threadsafe(done.set)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=body, name=_THREAD_NAME, daemon=True)
    with samples.measuring():
        thread.start()
        try:
            await done.wait()
        finally:
            gate.release()
            thread.join()
            sys.setswitchinterval(interval)
    return samples.result("thread")


def _thread_loop(samples: _Samples, gate: threading.Lock, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sys.setswitchinterval(_EAGER)
        if gate.acquire(timeout=samples.next_pause()):
            gate.release()
            return
        sys.setswitchinterval(_UNDISTURBED)
        samples.look({})


# --- the samples ---------------------------------------------------------------------------------


class _Names:
    """Turns frames into text, remembering each code object's."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, tuple[str, str]] = {}

    def collapse(self, thread: str, frame: FrameType | None) -> str:
        """Return the whole stack, outermost frame first."""
        parts: list[str] = []
        while frame is not None and len(parts) < MAX_DEPTH:
            parts.append(self._frame(frame))
            frame = frame.f_back
        if frame is not None:
            parts[-1] = CUT_FRAMES
        parts.append(thread)
        parts.reverse()
        return ";".join(parts)

    def _frame(self, frame: FrameType) -> str:
        code = frame.f_code
        known = self._codes.get(code)
        if known is None:
            known = _plain(code.co_qualname), _plain(short_path(code.co_filename))
            self._codes[code] = known
        return f"{known[0]} ({known[1]}:{frame.f_lineno or code.co_firstlineno})"


@dataclass(slots=True)
class _Thread:
    """A thread as the sampler knows it."""

    name: str
    native_id: int | None
    cpu_ns: int


@dataclass(slots=True)
class _Samples:
    """What was seen so far."""

    hertz: int
    mode: Mode
    weights: dict[str, int] = field(default_factory=dict)  # nanoseconds, or samples
    threads: dict[int, _Thread] = field(default_factory=dict)
    names: _Names = field(default_factory=_Names)
    looks: int = 0
    last_ns: int = 0
    torn: int = 0
    dropped: int = 0
    python_cpu_ns: int = 0
    process_cpu_ns: int = 0
    own_cpu_ns: int = 0
    elapsed_ns: int = 0
    failure: BaseException | None = None

    def next_pause(self) -> float:
        """Return the seconds to the next look: one period on average, never in step with anything.

        Work that repeats at the same rate would otherwise always be hit, or always be missed.
        """
        return (0.5 + random.random()) / self.hertz  # noqa: S311

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Note what time and processor time pass within the block."""
        for ident in sys._current_frames():  # noqa: SLF001 - the documented way to see threads
            self._advance(ident)
        start, cpu = time.monotonic_ns(), time.process_time_ns()
        self.last_ns = start
        try:
            yield
        finally:
            self.elapsed_ns = time.monotonic_ns() - start
            self.process_cpu_ns = time.process_time_ns() - cpu
            self._settle()

    def _settle(self) -> None:
        """Account for what was used after the last look: in an idle process that may be all."""
        for ident in list(self.threads):
            thread, used_ns = self._advance(ident)
            self.python_cpu_ns += used_ns
            if self.mode is Mode.CPU and used_ns > 0:
                self._add(f"{thread.name};{NOT_SAMPLED}", used_ns)

    def exclude(self, ident: int, cost_ns: int) -> None:
        """Keep what a look cost out of the weights of the thread that took it."""
        self.own_cpu_ns += cost_ns
        if thread := self.threads.get(ident):
            thread.cpu_ns += cost_ns

    def guarded(self, action: Callable[[], Any]) -> None:
        """Do it, and keep what goes wrong for ``result`` to raise where it can be handled."""
        try:
            action()
        except BaseException as problem:  # noqa: BLE001 - raised by result()
            self.failure = problem

    def look(self, own: dict[int, FrameType]) -> None:
        """Take one sample. ``own`` is the frame of the thread that calls, if it is to be seen."""
        periods = self._periods()
        me = threading.get_ident()
        for ident, frame in sys._current_frames().items():  # noqa: SLF001
            if ident == me and me not in own:
                continue
            thread, used_ns = self._advance(ident)
            self.python_cpu_ns += used_ns
            weight = used_ns if self.mode is Mode.CPU else periods
            if weight > 0:
                self._add(self._stack(thread, ident, own.get(ident), frame), weight)
        self.looks += 1

    def _periods(self) -> int:
        """Return how many periods passed since the last look, at least one.

        A call into native code delays the look until it returns; it weighs what it took.
        """
        now = time.monotonic_ns()
        passed, self.last_ns = now - self.last_ns, now
        return max(1, round(passed * self.hertz / 1e9))

    def _stack(self, thread: _Thread, ident: int, own: FrameType | None, frame: FrameType) -> str:
        """Return a thread's stack; another's is read again if it moved in the middle of it."""
        if own is not None:
            return self.names.collapse(thread.name, own)
        for _ in range(_LOOKS):
            before = frame.f_lasti
            text = self.names.collapse(thread.name, frame)
            now = sys._current_frames().get(ident)  # noqa: SLF001
            if now is None or (now is frame and frame.f_lasti == before):
                return text
            frame = now
        self.torn += 1
        return f"{thread.name};{MOVING}"

    def _advance(self, ident: int) -> tuple[_Thread, int]:
        """Return what is known of a thread, and the CPU time that it used since the last look."""
        thread = self.threads.get(ident)
        now = _thread_cpu_ns(thread.native_id) if thread else None
        if thread is None or now is None:
            # Idents are used again: a new thread may wear the number of one that ended.
            thread = self.threads[ident] = _identify(ident)
            return thread, 0
        used, thread.cpu_ns = max(0, now - thread.cpu_ns), now
        return thread, used

    def _add(self, stack: str, weight: int) -> None:
        if stack not in self.weights and len(self.weights) >= MAX_STACKS:
            self.dropped += 1
            stack = OTHER_STACKS
        self.weights[stack] = self.weights.get(stack, 0) + weight

    def result(self, woken_by: str) -> Profile:
        """Return the finished profile, or raise what ended it early."""
        if self.failure is not None:
            raise self.failure
        stacks = self.weights
        if self.mode is Mode.CPU:
            native = self.process_cpu_ns - self.python_cpu_ns - self.own_cpu_ns
            whole = {**stacks, f"{NATIVE_THREADS};{NO_PYTHON}": native}
            stacks = {stack: ns // 1000 for stack, ns in whole.items() if ns >= 1000}
        return Profile(stacks, self._metadata(woken_by, len(stacks)))

    def _metadata(self, woken_by: str, stacks: int) -> Metadata:
        return Metadata(
            mode=self.mode.value,
            unit="microseconds" if self.mode is Mode.CPU else "samples",
            woken_by=woken_by,
            hertz=self.hertz,
            seconds=round(self.elapsed_ns / 1e9, 3),
            samples=self.looks,
            torn=self.torn,
            threads=len(self.threads),
            stacks=stacks,
            dropped=self.dropped,
            process_cpu_us=self.process_cpu_ns // 1000,
            sampler_cpu_us=self.own_cpu_ns // 1000,
            sampler_cost_percent=round(100 * self.own_cpu_ns / max(1, self.elapsed_ns), 2),
        )


def _identify(ident: int) -> _Thread:
    thread = next((one for one in threading.enumerate() if one.ident == ident), None)
    if thread is None or thread.native_id is None:  # native code made it: no Thread object
        return _Thread(f"thread-{ident}", None, 0)
    # Python 3.11 does not set native_id anew after a fork: the main thread would bear its parent's.
    native_id = os.getpid() if thread is threading.main_thread() else thread.native_id
    return _Thread(_plain(thread.name), native_id, _thread_cpu_ns(native_id) or 0)


def _thread_cpu_ns(native_id: int | None) -> int | None:
    """Return the CPU time of one thread of this process, None if it has just ended."""
    if native_id is None:
        return 0
    try:
        return time.clock_gettime_ns((~native_id << 3) | 6)  # per thread, as the scheduler counts
    except OSError:
        return None


def short_path(filename: str) -> str:
    """Return a source file's path as an import would see it: ``asyncio/events.py``."""
    folders = {*sys.path, os.path.dirname(os.__file__)}
    roots = (folder.rstrip("/") + "/" for folder in folders if folder)
    longest = max((root for root in roots if filename.startswith(root)), key=len, default="")
    return filename[len(longest) :]


def _plain(text: str) -> str:
    """Keep the separators of the collapsed form out of names."""
    return text.replace(";", ":").replace("\n", " ")
