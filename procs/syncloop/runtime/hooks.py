"""Lifecycle hooks of containers: exec, httpGet, sleep (P-143..P-147).

A hook that fails is an expected thing: it ends in a HookError whose text is for people.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import replace
from typing import Final

from kubelet import logging as klog
from kubelet.api.container import Container
from kubelet.api.handlers import HTTPGetAction, LifecycleHandler
from kubelet.api.pod import Pod
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError
from kubelet.http.answer import BODY_LIMIT, Answer, AnswerError, BodyError
from kubelet.http.target import (
    REQUESTS,
    TOO_MANY,
    Target,
    TargetError,
    agent,
    is_redirection,
    may_follow,
    redirected,
    refusal,
    request_of,
    target_of,
)
from kubelet.http.words import system_words
from procs.syncloop.events import WARNING, Emit

log = klog.get_logger(__name__)

_AGENT: Final = agent("kube-lifecycle")
_OUTPUT_LIMIT: Final = 10 << 10  # bytes of an output that are looked at
_READ: Final = 64 << 10
_CONNECT_SECONDS: Final = 30.0
_HANDSHAKE_SECONDS: Final = 10.0
_PLAIN: Final = "http: server gave HTTP response to HTTPS client"
# What OpenSSL calls the first bytes of an answer that is not TLS.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})


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
            said = answer.stderr[:_OUTPUT_LIMIT].decode(errors="replace")
            failure = f"command '{' '.join(command)}' exited with {answer.exit_code}: {said}"
            output = answer.stdout + answer.stderr
            raise HookError(_exec_text(pod, container, command, failure, output))

    async def _http(
        self, pod: Pod, container: Container, action: HTTPGetAction, pod_ip: str
    ) -> None:
        try:
            target = target_of(container, action, pod_ip)
            try:
                await _get(target)
            except _PlainAnswerError as err:
                await self._fall_back(pod, target, err)
        except (_RequestError, TargetError) as err:
            where = f'Container "{container.name}" in Pod "{_pod_name(pod)}"'
            raise HookError(
                f"HTTP lifecycle hook ({action.path}) for {where} failed - error: {err}"
            ) from None

    async def _fall_back(self, pod: Pod, target: Target, why: _PlainAnswerError) -> None:
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
    said = json.dumps(output[:_OUTPUT_LIMIT].decode(errors="replace"), ensure_ascii=False)
    return (
        f'Exec lifecycle hook ([{" ".join(command)}]) for Container "{container.name}" in Pod '
        f'"{_pod_name(pod)}" failed - error: {failure}, message: {said}'
    )


def _pod_name(pod: Pod) -> str:
    return f"{pod.name}_{pod.namespace}({pod.uid})"


# --- the request ---------------------------------------------------------------------------------


class _RequestError(Exception):
    """A request did not get an answer; says why."""


class _PlainAnswerError(_RequestError):
    """A server that was spoken to in TLS answered without."""


async def _get(target: Target) -> None:
    """Send a request; that an answer comes is all that counts (P-145).

    A redirection within the host is followed: often it adds but a slash, and what the hook is to
    bring about happens behind it. One to elsewhere is an answer as good as any.
    """
    at = target
    for _ in range(REQUESTS):
        try:
            answer = await _ask(at)
        except (OSError, AnswerError) as err:
            raise _RequestError(f'Get "{at}": {_why(err)}') from None
        further = _further(target, at, answer)
        if further is None:
            return
        at = further
    raise _RequestError(f'Get "{at}": {TOO_MANY}')


def _further(first: Target, at: Target, answer: Answer) -> Target | None:
    """Return where an answer leads to; None: nowhere that is to be gone to."""
    if not is_redirection(answer.status, answer.location):
        return None
    try:
        further = redirected(at, answer.location)
    except TargetError:
        return None
    return further if may_follow(first, further) and refusal(further) is None else None


def _why(err: Exception) -> str:
    """Say what went wrong as a sentence's end, not as a number and a tuple."""
    if isinstance(err, ssl.SSLError):
        return f"tls: {(err.reason or str(err)).replace('_', ' ').lower()}"
    if isinstance(err, OSError) and err.errno and err.errno > 0:
        return system_words(err.errno)
    return str(err) or type(err).__name__


async def _ask(target: Target) -> Answer:
    reader, writer = await _connect(target)
    try:
        writer.write(request_of(target, _AGENT))
        await writer.drain()
        answer = Answer()
        try:
            await _hear(reader, answer)
        except (OSError, BodyError):
            if not answer.has_head:  # else it is known: how it goes on does not count
                raise
    finally:
        writer.transport.abort()  # the answer is here: nobody waits for the server's good-bye
    return answer


async def _hear(reader: asyncio.StreamReader, answer: Answer) -> None:
    """Read an answer to its end, if it is not much: a server may take it ill to be cut short."""
    while not answer.done and (answer.length or 0) <= BODY_LIMIT:
        data = await reader.read(_READ)
        if not data:
            answer.end()
        answer.feed(data)


async def _connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = target.scheme == "https"
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await asyncio.open_connection(
                target.host,
                target.port,
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
