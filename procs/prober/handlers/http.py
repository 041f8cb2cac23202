"""HTTP probes: a GET that is answered with a status from 200 to 399 (B-12, B-19)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final

from kubelet.http.answer import Answer
from kubelet.http.target import (
    REQUESTS,
    TOO_MANY,
    Target,
    TargetError,
    agent,
    is_redirection,
    may_follow,
    named_host,
    redirected,
    refusal,
    request_of,
    sent_headers,
    target_of,
)
from procs.prober.handlers.patience import Patience
from procs.prober.handlers.plans import Plans
from procs.prober.handlers.resolve import (
    NAMES,
    Address,
    LookupTimeoutError,
    Resolver,
    UnknownHostError,
    literal,
)
from procs.prober.handlers.stream import Stream, StreamError, StreamTimeoutError
from procs.prober.handlers.tls import Tls
from procs.prober.job import Job, Outcome, ProbeError, Result

_AGENT: Final = agent("kube-probe")
_NO_HEAD: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY: Final = (
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
)
_PROTOCOLS: Final = frozenset({"", "HTTP1", "HTTP2"})


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that is ready to be sent."""

    target: Target
    sent: bytes
    addresses: tuple[Address, ...]  # none: the host is a name
    by_http2: bool = False


@dataclass(frozen=True, slots=True)
class _Reply:
    """What came back."""

    status: int
    location: str
    body: bytes


class _FailedError(Exception):
    """The probe failed; its text says how."""


async def probe_http(job: Job, names: Resolver = NAMES) -> Outcome:
    """Send the request, and go where the answers lead to as long as that is the same host."""
    request = _PLANS.of(job)
    patience = Patience(asyncio.get_running_loop(), job.seconds)
    try:
        reply = await _final_reply(request, patience, names)
        result, output = _judged(reply.status, reply.body)
    except _FailedError as err:
        result, output = Result.FAILURE, str(err)
    finally:
        patience.done()
    return Outcome(result, output, patience.late_ns())


def _judged(status: int, body: bytes) -> tuple[Result, str]:
    """Return the result, and what is told of it: of a failure not the body, as anyone may read."""
    if not 200 <= status < 400:
        return Result.FAILURE, f"HTTP probe failed with statuscode: {status}"
    said = body.decode(errors="replace")
    if status >= 300:
        return Result.WARNING, f"Probe terminated redirects, Response body: {said}"
    return Result.SUCCESS, said


# --- what is sent --------------------------------------------------------------------------------


def _first_request(job: Job) -> _Request:
    action = job.probe.http_get
    if action is None:
        raise ProbeError(f"{job.kind}Probe of container {job.container.name} has no httpGet")
    if action.protocol not in _PROTOCOLS:
        raise ProbeError(f"httpGet.protocol: {action.protocol!r}; allowed: HTTP1, HTTP2")
    try:
        target = target_of(job.container, action, job.pod_ip)
    except TargetError as err:
        raise ProbeError(str(err)) from None
    return _request(target, by_http2=action.protocol == "HTTP2")


def _request(target: Target, *, by_http2: bool) -> _Request:
    addresses = literal(target.host, target.port)
    return _Request(target, request_of(target, _AGENT), addresses, by_http2)


_PLANS: Final = Plans(_first_request)


# --- where it leads to ---------------------------------------------------------------------------


async def _final_reply(first: _Request, patience: Patience, names: Resolver) -> _Reply:
    at = first
    for _ in range(REQUESTS):
        reply = await _ask(at, first.target, patience, names)
        further = _further(first.target, at.target, reply.status, reply.location)
        if further is None:
            return reply
        why_not = refusal(further)
        if why_not is not None:
            raise _FailedError(f'Get "{further}": {why_not}')
        at = _request(further, by_http2=first.by_http2)
    raise _FailedError(f'Get "{reply.location}": {TOO_MANY}')


def _further(first: Target, at: Target, status: int, location: str) -> Target | None:
    """Return where an answer leads to; None: it is the last one, as it leads nowhere else."""
    if not is_redirection(status, location):
        return None
    try:
        further = redirected(at, location)
    except TargetError as err:
        raise _FailedError(f'Get "{at}": {err}') from None
    return further if may_follow(first, further) else None


def _leads_on(first: Target, at: Target, status: int, location: str) -> bool:
    """Tell whether an answer's body is of no interest, as it is the next one that counts."""
    if not is_redirection(status, location):
        return False
    try:
        return _further(first, at, status, location) is not None
    except _FailedError:
        return True


async def _ask(at: _Request, first: Target, patience: Patience, names: Resolver) -> _Reply:
    try:
        target = at.target
        found = at.addresses or await names.addresses(target.host, target.port, patience)
        if at.by_http2:
            return await _ask_by_http2(at, found, patience)
        return await _ask_by_http1(at, first, found, patience)
    except UnknownHostError as err:
        raise _FailedError(f'Get "{at.target}": dial tcp: {err}') from None
    except (StreamTimeoutError, LookupTimeoutError):
        raise _FailedError(f'Get "{at.target}": {_NO_HEAD}') from None
    except StreamError as err:
        raise _FailedError(f'Get "{at.target}": {err}') from None


async def _ask_by_http1(
    at: _Request, first: Target, found: tuple[Address, ...], patience: Patience
) -> _Reply:
    target = at.target
    answer = Answer(partial(_leads_on, first, target))
    secure = None
    if target.scheme == "https":
        # A server is told the name that it is asked by, an address is none.
        secure = partial(Tls, None if at.addresses else target.host)
    try:
        await Stream(found, patience, at.sent, answer).run(secure)
    except StreamTimeoutError:
        if answer.has_head:
            raise ProbeError(_NO_BODY) from None
        raise
    return _Reply(answer.status, answer.location, answer.body)


async def _ask_by_http2(at: _Request, found: tuple[Address, ...], patience: Patience) -> _Reply:
    """Ask without TLS's help in choosing the protocol; few probes do, so it is imported late."""
    from procs.prober.handlers import calling, h2c

    target = at.target
    place = calling.Target(str(found[0][1][0]), target.port, tls=target.scheme == "https")
    headers = list(sent_headers(target.headers, _AGENT))
    try:
        got = await h2c.get_h2c(
            place, target.path, headers, patience.left(), authority=named_host(target)
        )
    except h2c.H2cTimeoutError:
        raise StreamTimeoutError from None
    except h2c.H2cError as err:
        raise StreamError(str(err)) from None
    except ValueError as err:
        raise ProbeError(f"httpGet cannot be sent by HTTP2: {err}") from None
    return _Reply(got.status, got.fields.get("location", ""), got.body)
