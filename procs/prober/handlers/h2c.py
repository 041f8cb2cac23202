"""GET over HTTP/2 without TLS, for HTTP probes whose protocol is HTTP2 (B-12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from procs.prober.handlers import http2
from procs.prober.handlers.calling import Call, Target
from procs.prober.handlers.http2 import Exchange, Fields

_BODY: Final = 10 << 10
# What HTTP/2 says in other ways, and does not allow to be said again (RFC 9113, 8.2.2).
_NOT_SENT: Final = frozenset(
    {"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)


class H2cError(Exception):
    """No answer was had; its text says why."""


class H2cTimeoutError(H2cError):
    """No answer was had in time."""


@dataclass(frozen=True, slots=True)
class Got:
    """An answer: of its body, the first 10 KiB."""

    status: int
    fields: Fields
    body: bytes
    late_ns: int


async def get_h2c(
    target: Target,
    path: str,
    headers: Sequence[tuple[str, str]],
    seconds: float,
    *,
    authority: str = "",
) -> Got:
    """Ask a server by its address; ``authority`` stands where HTTP/1 has the field Host.

    ``headers`` are sent as they are but for those that HTTP/2 does not have; redirections are the
    caller's. ValueError: the request is too long to be sent.
    """
    fields = [
        (":method", "GET"),
        (":scheme", "https" if target.tls else "http"),
        (":path", path),
        (":authority", authority or target.authority),
        *((name.lower(), value) for name, value in headers if name.lower() not in _NOT_SENT),
    ]
    exchange = partial(Exchange, _BODY, cut=True)
    call = Call(replace(target, patient=False), http2.request(fields, None), exchange)
    ended = await call.run(seconds)
    if ended.error is not None:
        raise H2cError(str(ended.error))
    if ended.timed_out:
        raise H2cTimeoutError("context deadline exceeded")
    answer = ended.exchange.fields or {}
    status = answer.get(":status", "")
    if not (status.isascii() and status.isdigit() and len(status) == 3):
        raise H2cError(f"malformed response from server: malformed status code {status[:64]!r}")
    return Got(int(status), answer, bytes(ended.exchange.data), ended.late_ns)
