"""Making a connection: address, socket, proxy, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from procs.node.apiserver import validity, words
from procs.node.apiserver.link import Link
from procs.node.apiserver.proxy import Proxy
from procs.node.apiserver.tls import new_context
from procs.node.apiserver.tunnel import TunnelError, through
from procs.node.apiserver.types import ApiError
from procs.node.apiserver.validity import Validity

_ONE_SECONDS: Final = 5.0  # for one address of several
_DIAGNOSE_SECONDS: Final = 5.0
_KEEPALIVE_SECONDS: Final = 30  # of silence until the other side is asked
_KEEPALIVE_EACH: Final = 10
_KEEPALIVE_TRIES: Final = 3
# After so long without an answer of the other machine, what was sent counts as lost.
_USER_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Route:
    """The way to the API server."""

    server: str  # its URL
    host: str
    port: int
    secure: bool
    server_name: str  # that its certificate must be for
    proxy: Proxy | None

    @classmethod
    def to(cls, server: str, server_name: str, proxy: Proxy | None) -> Route:
        """Return the way to a URL."""
        url = urlsplit(server)
        host, secure = url.hostname or "", url.scheme == "https"
        port = url.port or (443 if secure else 80)
        return cls(server, host, port, secure, server_name or host, proxy)


async def dial(route: Route, context: ssl.SSLContext | None, ca: str) -> Link:
    """Return a connection; ApiError with a sentence that says at which point it failed."""
    link = await _reach(route)
    try:
        if route.secure:
            assert context is not None
            await _secure(link, route, context, ca)
    except BaseException:
        link.close()
        raise
    return link


async def _reach(route: Route) -> Link:
    """Return a plain connection to the server, through the proxy if there is one."""
    proxy = route.proxy
    if proxy is None:
        try:
            return await _open(route.host, route.port)
        except OSError as err:
            raise ApiError(f"cannot connect to {route.server}: {words.of_socket(err)}") from None
    start = f"cannot connect to {route.server}: proxy {proxy}: "
    try:
        link = await _open(proxy.host, proxy.port)
    except OSError as err:
        raise ApiError(start + words.of_socket(err)) from None
    try:
        await _pass(link, route, proxy)
    except BaseException as err:
        link.close()
        if isinstance(err, TunnelError):
            raise ApiError(f"{start}{err}") from None
        raise
    return link


async def _pass(link: Link, route: Route, proxy: Proxy) -> None:
    if proxy.scheme == "https":
        context = new_context()
        context.load_default_certs()
        try:
            await link.secure(context, proxy.host)
        except ssl.SSLError as err:
            now = datetime.now(UTC)
            reason = words.of_tls(err, "a CA of this system", proxy.host, None, now)
            raise TunnelError(reason) from None
        except OSError as err:
            raise TunnelError(words.of_socket(err)) from None
    if route.secure or proxy.scheme == "socks5":  # else it is asked for whole URLs
        await through(link, proxy, route.host, route.port)


async def _secure(link: Link, route: Route, context: ssl.SSLContext, ca: str) -> None:
    try:
        await link.secure(context, route.server_name)
    except ssl.SSLError as err:
        seen = None
        code = getattr(err, "verify_code", 0)
        if code in (words.EXPIRED, words.NOT_YET_VALID):
            seen = await _certificate(route)
        reason = words.of_tls(err, ca, route.server_name, seen, datetime.now(UTC))
        raise ApiError(f"cannot connect to {route.server}: {reason}") from None
    except OSError as err:
        reason = f"TLS: {words.of_socket(err)}"
        raise ApiError(f"cannot connect to {route.server}: {reason}") from None


async def _certificate(route: Route) -> Validity | None:
    """Ask the server for its certificate once more, to say its dates: nothing is sent there.

    OpenSSL does not give away a certificate that it has refused.
    """
    context = new_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_DIAGNOSE_SECONDS):
            link = await _reach(route)
            try:
                layer = await link.secure(context, route.server_name)
                return validity.of_der(layer.peer())
            finally:
                link.close()
    except (ApiError, OSError):  # TimeoutError and SSLError are of these
        return None


# --- sockets -------------------------------------------------------------------------------------


async def _open(host: str, port: int) -> Link:
    """Connect to the first address of a host that answers; OSError of the last one."""
    addresses = await _addresses(host, port)
    failed: OSError = OSError("it has no address")
    for family, address in addresses:
        try:
            async with asyncio.timeout(_ONE_SECONDS if len(addresses) > 1 else None):
                return await _connect(family, address)
        except OSError as err:  # TimeoutError is one
            failed = err
    raise failed


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    kind = socket.SOCK_STREAM
    try:  # an address needs no thread that asks for it
        found = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=kind)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


async def _connect(family: int, address: Any) -> Link:
    loop = asyncio.get_running_loop()
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        _tune(sock)
        await loop.sock_connect(sock, address)
        _, link = await loop.create_connection(Link, sock=sock)
    except BaseException:
        sock.close()
        raise
    link.on_socket(sock)
    return link


def _tune(sock: socket.socket) -> None:
    """A server that is gone without a word is noticed within a minute, at any time."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EACH)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_TRIES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
