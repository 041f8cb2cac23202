"""Lifecycle hooks of containers: exec, httpGet, sleep (P-143..P-147).

A hook that fails is an expected thing: it ends in a HookError whose text is for people.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from kubelet import logging as klog
from kubelet.api.container import Container
from kubelet.api.handlers import HTTPGetAction, LifecycleHandler
from kubelet.api.pod import Pod
from kubelet.config.version import VERSION
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError
from procs.syncloop.events import WARNING, Emit

log = klog.get_logger(__name__)

_AGENT: Final = "kube-lifecycle/" + ".".join(VERSION.removeprefix("v").split(".")[:2])
_BODY_LIMIT: Final = 10 << 10  # bytes of an answer or an output that are looked at
_HEAD_LIMIT: Final = 64 << 10
_CONNECT_SECONDS: Final = 30.0
_HANDSHAKE_SECONDS: Final = 10.0
_REQUESTS: Final = 10  # the first one, and those that redirections ask for
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_SCHEMES: Final = frozenset({"http", "https"})
_PLAIN: Final = "http: server gave HTTP response to HTTPS client"
# What OpenSSL calls the first bytes of an answer that is not TLS.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3})(?:\s|$)")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")  # a line end would begin another header
_SAFE: Final = "/%:@!$&'()*+,;=~-._"  # stands for itself in a path


class HookError(Exception):
    """A hook failed; says how."""


class Hooks:
    """Runs hooks."""

    def __init__(self, client: RuntimeClient, emit: Emit) -> None:
        self._client = client
        self._emit = emit

    async def run(  # noqa: PLR0913, PLR0917 - what runs, where, and for how long
        self,
        pod: Pod,
        container: Container,
        container_id: str,
        handler: LifecycleHandler,
        pod_ip: str,
        seconds: float | None,
    ) -> None:
        """Run a hook to its end; without ``seconds`` an exec may take as long as it likes."""
        if handler.exec is not None:
            await self._exec(pod, container, container_id, handler.exec.command, seconds or 0.0)
        elif handler.http_get is not None:
            await self._http(pod, container, handler.http_get, pod_ip)
        elif handler.sleep is not None:
            await asyncio.sleep(handler.sleep.seconds or 0)
        else:  # a tcpSocket is accepted by the API, and never acted on
            given = "tcpSocket" if handler.tcp_socket is not None else "nothing"
            raise HookError(
                f"Cannot run handler: invalid handler: {given} in container {container.name}; "
                f"allowed are exec, httpGet and sleep"
            )

    async def _exec(
        self,
        pod: Pod,
        container: Container,
        container_id: str,
        command: tuple[str, ...],
        seconds: float,
    ) -> None:
        try:
            answer = await self._client.exec_sync(container_id, command, seconds)
        except CriError as err:
            raise HookError(_exec_text(pod, container, command, err.go_text, b"")) from None
        if answer.exit_code != 0:
            said = answer.stderr[:_BODY_LIMIT].decode(errors="replace")
            failure = f"command '{' '.join(command)}' exited with {answer.exit_code}: {said}"
            output = answer.stdout + answer.stderr
            raise HookError(_exec_text(pod, container, command, failure, output))

    async def _http(
        self, pod: Pod, container: Container, action: HTTPGetAction, pod_ip: str
    ) -> None:
        try:
            target = _target(container, action, pod_ip)
            try:
                await _get(target)
            except _PlainAnswerError as err:
                await self._fall_back(pod, target, err)
        except _RequestError as err:
            where = f'Container "{container.name}" in Pod "{_pod_name(pod)}"'
            raise HookError(
                f"HTTP lifecycle hook ({action.path}) for {where} failed - error: {err}"
            ) from None

    async def _fall_back(self, pod: Pod, target: _Target, why: _PlainAnswerError) -> None:
        """Ask again without TLS (P-145); what is wrong otherwise is what was wrong first."""
        log.v(1, "HTTPS lifecycle hook got an HTTP response and is tried without TLS", pod=str(pod))
        headers = tuple(h for h in target.headers if h[0].lower() != "authorization")
        try:
            await _get(replace(target, scheme="http", headers=headers))
        except _RequestError as err:
            log.v(1, "Lifecycle hook failed without TLS as well", pod=str(pod), err=err)
            raise why from None
        text = (
            f"request to HTTPS lifecycle hook {target.authority} got HTTP response, "
            "retry with HTTP succeeded"
        )
        self._emit(pod, WARNING, "LifecycleHTTPFallback", text, "")


def _exec_text(
    pod: Pod, container: Container, command: tuple[str, ...], failure: str, output: bytes
) -> str:
    said = json.dumps(output[:_BODY_LIMIT].decode(errors="replace"), ensure_ascii=False)
    return (
        f'Exec lifecycle hook ([{" ".join(command)}]) for Container "{container.name}" in Pod '
        f'"{_pod_name(pod)}" failed - error: {failure}, message: {said}'
    )


def _pod_name(pod: Pod) -> str:
    return f"{pod.name}_{pod.namespace}({pod.uid})"


# --- where a request goes ------------------------------------------------------------------------


class _RequestError(Exception):
    """A request did not get an answer; says why."""


class _PlainAnswerError(_RequestError):
    """A server that was spoken to in TLS answered without."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where an HTTP hook goes, and what it says there."""

    scheme: str
    host: str
    port: int
    path: str  # as it is sent, with the query
    headers: tuple[tuple[str, str], ...]

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def _target(container: Container, action: HTTPGetAction, pod_ip: str) -> _Target:
    host = action.host or pod_ip
    if not host:
        raise _RequestError("failed to find networking container: the pod has no address")
    headers = tuple((h.name, h.value) for h in action.http_headers)
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _RequestError(f"invalid header field {name!r} with value {value!r}")
    try:
        port = port_of(container, action.port)
    except HookError as err:
        raise _RequestError(str(err)) from None
    return _Target(
        scheme=(action.scheme or "HTTP").lower(),
        host=host,
        port=port,
        path=_sent_path(action.path),
        headers=headers,
    )


def _sent_path(path: str) -> str:
    """Return a path as it may be sent: with a slash before it, and nothing that ends it early."""
    try:
        found = urlsplit(path)
    except ValueError:  # it is too late to refuse it: it is a path as it is
        return "/" + quote(path.lstrip("/"), safe=_SAFE)
    sent = quote(found.path, safe=_SAFE)
    sent = sent if sent.startswith("/") else f"/{sent}"
    return f"{sent}?{quote(found.query, safe=_SAFE + '?')}" if found.query else sent


def port_of(container: Container, port: int | str | None) -> int:
    """Return the number of a port that is given by number or by the name of a container's port."""
    number = port if isinstance(port, int) else _named_port(container, port or "")
    if not 0 < number < 65536:
        raise HookError(f"invalid port number: {number}")
    return number


def _named_port(container: Container, name: str) -> int:
    for known in container.ports:
        if name and known.name == name and known.container_port:
            return known.container_port
    if name.isascii() and name.isdigit():
        return int(name)
    raise HookError(f"couldn't find port: {name!r} in container {container.name}")


# --- the request ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a server said, as far as it matters."""

    status: int
    location: str
    length: int | None  # of what follows


async def _get(target: _Target) -> None:
    """Send a request; that an answer comes is all that counts (P-145).

    A redirection within the host is followed: often it adds but a slash, and what the hook is to
    bring about happens behind it. One to elsewhere is an answer as good as any.
    """
    at = target
    for _ in range(_REQUESTS):
        try:
            answer = await _ask(at)
        except (OSError, EOFError, ValueError) as err:
            raise _RequestError(f'Get "{at}": {_why(err)}') from None
        further = _redirected(at, answer)
        if further is None or further.host.lower() != target.host.lower():
            return
        at = further
    raise _RequestError(f'Get "{at}": stopped after {_REQUESTS} redirects')


def _why(err: Exception) -> str:
    """Say what went wrong as a sentence's end, not as a number and a tuple."""
    if isinstance(err, ssl.SSLError):
        return f"tls: {(err.reason or str(err)).replace('_', ' ').lower()}"
    if isinstance(err, OSError) and err.errno and err.errno > 0:
        return os.strerror(err.errno).lower()
    if isinstance(err, asyncio.IncompleteReadError):
        return "unexpected EOF"
    return str(err) or type(err).__name__


def _redirected(target: _Target, answer: _Answer) -> _Target | None:
    """Return where an answer leads to; None: nowhere that can be gone to."""
    if answer.status not in _REDIRECTIONS or not answer.location:
        return None
    try:
        found = urlsplit(urljoin(str(target), answer.location))
        port = found.port or {"http": 80, "https": 443}.get(found.scheme, 0)
    except ValueError:
        return None
    if found.scheme not in _SCHEMES or not found.hostname:
        return None
    headers = target.headers
    if urlsplit(answer.location).netloc:  # the name that was asked for is not that of this place
        headers = tuple(h for h in headers if h[0].lower() != "host")
    query = f"?{found.query}" if found.query else ""
    path = _sent_path(f"{found.path}{query}")
    return _Target(found.scheme, found.hostname, port, path, headers)


async def _ask(target: _Target) -> _Answer:
    reader, writer = await _connect(target)
    try:
        writer.write(_request(target))
        await writer.drain()
        answer = await _head(reader)
        await _discard(reader, answer.length)
    finally:
        writer.transport.abort()  # the answer is here: nobody waits for the server's good-bye
    return answer


async def _connect(target: _Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = target.scheme == "https"
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await asyncio.open_connection(
                target.host,
                target.port,
                limit=_HEAD_LIMIT,
                ssl=_unverified() if tls else None,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls else None,
            )
    except ssl.SSLError as err:
        if err.reason in _NOT_TLS:
            raise _PlainAnswerError(f'Get "{target}": {_PLAIN}') from None
        raise
    except TimeoutError:
        raise TimeoutError(f"dial tcp {target.authority}: i/o timeout") from None


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _request(target: _Target) -> bytes:
    given = {name.lower(): value for name, value in target.headers}
    lines = [f"GET {target.path} HTTP/1.1", f"Host: {given.get('host') or target.authority}"]
    if "user-agent" not in given:
        lines.append(f"User-Agent: {_AGENT}")
    if "accept" not in given:
        lines.append("Accept: */*")
    lines += [f"{name}: {value}" for name, value in _sent_headers(target.headers)]
    lines += ["Connection: close", "", ""]
    return "\r\n".join(lines).encode()


def _sent_headers(headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Leave out what is said already, and an Accept that was emptied: that is to have none."""
    for name, value in headers:
        lower = name.lower()
        if lower not in {"host", "connection"} and (lower != "accept" or value):
            yield name, value


async def _head(reader: asyncio.StreamReader) -> _Answer:
    """Read the head of an answer; those that only announce another are passed over."""
    while True:
        line = await reader.readline()
        found = _STATUS.match(line)
        if found is None:
            shown = line[:80].decode(errors="replace").strip()
            raise EOFError("EOF") if not line else ValueError(f"malformed HTTP response {shown!r}")
        fields = await _fields(reader)
        if not 100 <= int(found[1]) < 200:
            length = fields.get("content-length", "")
            return _Answer(
                status=int(found[1]),
                location=fields.get("location", ""),
                length=int(length) if length.isascii() and length.isdigit() else None,
            )


async def _fields(reader: asyncio.StreamReader) -> dict[str, str]:
    found: dict[str, str] = {}
    size = 0
    while line := await reader.readline():
        size += len(line)
        if size > _HEAD_LIMIT:
            raise ValueError(f"the answer's head has more than {_HEAD_LIMIT} bytes")
        if not line.strip():
            return found
        name, _, value = line.decode("latin-1").partition(":")
        found.setdefault(name.strip().lower(), value.strip())
    raise EOFError("unexpected EOF")


async def _discard(reader: asyncio.StreamReader, length: int | None) -> None:
    """Read what follows, if it is not much: a server may take it ill when nobody listens."""
    left = _BODY_LIMIT if length is None else length
    if left > _BODY_LIMIT:
        return
    with suppress(OSError):  # the answer is known: how it goes on does not count
        while left > 0 and (data := await reader.read(left)):
            left -= len(data)
