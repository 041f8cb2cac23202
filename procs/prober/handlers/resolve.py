"""Addresses of hosts: those given as numbers at once, those given by name in a thread.

A lookup cannot be broken off. So there is one for a name however many wait for it, and there are
few at once: a resolver that never answers costs the probes of its names their time, and nobody
else's.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from procs.prober.handlers.patience import Patience
from procs.prober.job import ProbeError

Address: TypeAlias = tuple[int, Any]  # family, and what connect() takes
Lookup: TypeAlias = Callable[[str], list[Address]]

_LOOKUPS: Final = 8  # at once
_UNKNOWN: Final = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})


class UnknownHostError(Exception):
    """A name has no address; its text says why."""


class LookupTimeoutError(Exception):
    """The time was over before a name was looked up."""


def literal(host: str, port: int) -> tuple[Address, ...]:
    """Return the address that a host is itself; none if it is a name. Nobody is asked."""
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError):
        return ()
    return tuple((int(one[0]), one[4]) for one in found[:1])


def system_lookup(host: str) -> list[Address]:
    """Ask the resolver of this node, for as long as that takes."""
    found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    return [(int(one[0]), one[4]) for one in found]


class Resolver:
    """Looks names up, a few at a time."""

    def __init__(self, lookup: Lookup = system_lookup, limit: int = _LOOKUPS) -> None:
        self._lookup = lookup
        self._limit = limit
        self._running: dict[str, asyncio.Future[list[Address]]] = {}

    async def addresses(self, host: str, port: int, patience: Patience) -> tuple[Address, ...]:
        """Return the addresses of a name, in the order of the resolver."""
        found = self._running.get(host) or self._start(host)
        if not await _within(found, patience):
            raise LookupTimeoutError
        error = found.exception()
        if error is not None:
            raise UnknownHostError(f"lookup {host}: {_why(error)}")
        return tuple((family, (at[0], port, *at[2:])) for family, at in found.result())

    def _start(self, host: str) -> asyncio.Future[list[Address]]:
        if len(self._running) >= self._limit:
            raise ProbeError(
                f"dial tcp: lookup {host}: {self._limit} lookups wait for the resolver already"
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Address]] = loop.create_future()
        self._running[host] = future
        # Not one of a pool: this process must be able to end while a resolver is silent.
        threading.Thread(
            target=self._run, args=(host, loop, future), name="lookup", daemon=True
        ).start()
        return future

    def _run(
        self, host: str, loop: asyncio.AbstractEventLoop, future: asyncio.Future[list[Address]]
    ) -> None:
        found: list[Address] | Exception
        try:
            found = self._lookup(host) or socket.gaierror(socket.EAI_NONAME, "")
        except (OSError, UnicodeError) as err:
            found = err
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            loop.call_soon_threadsafe(self._found, host, future, found)

    def _found(
        self,
        host: str,
        future: asyncio.Future[list[Address]],
        found: list[Address] | Exception,
    ) -> None:
        self._running.pop(host, None)
        if isinstance(found, Exception):
            future.set_exception(found)
            future.exception()  # whoever asked may have gone: that is no error
        else:
            future.set_result(list(dict.fromkeys(found)))


async def _within(future: asyncio.Future[list[Address]], patience: Patience) -> bool:
    """Wait for what others may wait for, too; False: the time was over first."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_done: object = None) -> None:
        if not waiting.done():
            waiting.set_result(None)

    patience.on_end = end
    future.add_done_callback(end)
    try:
        await waiting
    finally:
        future.remove_done_callback(end)
    return future.done()


def _why(error: BaseException) -> str:
    if isinstance(error, socket.gaierror) and error.errno not in _UNKNOWN:
        return error.strerror or str(error)
    return "no such host"


NAMES: Final = Resolver()
