"""Lifecycle hooks of containers: exec, httpGet, sleep (P-143..P-147).

A hook that fails is an expected thing: it ends in a HookError whose text is for people.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kubelet import logging as klog
from kubelet.api.container import Container
from kubelet.api.handlers import HTTPGetAction, LifecycleHandler
from kubelet.api.pod import Pod
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError
from procs.syncloop.events import WARNING, Emit

log = klog.get_logger(__name__)

_AGENT: Final = "kube-lifecycle/1.37"
_BODY_LIMIT: Final = 10 << 10  # bytes of an answer or an output that are looked at
_HEAD_LIMIT: Final = 64 << 10
_PLAIN: Final = "server gave HTTP response to HTTPS client"


class HookError(Exception):
    """A hook failed; says how."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where an HTTP hook goes."""

    scheme: str
    host: str
    port: int
    path: str
    headers: Mapping[str, str]

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


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
        elif handler.tcp_socket is None:  # accepted by the API, and never acted on
            raise HookError(f"invalid handler: {container.name} names nothing to do")

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
            raise HookError(_exec_text(pod, container, command, err.go_text, "")) from None
        if answer.exit_code != 0:
            said = (answer.stdout + answer.stderr)[:_BODY_LIMIT].decode(errors="replace")
            failure = f"command '{' '.join(command)}' exited with {answer.exit_code}: {said}"
            raise HookError(_exec_text(pod, container, command, failure, said))

    async def _http(
        self, pod: Pod, container: Container, action: HTTPGetAction, pod_ip: str
    ) -> None:
        target = _target(container, action, pod_ip)
        try:
            try:
                await _get(target)
            except _PlainAnswerError:
                await _get(_as_plain(target))
                text = (
                    f'request to HTTPS lifecycle hook "{target}" got HTTP response, retry succeeded'
                )
                self._emit(pod, WARNING, "LifecycleHTTPFallback", text, container.name)
        except (OSError, EOFError, ValueError, _PlainAnswerError) as err:
            where = f'Container "{container.name}" in Pod "{_pod_name(pod)}"'
            why = str(err) or type(err).__name__
            raise HookError(
                f"HTTP lifecycle hook ({action.path}) for {where} failed - error: {why}"
            ) from None


def _exec_text(
    pod: Pod, container: Container, command: tuple[str, ...], failure: str, said: str
) -> str:
    return (
        f'Exec lifecycle hook ({list(command)}) for Container "{container.name}" in Pod '
        f'"{_pod_name(pod)}" failed - error: {failure}, message: {said!r}'
    )


def _pod_name(pod: Pod) -> str:
    return f"{pod.name}_{pod.namespace}({pod.uid})"


def _target(container: Container, action: HTTPGetAction, pod_ip: str) -> _Target:
    host = action.host or pod_ip
    if not host:
        raise HookError("failed to find networking container: the pod has no address")
    path = action.path or "/"
    return _Target(
        scheme=(action.scheme or "HTTP").lower(),
        host=host,
        port=port_of(container, action.port),
        path=path if path.startswith("/") else f"/{path}",
        headers={h.name: h.value for h in action.http_headers},
    )


def port_of(container: Container, port: int | str | None) -> int:
    """Return the number of a port that is given by number or by the name of a container's port."""
    if isinstance(port, int):
        return port
    if port and port.isdigit():
        return int(port)
    for known in container.ports:
        if port and known.name == port and known.container_port:
            return known.container_port
    raise HookError(f"couldn't find port: {port!r} in container {container.name}")


def _as_plain(target: _Target) -> _Target:
    headers = {k: v for k, v in target.headers.items() if k.lower() != "authorization"}
    return _Target("http", target.host, target.port, target.path, headers)


class _PlainAnswerError(Exception):
    """A server that was spoken to in TLS answered without."""


async def _get(target: _Target) -> None:
    """Send the request; that an answer comes is all that counts (P-145)."""
    context = _unverified() if target.scheme == "https" else None
    try:
        reader, writer = await asyncio.open_connection(
            target.host, target.port, ssl=context, limit=_HEAD_LIMIT
        )
    except ssl.SSLError as err:
        if "WRONG_VERSION_NUMBER" in str(err) or "HTTP_REQUEST" in str(err):
            raise _PlainAnswerError(f"http: {_PLAIN}") from None
        raise
    try:
        writer.write(_request(target))
        await writer.drain()
        line = await reader.readline()
        if not line.startswith(b"HTTP/"):
            raise ValueError(f"malformed HTTP response {line[:80]!r}")
        await reader.read(_BODY_LIMIT)
    finally:
        writer.close()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _request(target: _Target) -> bytes:
    given = {name.lower(): value for name, value in target.headers.items()}
    lines = [f"GET {target.path} HTTP/1.1"]
    if "host" not in given:
        lines.append(f"Host: {target.authority}")
    if "user-agent" not in given:
        lines.append(f"User-Agent: {_AGENT}")
    if "accept" not in given:
        lines.append("Accept: */*")
    lines += [f"{name}: {value}" for name, value in target.headers.items()]
    lines += ["Connection: close", "", ""]
    return "\r\n".join(lines).encode()
