"""The connection to the API server: everything that this process says there goes through it.

Requests of each purpose have connections of their own, watches one each. What is needed to
log in is looked at before each request: a new client certificate replaces all connections (N-46).
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from kubelet import logging as klog
from kubelet.config.version import VERSION
from kubelet.machine.architecture import architecture
from procs.node.apiserver import proxy, validity, words
from procs.node.apiserver.credentials import Credentials
from procs.node.apiserver.dial import Route, dial
from procs.node.apiserver.http1 import BrokenError, Flow, Http1
from procs.node.apiserver.kubeconfig import read_endpoint
from procs.node.apiserver.pool import Pool
from procs.node.apiserver.tls import Trust
from procs.node.apiserver.types import ApiError, Endpoint, Purpose, Request, Response
from procs.node.ledger import Ledger

log = klog.get_logger(__name__)

# Connections of each purpose. What waits for one of MAIN keeps no heartbeat waiting.
LIMITS: Final = {Purpose.MAIN: 8, Purpose.EVENTS: 2, Purpose.HEARTBEAT: 2}
# What may be sent again when a connection turns out to be closed: twice is as good as once.
_REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})

OnState = Callable[[str | None], None]


async def connect(path: str, ledger: Ledger | None, on_state: OnState) -> Connection:
    """Return the connection that a kubeconfig describes; KubeconfigError. Nothing is sent yet."""
    return Connection(await read_endpoint(path, ledger), on_state)


def user_agent() -> str:
    """Return what the server's log calls us."""
    return f"kubelet/{VERSION} (linux/{architecture()}) kubernetes"


@dataclass(slots=True)
class _Stream:
    """An answer that goes on, as Transport gives it out."""

    flow: Flow
    what: str

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.flow.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        return self.flow.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self.flow.pieces():
                yield data
        except BrokenError as err:
            raise ApiError(f"{self.what}: {err}") from None


@dataclass(slots=True)
class _Call:
    """A request, and how far it has come."""

    request: Request
    sent: bool = False


class Connection:
    """Transport to one API server; ``on_state`` is told None when it answers, or why not."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_state: OnState,
        *,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._endpoint = endpoint
        self._on_state = on_state
        self._told: str | None = ""  # nothing was told yet
        self._trust = Trust(endpoint)
        self._credentials = Credentials(endpoint, self.replace)
        self._context: ssl.SSLContext | None = None
        self._problem = ""  # of certificates that cannot be used while older ones can
        self._no_way = ""  # why no connection can ever be made
        chosen: proxy.Proxy | None = None
        try:
            chosen = proxy.choose(endpoint.server, endpoint.proxy, environment)
        except proxy.ProxyError as err:
            self._no_way = f"cannot connect to {endpoint.server}: {err}"
        self._route = Route.to(endpoint.server, endpoint.server_name, chosen)
        self._pools = {purpose: Pool(self._dial, limit) for purpose, limit in LIMITS.items()}
        self._streams: set[Http1] = set()
        # Streams that were open when a heartbeat had no answer, and what each had heard by then.
        self._doubted: dict[Http1, int] = {}
        self._closed = False
        url = urlsplit(endpoint.server)
        absolute = chosen is not None and chosen.scheme != "socks5" and not self._route.secure
        self._base = f"{url.scheme}://{url.netloc}{url.path}" if absolute else url.path
        asks_proxy = absolute and chosen is not None and chosen.authorization
        self._fixed = "".join(
            (
                f" HTTP/1.1\r\nHost: {url.netloc}\r\nUser-Agent: {user_agent()}\r\n",
                "Accept: application/json\r\n",
                f"Proxy-Authorization: {asks_proxy}\r\n" if asks_proxy else "",
            )
        ).encode()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._endpoint.server

    # Transport.

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole answer, whatever its status."""
        call = _Call(request)
        try:
            async with asyncio.timeout(request.seconds):
                response = await self._authorized(call)
        except TimeoutError:
            self._pools[request.purpose].drop()  # they may be as dead as this one
            if request.purpose is Purpose.HEARTBEAT:
                self._doubted = {stream: stream.heard for stream in self._streams}
            raise self._unreachable(self._late(call)) from None
        except ApiError as err:
            raise self._unreachable(str(err)) from None
        self._answered(response.status)
        self._end_doubted()
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        """Send a request on a connection of its own, which is closed at the end of the block."""
        call = _Call(request)
        try:
            async with asyncio.timeout(request.seconds):
                connection, flow = await self._begin(call)
        except TimeoutError:
            raise self._unreachable(self._late(call)) from None
        except ApiError as err:
            raise self._unreachable(str(err)) from None
        try:
            self._answered(flow.status)
            yield _Stream(flow, self._what(request))
        finally:
            self._streams.discard(connection)
            connection.close()

    def drop(self, purpose: Purpose | None = None) -> None:
        """Close idle connections, so that the next request makes a new one; None: of all."""
        for name, pool in self._pools.items():
            if purpose in (None, name):
                pool.drop()

    async def close(self) -> None:
        """Close everything."""
        self._closed = True
        self._credentials.close()
        for pool in self._pools.values():
            pool.close()
        for connection in tuple(self._streams):
            connection.close("it is closed here")

    def replace(self) -> None:
        """Make all connections anew, watches too; requests under way may end (N-46)."""
        if self._context is not None and not self._renewed():
            return
        for pool in self._pools.values():
            pool.replace()
        for connection in tuple(self._streams):
            connection.close("the certificates are others now")

    def _end_doubted(self) -> None:
        """End the streams that came to a halt when the server did: it may be another by now.

        To a machine that answers for a process that is stuck, the kernel finds nothing wrong.
        """
        doubted, self._doubted = self._doubted, {}
        for stream, heard in doubted.items():
            if stream in self._streams and stream.heard == heard:
                stream.close("nothing came while the server did not answer")

    # Requests.

    async def _authorized(self, call: _Call) -> Response:
        """Send it; once more with other credentials if the server refuses these."""
        response = await self._attempt(call)
        if response.status == 401 and await self._renew():
            response = await self._attempt(call)
        return response

    async def _renew(self) -> bool:
        with suppress(ApiError):  # what the server said is then the answer
            return await self._credentials.renew()
        return False

    async def _attempt(self, call: _Call) -> Response:
        """Send it; once more if it went into a connection that was closed meanwhile."""
        data = await self._bytes(call.request, whole=True)
        pool = self._pools[call.request.purpose]
        try:
            return await self._exchange(call, pool, data)
        except BrokenError as err:
            if not isinstance(err, _StaleError) or call.request.method not in _REPEATABLE:
                raise ApiError(f"{self._what(call.request)}: {err}") from None
        pool.drop()
        try:
            return await self._exchange(call, pool, data)
        except BrokenError as err:
            raise ApiError(f"{self._what(call.request)}: {err}") from None

    async def _exchange(self, call: _Call, pool: Pool, data: bytes) -> Response:
        connection = await pool.take()
        call.sent = True
        reused = connection.used > 0
        try:
            return await connection.exchange(data)
        except BrokenError as err:
            if reused and not err.begun:
                raise _StaleError(str(err), begun=False) from None
            raise
        finally:
            pool.give(connection)

    async def _begin(self, call: _Call) -> tuple[Http1, Flow]:
        connection, flow = await self._open(call)
        if flow.status == 401 and await self._renew():
            self._streams.discard(connection)
            connection.close()
            connection, flow = await self._open(call)
        return connection, flow

    async def _open(self, call: _Call) -> tuple[Http1, Flow]:
        """Begin a stream on a connection of its own."""
        data = await self._bytes(call.request, whole=False)
        connection = await self._dial()
        call.sent = True
        self._streams.add(connection)
        flow = Flow(connection.link)
        try:
            connection.send(data, flow)
            await flow.begun
        except BaseException as err:
            self._streams.discard(connection)
            connection.close()
            if isinstance(err, BrokenError):
                raise ApiError(f"{self._what(call.request)}: {err}") from None
            raise
        return connection, flow

    async def _dial(self) -> Http1:
        if self._closed:
            raise ApiError(f"the connection to {self.server} is closed")
        if self._no_way:
            raise ApiError(self._no_way)
        if self._context is None and self._route.secure:
            self._context = self._trust.context(self._credentials.pair)
        return Http1(await dial(self._route, self._context, self._trust.name))

    async def _bytes(self, request: Request, *, whole: bool) -> bytes:
        """Return a request as it is sent."""
        self.look()
        login = await self._credentials.headers()
        target = self._base + request.path
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ApiError(f"{request.path!r} cannot be asked for: it is no path of a URL")
        parts = [request.method.encode(), b" ", target.encode(), self._fixed, login]
        if whole and request.method == "GET" and not self._endpoint.disable_compression:
            parts.append(b"Accept-Encoding: gzip\r\n")
        if request.body or request.method not in ("GET", "DELETE"):
            kind = request.content_type or "application/json"
            parts.append(
                f"Content-Type: {kind}\r\nContent-Length: {len(request.body)}\r\n".encode()
            )
        parts += [b"\r\n", request.body]
        return b"".join(parts)

    # Who we are and whom we trust.

    def look(self) -> None:
        """Take certificates that were replaced: a few stat calls, made before each request.

        Who has just written a new one calls this, so that watches need not wait for a request.
        """
        self._credentials.look()
        if self._trust.look():
            self.replace()

    def _renewed(self) -> bool:
        """Make the context anew; what cannot be used leaves the one that there is."""
        try:
            self._context = self._trust.context(self._credentials.pair)
        except ApiError as err:
            # Certificate and key may be two files, and one of them still to be written.
            if str(err) != self._problem:
                log.warning("New certificates cannot be used", err=err)
            self._problem = str(err)
            return False
        self._problem = ""
        log.info("Certificates are others: connections are made anew", server=self.server)
        return True

    # Words.

    def _what(self, request: Request) -> str:
        return f"{request.method} {self.server}{request.path.partition('?')[0]}"

    def _late(self, call: _Call) -> str:
        seconds = f"within {call.request.seconds:g} s"
        if call.sent:
            return f"{self._what(call.request)}: no answer {seconds}"
        return f"cannot connect to {self.server}: no connection {seconds}"

    def _answered(self, status: int) -> None:
        """Note that there was an answer; one that refuses an old certificate says so itself."""
        self._state(None)
        own = self._own_fault() if status == 401 else ""
        if own:
            raise ApiError(f"{self.server} refuses us: {own}", status=401, reason="Unauthorized")

    def _own_fault(self) -> str:
        """Return what is wrong with our certificate's time; "" if nothing is."""
        pair = self._credentials.pair
        if pair is None or not self._route.secure:
            return ""
        return words.of_client(pair.name, validity.of_pem(pair.cert), datetime.now(UTC))

    def _unreachable(self, sentence: str) -> ApiError:
        own = self._own_fault()
        sentence = f"{sentence}; {own}" if own else sentence
        self._state(sentence)
        return ApiError(sentence)

    def _state(self, sentence: str | None) -> None:
        if sentence != self._told:
            self._told = sentence
            self._on_state(sentence)


class _StaleError(BrokenError):
    """A connection that was kept had been closed before it was used again."""
