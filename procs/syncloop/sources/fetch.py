"""A GET over HTTP/1.1 on the event loop: small, bounded, and silent about its headers.

One connection per request, TLS by the system's certificate authorities, redirects followed, ten
seconds for everything (P-6). No header's value is ever part of an error.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from kubelet import __version__
from kubelet.config.errors import one_line

SECONDS: Final = 10.0
MAX_BYTES: Final = 10 << 20
MAX_REDIRECTS: Final = 10
_MAX_HEAD: Final = 64 << 10
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Not told to another host than the one they were meant for.
_SENSITIVE: Final = frozenset({"authorization", "cookie", "cookie2", "www-authenticate"})
_OURS: Final = frozenset({"connection", "content-length", "transfer-encoding", "accept-encoding"})
# What a path may have beside letters and digits without being escaped.
_SAFE: Final = "%/:=&?~#+!$,;'@()*[]"

Headers = Mapping[str, Sequence[str]]


class FetchError(Exception):
    """Nothing could be fetched; says why."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


def without_secrets(url: str) -> str:
    """Return a URL as it may be shown: without the user, the password and the query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "staticPodURL"
    return one_line(f"{parts.scheme}://{host}{parts.path}")


async def get(url: str, headers: Headers, seconds: float = SECONDS) -> bytes:
    """Return the body of what a URL gives with 200; FetchError otherwise."""
    try:
        async with asyncio.timeout(seconds):
            return await _follow(url, headers)
    except TimeoutError:
        raise FetchError(f"no answer within {seconds:g} seconds") from None


async def _follow(url: str, headers: Headers) -> bytes:
    for _ in range(MAX_REDIRECTS + 1):
        parts = _split(url)
        answer = await _exchange(parts, headers)
        where = answer.headers.get("location")
        if answer.status in _REDIRECTS and where:
            url = urljoin(url, where)
            headers = _forwarded(headers, parts, _split(url))
            continue
        if answer.status != 200:
            raise FetchError(f"answered {answer.status} {one_line(answer.reason)}".rstrip())
        if not answer.body:
            raise FetchError("answered with an empty body")
        return answer.body
    raise FetchError(f"redirected more than {MAX_REDIRECTS} times")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as err:
        raise FetchError(f"is not a URL: {err}") from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise FetchError("is not a URL with http:// or https:// and a host")
    return parts


def _forwarded(headers: Headers, old: SplitResult, new: SplitResult) -> Headers:
    """Return what may be sent to where a redirect leads."""
    downgraded = old.scheme == "https" and new.scheme == "http"
    found = {name: values for name, values in headers.items() if name.lower() != "host"}
    if new.hostname == old.hostname and not downgraded:
        return found
    return {name: values for name, values in found.items() if name.lower() not in _SENSITIVE}


async def _exchange(parts: SplitResult, headers: Headers) -> _Answer:
    """Send one request and read its answer."""
    request = _request(parts, headers)
    context = _context() if parts.scheme == "https" else None
    port = parts.port or _PORTS[parts.scheme]
    try:
        reader, writer = await asyncio.open_connection(
            parts.hostname, port, ssl=context, limit=_MAX_HEAD
        )
    except (OSError, UnicodeError) as err:
        raise FetchError(f"cannot connect: {one_line(str(err))}") from None
    try:
        writer.write(request)
        await writer.drain()
        return await _answer(reader)
    except asyncio.IncompleteReadError:
        raise FetchError("the answer broke off") from None
    except (asyncio.LimitOverrunError, ValueError) as err:
        raise FetchError(f"the answer is no HTTP: {one_line(str(err))}") from None
    except OSError as err:
        raise FetchError(f"the connection broke: {one_line(str(err))}") from None
    finally:
        writer.transport.abort()  # nothing more is expected, and nobody waits for a farewell


def _context() -> ssl.SSLContext:
    """Return what checks a server by the CAs of this system, in the same way on every interpreter.

    From 3.13 on Python's default refuses what many private CAs sign, for want of key identifiers,
    and trusts a given CA though another has signed it. The Go kubelet does only the latter.
    """
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _request(parts: SplitResult, headers: Headers) -> bytes:
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    given = {name.lower() for name in headers}
    lines = [f"GET {path} HTTP/1.1"]
    if "host" not in given:
        lines.append(f"Host: {parts.netloc.rpartition('@')[2]}")
    if "user-agent" not in given:
        lines.append(f"User-Agent: kubelet/{__version__}")
    if parts.username and "authorization" not in given:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append(f"Authorization: Basic {base64.b64encode(user.encode()).decode()}")
    for name, values in headers.items():
        if name.lower() not in _OURS:
            lines += [_header(name, value) for value in values]
    lines += ["Accept-Encoding: identity", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1", errors="replace")


def _header(name: str, value: str) -> str:
    text = f"{name}: {value}"
    if not name or not name.isascii() or set(" :\t") & set(name) or not text.isprintable():
        raise FetchError(f"header {one_line(name)!r} of staticPodURLHeader cannot be sent")
    return text


# Reading.


async def _answer(reader: asyncio.StreamReader) -> _Answer:
    while True:
        status, reason, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        if status >= 200:  # below, the answer is yet to come
            break
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity" and status == 200:
        raise FetchError(f"answered with Content-Encoding {one_line(encoding)}, which is not read")
    body = b""
    if status == 200:  # of no other answer is anything but the head used
        body = await _body(reader, headers)
    return _Answer(status, reason, headers, body)


def _head(data: bytes) -> tuple[int, str, dict[str, str]]:
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not code.isdigit() or len(code) != 3:
        raise ValueError(f"it begins with {first[:40]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(code), reason, headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    coding = headers.get("transfer-encoding", "").lower()
    if coding == "chunked":
        return await _chunks(reader)
    if coding not in ("", "identity"):
        raise ValueError(f"Transfer-Encoding is {coding[:20]!r}")
    length = headers.get("content-length")
    if length is None:
        return await _rest(reader)
    if not length.isdigit():
        raise ValueError(f"Content-Length is {length[:20]!r}")
    _check_size(int(length))
    return await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0].strip(), 16)
        if size < 0:
            raise ValueError("a chunk has a negative size")
        if size == 0:
            return bytes(body)
        _check_size(len(body) + size)
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("a chunk does not end where it should")


async def _rest(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while part := await reader.read(64 << 10):
        body += part
        _check_size(len(body))
    return bytes(body)


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise FetchError(f"the answer has more than {MAX_BYTES} bytes")
