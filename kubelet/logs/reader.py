"""Reads the log of a container: to its end, or on and on while the container runs (H-60..H-62).

``read`` and ``follow`` are for programs that may wait, ``stream`` is for an event loop. All three
turn the same crank, :class:`LogReader`, which never waits for more to come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain as joined
from types import TracebackType
from typing import Final, Self, TypeVar

from kubelet import inotify
from kubelet.inotify import Inotify
from kubelet.logs.chain import Chain
from kubelet.logs.errors import LogError
from kubelet.logs.options import LogOptions
from kubelet.logs.records import Decoder, Record
from kubelet.logs.rendering import Piece, Renderer
from kubelet.logs.tail import find_tail

BLOCK: Final = 128 << 10
RECHECK_SECONDS: Final = 1.0  # how often it is asked whether the container has ended

_CHANGES: Final = (
    inotify.MODIFY
    | inotify.CREATE
    | inotify.MOVED_TO
    | inotify.MOVED_FROM
    | inotify.DELETE
    | inotify.DELETE_SELF
    | inotify.ONLYDIR
)

T = TypeVar("T")

# Tells whether the container has ended, so that nothing more will be written.
Ended = Callable[[], bool]


class LogReader:
    """One reader of one log, from the first line that is wanted on."""

    def __init__(self, path: str, options: LogOptions) -> None:
        self._options = options
        self._chain = Chain(path)
        self._decoder = Decoder()
        self._renderer = Renderer(options)
        self._tail = options.tail  # until it was found where to begin

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def directory(self) -> str:
        """Where the files of the log are."""
        return self._chain.directory

    @property
    def broken(self) -> int:
        """How many lines were left out because they make no sense."""
        return self._decoder.broken

    @property
    def full(self) -> bool:
        """Whether no more is wanted than was returned."""
        return self._renderer.full

    def require(self) -> None:
        """Open the log; LogError says why it cannot be."""
        self._chain.require()
        self._begin()

    def step(self) -> list[Piece] | None:
        """Return what comes next; None: there is no more at the moment."""
        if self._chain.fd < 0:
            if not self._chain.open():
                self._tail = None  # all that comes is new
                return None
            self._begin()
        data = self._chain.read(BLOCK)
        if data:
            return self._renderer.render(self._decoder.feed(data))
        if self._chain.was_cut():
            return self._renderer.render(self._decoder.finish())
        return self._go_over()

    def pause(self) -> list[Piece]:
        """Return what was held back for the end of a line that may be long in coming."""
        return self._renderer.render((), pause=True)

    def finish(self) -> list[Piece]:
        """Return what is left when nothing more will come, the beginning of a line included."""
        return self._renderer.render(self._decoder.finish(), pause=True)

    def close(self) -> None:
        """Let go of the file."""
        self._chain.close()

    def _begin(self) -> None:
        if self._tail is not None:
            self._chain.seek(find_tail(self._chain.fd, self._tail, self._options.stream))
            self._tail = None

    def _go_over(self) -> list[Piece] | None:
        """Go over to the file that has replaced this one, once this one is read to its end."""
        successor = self._chain.successor()
        if successor is None:
            return None
        rest: list[Record] = []
        while data := self._chain.read(BLOCK):  # written between the end and the replacement
            rest += self._decoder.feed(data)
        self._chain.switch(successor)
        return self._renderer.render(joined(rest, self._decoder.finish()))


def read(reader: LogReader) -> Iterator[list[Piece]]:
    """Read a log to its end, as it is now; LogError when it cannot be read."""
    reader.require()
    yield from _available(reader)
    yield from _some(reader.finish())


def follow(
    reader: LogReader, ended: Ended, recheck: float = RECHECK_SECONDS
) -> Iterator[list[Piece]]:
    """Read a log on and on until the container has ended and everything is read.

    The writer says nothing when it is done, so the container is asked after now and then.
    """
    with Inotify() as watch:
        _watch(watch, reader)
        over, asked = ended(), time.monotonic()
        while not over:
            yield from _available(reader)
            yield from _some(reader.pause())
            if reader.full:
                return
            watch.wait(max(0.0, asked + recheck - time.monotonic()))
            watch.read()
            if time.monotonic() - asked >= recheck:
                over, asked = ended(), time.monotonic()
        yield from _available(reader)  # what was written until the end
        yield from _some(reader.finish())


async def stream(
    reader: LogReader,
    ended: Ended | None = None,
    nudge: asyncio.Event | None = None,
    recheck: float = RECHECK_SECONDS,
) -> AsyncGenerator[list[Piece], None]:
    """Read a log without blocking the event loop; with ``ended``, on and on until it is true.

    ``ended`` is asked whenever something was written, and must be quick. ``nudge`` is set by
    whoever hears that the container may have ended. Use it within ``contextlib.aclosing``.
    """
    if ended is None:
        await _in_thread(reader.require)
        async for pieces in _stepwise(reader):
            yield pieces
    else:
        woken = nudge or asyncio.Event()
        with Inotify() as watch, _waking(watch, woken):
            _watch(watch, reader)
            over = False
            while not over:
                woken.clear()
                over = ended()  # before the last read: what was written until then is read
                async for pieces in _stepwise(reader):
                    yield pieces
                if reader.full:
                    return
                for pieces in _some(reader.pause()):
                    yield pieces
                if not over:
                    await _wait(woken, recheck)
    for pieces in _some(reader.finish()):
        yield pieces


def _some(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Return a list unless it is empty: nobody is to be told of nothing."""
    if pieces:
        yield pieces


def _available(reader: LogReader) -> Iterator[list[Piece]]:
    while not reader.full and (pieces := reader.step()) is not None:
        yield from _some(pieces)


async def _stepwise(reader: LogReader) -> AsyncGenerator[list[Piece], None]:
    while not reader.full and (pieces := await _in_thread(reader.step)) is not None:
        if pieces:
            yield pieces


async def _in_thread(work: Callable[[], T]) -> T:
    """Run something in a thread to its end, even if nobody wants it any more.

    The reader must not be closed while a thread reads: the number of its descriptor may be
    somebody else's by then.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


@contextmanager
def _waking(watch: Inotify, woken: asyncio.Event) -> Iterator[None]:
    def heard() -> None:
        watch.read()
        woken.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(watch.fileno(), heard)
    try:
        yield
    finally:
        loop.remove_reader(watch.fileno())


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()


def _watch(watch: Inotify, reader: LogReader) -> None:
    """Watch the directory, not the file: the file is moved away, and another one comes."""
    try:
        watch.add(reader.directory, _CHANGES)
    except OSError as err:
        raise LogError(f"failed to watch log directory {reader.directory}: {err}") from None
