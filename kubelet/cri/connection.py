"""One connection to a runtime: a channel, the calls on it, and what is known about them."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from kubelet.cri import errors
from kubelet.cri.complaints import Complaints
from kubelet.cri.core import grpc
from kubelet.cri.endpoint import Endpoint, transport_fault, unwrapped, why_unreachable
from kubelet.cri.errors import CriError
from kubelet.cri.operations import operation

Answer = TypeVar("Answer", bound=Message)
Unary: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
Stream: TypeAlias = "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]"
Observe: TypeAlias = Callable[[str, float, CriError | None], None]

MAX_MESSAGE: Final = 16 << 20

# The core keeps its own name for the time that one attempt to connect may take.
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0),  # a runtime is on this node
)

TRANSPORT: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that has not been answered yet."""

    name: str
    since_ns: int  # monotonic
    about: str  # an ID, a pod or an image; may be empty


def _unobserved(_operation: str, _seconds: float, _error: CriError | None) -> None:
    """Nobody measures."""


class Connection:
    """A channel to one endpoint, for one service, in the process that opened it."""

    def __init__(
        self,
        endpoint: Endpoint,
        service: str,
        observe: Observe | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.endpoint = endpoint
        self._service = service
        self._observe = observe or _unobserved
        self._clock = clock
        self._complaints = Complaints(clock)
        self._calls: dict[int, Call] = {}
        self._numbers = itertools.count()
        self._methods: dict[str, Unary] = {}  # by path: making one costs as much as a small call
        self._pid = os.getpid()
        self._closed = False
        self._channel = grpc.aio.insecure_channel(endpoint.target, options=OPTIONS)

    @property
    def in_flight(self) -> tuple[Call, ...]:
        """The calls that wait for their answer, the oldest first."""
        return tuple(self._calls.values())

    async def close(self) -> None:
        """End every call, which raises Cancelled in those that wait, and let go of the socket."""
        self._closed = True
        await self._channel.close()

    async def unary(
        self,
        name: str,
        request: Message,
        answer: type[Answer],
        about: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline is sent to the runtime
    ) -> Answer:
        """Make a call with one answer; the bytes are decoded here, where a bad one has a name."""
        with self._flight(name, about, timeout):
            path = self._path(name)
            method = self._methods.get(path)
            if method is None:
                method = self._methods[path] = self._channel.unary_unary(path)
            data = await method(request.SerializeToString(), timeout=timeout)
            return _decoded(answer, data, name, about)

    async def stream(
        self,
        name: str,
        request: Message,
        answer: type[Answer],
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        *,
        endless: bool = False,
    ) -> AsyncGenerator[Answer, None]:
        """Make a call with many answers.

        An endless one is open rather than unanswered: it is not in flight, and is observed when it
        ends. Leave the loop through ``contextlib.aclosing``, so that the runtime hears of it.
        """
        with self._flight(name, "", timeout, listed=not endless):
            method: Stream = self._channel.unary_stream(self._path(name))
            call = method(request.SerializeToString(), timeout=timeout)
            try:
                async for data in call:
                    yield _decoded(answer, data, name, "")
            finally:
                call.cancel()

    def _path(self, name: str) -> str:
        if os.getpid() != self._pid:
            raise RuntimeError(f"{name}: the channel was opened before the fork, in {self._pid}")
        if self._closed:
            raise errors.Cancelled(errors.Code.CANCELLED, "the client is closed", name)
        return f"/runtime.v1.{self._service}/{name}"

    @contextmanager
    def _flight(
        self, name: str, about: str, timeout: float | None, *, listed: bool = True
    ) -> Iterator[None]:
        """Keep the books on a call: in flight, how long, how it ended."""
        number, since = next(self._numbers), self._clock()
        if listed:
            self._calls[number] = Call(name, since, about)
        error: CriError | None = None
        try:
            yield
        except CriError as known:
            error = known
            raise
        except grpc.aio.AioRpcError as failure:
            error = self._error(failure, name, about, timeout, since)
            raise error from None
        except asyncio.CancelledError:
            closed = self._closed and not _task_is_cancelled()
            why = "the client was closed" if closed else "given up"
            error = errors.Cancelled(errors.Code.CANCELLED, why, name, about)
            if closed:
                raise error from None
            raise
        finally:
            self._calls.pop(number, None)
            self._observe(operation(name), (self._clock() - since) / 1e9, error)
            if error is not None:
                self._complaints.about(error)

    def _error(
        self,
        failure: grpc.aio.AioRpcError,
        name: str,
        about: str,
        timeout: float | None,
        since: int,
    ) -> CriError:
        details = failure.details() or ""
        if failure.code() in TRANSPORT and transport_fault(details):
            why = why_unreachable(self.endpoint, details)
            return errors.Unreachable(errors.Code.UNAVAILABLE, why, name, about)
        error = errors.from_code(failure.code().value[0], unwrapped(details), name, about)
        if timeout is None or not isinstance(error, errors.TimedOut):
            return error
        # A runtime that gives up by itself does so before our own time is over.
        if (self._clock() - since) / 1e9 < timeout * 0.99:
            return error
        why = f"no answer from the runtime at {self.endpoint} within {timeout:g}s"
        return errors.TimedOut(error.code, why, name, about, no_answer=True)


def _decoded(answer: type[Answer], data: bytes, name: str, about: str) -> Answer:
    try:
        return answer.FromString(data)
    except DecodeError:
        text = f"{len(data)} bytes that are not a {answer.__name__}"
        raise errors.BadReply(text, name, about) from None


def _task_is_cancelled() -> bool:
    task = None
    with suppress(RuntimeError):
        task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
