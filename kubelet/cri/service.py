"""What both services have in common: a connection, a default time-out, and how calls are made."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from google.protobuf.message import Message

from kubelet.cri import endpoint as endpoints
from kubelet.cri import timeouts
from kubelet.cri.connection import Call, Connection, Observe
from kubelet.cri.errors import BadReply, NotFound, Unimplemented

Answer = TypeVar("Answer", bound=Message)


class Service:
    """A client of one gRPC service of a runtime. Every call raises CriError when it fails."""

    SERVICE: ClassVar[str]

    def __init__(self, connection: Connection, timeout: float, clock: Callable[[], int]) -> None:
        self._connection = connection
        self._clock = clock
        self._unstreamed: set[str] = set()  # Stream calls that the runtime does not have
        self.timeout = timeout

    @classmethod
    async def connect(
        cls,
        endpoint: str,
        timeout: float = timeouts.DEFAULT,  # noqa: ASYNC109 - of the calls to come
        *,
        observe: Observe | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> Self:
        """Open a channel, in the process that will use it; EndpointError for a bad address.

        Nothing is sent: a runtime that is not there is found out by the first call, and each later
        one finds it again once it is there.
        """
        connection = Connection(endpoints.parse(endpoint), cls.SERVICE, observe, clock)
        return cls(connection, timeout, clock)

    async def close(self) -> None:
        """Give up every open call and close the channel; a second time does nothing."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def endpoint(self) -> str:
        """Where the runtime is."""
        return str(self._connection.endpoint)

    @property
    def in_flight(self) -> tuple[Call, ...]:
        """The calls that wait for their answer, the oldest first; open event streams are none."""
        return self._connection.in_flight

    async def _call(
        self,
        name: str,
        request: Message,
        answer: type[Answer],
        about: str = "",
        own: float = 0.0,
    ) -> Answer:
        limit = timeouts.limit(name, self.timeout, own)
        return await self._connection.unary(name, request, answer, about, limit)

    async def _gone(
        self,
        name: str,
        request: Message,
        answer: type[Message],
        about: str,
        own: float = 0.0,
    ) -> bool:
        """Make a call that ends something; what was not there is no error (R-6)."""
        try:
            await self._call(name, request, answer, about, own)
        except NotFound:
            return False
        return True

    async def _streamed(
        self, name: str, request: Message, answer: type[Answer]
    ) -> list[Answer] | None:
        """Collect a list that comes in parts; None when the runtime has no such call (R-7)."""
        if name in self._unstreamed:
            return None
        limit = timeouts.limit(name, self.timeout)
        parts = self._connection.stream(name, request, answer, limit)
        try:
            async with aclosing(parts):
                return [part async for part in parts]
        except Unimplemented:
            self._unstreamed.add(name)
            return None

    def _endless(
        self, name: str, request: Message, answer: type[Answer]
    ) -> AsyncGenerator[Answer, None]:
        limit = timeouts.limit(name, self.timeout)
        return self._connection.stream(name, request, answer, limit, endless=True)


def required(value: str, field: str, call: str, about: str = "") -> str:
    """An answer without this is none."""
    if not value:
        raise BadReply(f"{field} is empty", call, about)
    return value


def present(answer: Answer, field: str, call: str, about: str = "") -> Answer:
    """The same for a message within the answer."""
    if not answer.HasField(field):
        raise BadReply(f"{field} is not set", call, about)
    return answer
