"""gRPC probes: ``grpc.health.v1.Health/Check`` and what a Go kubelet says of its outcome (B-13).

The request and the answer are protobuf messages of one field each, and gRPC is five bytes before
them and two fields after them: a client library would cost memory and threads for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from kubelet import durations
from kubelet.config.version import VERSION
from kubelet.cri.errors import Code
from procs.prober.handlers import http2
from procs.prober.handlers.calling import Call, Ended, Target
from procs.prober.handlers.http2 import Exchange, Http2Error
from procs.prober.job import Job, Outcome, ProbeError, Result

AGENT: Final = "kube-probe/" + ".".join(VERSION.removeprefix("v").split(".")[:2])
TLS: Final = "TLS"  # GRPCAction.mode
_OUTPUT: Final = 10 << 10
_SERVICE_LIMIT: Final = 8 << 10  # bytes of a service's name: what fits in a frame with the rest
_PATH: Final = "/grpc.health.v1.Health/Check"
_CONTENT: Final = "application/grpc"
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING: Final = 1
_GARBLED: Final = (
    "grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data"
)

# What gRPC makes of a status of HTTP, and of a stream that was reset; else Unknown, and Internal.
_OF_HTTP: Final = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}
_OF_RESET: Final = {
    0x3: Code.RESOURCE_EXHAUSTED,
    0x7: Code.UNAVAILABLE,
    0x8: Code.CANCELLED,
    0xB: Code.RESOURCE_EXHAUSTED,
    0xC: Code.PERMISSION_DENIED,
}


async def probe_grpc(job: Job, *, tls: bool = True) -> Outcome:
    """Ask a container for its health; ``tls`` tells whether the gate for that is open (B-13).

    Whatever goes wrong is a failure of the container, unless there is no place to ask at.
    """
    action = job.probe.grpc
    assert action is not None
    port = action.port or 0
    if not job.pod_ip:
        raise ProbeError("gRPC probe cannot be made: the pod has no address")
    if not 0 < port < 65536:
        raise ProbeError(f"invalid port number: {port}")
    if len(action.service.encode()) > _SERVICE_LIMIT:
        raise ProbeError(f"grpc.service is longer than the {_SERVICE_LIMIT} bytes that are allowed")
    target = Target(job.pod_ip, port, tls=tls and action.mode == TLS)
    request = check_request(target, action.service, job.seconds)
    ended = await Call(target, request, Exchange).run(job.seconds)
    if isinstance(ended.error, OSError):
        raise ProbeError(f"gRPC probe cannot be made: {ended.error.strerror}")
    return _outcome(ended, target, job.seconds)


@lru_cache(maxsize=1024)
def check_request(target: Target, service: str, seconds: float) -> bytes:
    """Return the bytes of a request for the health of a service, "" for that of the server."""
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    fields = (
        (":method", "POST"),
        (":scheme", "https" if target.tls else "http"),
        (":path", _PATH),
        (":authority", target.authority),
        ("content-type", _CONTENT),
        ("user-agent", AGENT),
        ("te", "trailers"),
        ("grpc-timeout", _timeout(seconds)),
    )
    return http2.request(fields, b"\0" + len(message).to_bytes(4, "big") + message)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _timeout(seconds: float) -> str:
    """Return a time as gRPC has it: at most eight digits and a unit."""
    milliseconds = max(1, int(seconds * 1000))
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{min(int(seconds), 10**8 - 1)}S"


# --- what it means -------------------------------------------------------------------------------


class _Failure(Exception):  # noqa: N818 - an outcome rather than an error
    """How the call ended, unless it was answered."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def _outcome(ended: Ended, target: Target, seconds: float) -> Outcome:
    try:
        number = _answered(ended)
    except _Failure as failure:
        text = _said(failure, ended, target, seconds)
        return Outcome(Result.FAILURE, text[:_OUTPUT], ended.late_ns)
    if number == _SERVING:
        return Outcome(Result.SUCCESS, "service healthy", ended.late_ns)
    name = _STATUSES[number] if number < len(_STATUSES) else str(number)
    text = f'service unhealthy (responded with "{name}")'
    return Outcome(Result.FAILURE, text, ended.late_ns)


def _said(failure: _Failure, ended: Ended, target: Target, seconds: float) -> str:
    time = durations.render(int(seconds * 1e9))
    if not ended.exchange.settled:
        where = f'failed to connect service "{target.authority}" within {time}'
        return f"timeout: {where}: context deadline exceeded"
    if failure.code is Code.UNIMPLEMENTED:
        lacks = "this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        return f"error: {lacks}: {failure.message}"
    if failure.code is Code.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {time}"
    said = f"rpc error: code = {failure.code.label} desc = {failure.message}"
    return f"error: health rpc probe failed: {said}"


def _answered(ended: Ended) -> int:
    """Return the status that a server answered with, or raise what came instead."""
    if ended.timed_out:
        raise _Failure(Code.DEADLINE_EXCEEDED, "context deadline exceeded")
    if ended.error is not None:
        raise _of_error(ended.error)
    exchange = ended.exchange
    _check_fields(exchange)
    messages = _messages(exchange)
    if len(messages) != 1:
        what = "received no response message" if not messages else "received another message"
        raise _Failure(Code.INTERNAL, f"cardinality violation: {what}")
    return _status(messages[0])


def _of_error(error: Exception) -> _Failure:
    if isinstance(error, http2.ResetError):
        return _Failure(_OF_RESET.get(error.code, Code.INTERNAL), str(error))
    if isinstance(error, http2.TooLargeError):
        return _Failure(Code.INTERNAL, str(error))
    said = f"malformed frame: {error}" if isinstance(error, Http2Error) else str(error)
    return _Failure(Code.UNAVAILABLE, f"error reading from server: {said}")


def _check_fields(exchange: Exchange) -> None:
    """Raise what an answer says that is not OK; its status is in the last fields that came."""
    fields = exchange.fields or {}
    kind, status = fields.get("content-type"), fields.get(":status", "")
    if status != "200" or kind is None or not kind.startswith(_CONTENT):
        problem = (
            f'transport: received unexpected content-type "{kind}"'
            if kind is not None and not kind.startswith(_CONTENT)
            else "malformed header: missing HTTP content-type"
        )
        if status == "200" or not (status.isascii() and status.isdigit()):
            raise _Failure(Code.UNKNOWN, f"{_http(status)}; {problem}")
        code = _OF_HTTP.get(int(status), Code.UNKNOWN)
        raise _Failure(code, f"{_http(status)}; {problem}" if kind is None else _http(status))
    last = exchange.trailers if exchange.trailers is not None else fields
    if "grpc-status" not in last:
        raise _Failure(Code.INTERNAL, "server closed the stream without sending trailers")
    _check_status(last["grpc-status"], last.get("grpc-message", ""))


def _http(status: str) -> str:
    try:
        phrase = HTTPStatus(int(status)).phrase
    except ValueError:
        phrase = ""
    return f"unexpected HTTP status code received from server: {status} ({phrase})"


def _check_status(status: str, message: str) -> None:
    if status == "0":
        return
    try:
        code = Code(int(status))
    except ValueError:
        code = Code.UNKNOWN
        message = message or f"malformed grpc-status: {status[:64]!r}"
    raise _Failure(code, unquote(message, errors="replace"))


def _messages(exchange: Exchange) -> Sequence[bytes]:
    """Take an answer's data apart: each message has its length before it."""
    data, found = bytes(exchange.data), []
    while data:
        size = int.from_bytes(data[1:5], "big")
        if len(data) < 5 or len(data) < 5 + size:
            raise _Failure(Code.INTERNAL, "unexpected EOF")
        if data[0]:
            text = "grpc: compressed flag set with identity or empty encoding"
            raise _Failure(Code.INTERNAL, text)
        found.append(data[5 : 5 + size])
        data = data[5 + size :]
    return found


def _status(message: bytes) -> int:
    """Read field 1 of a HealthCheckResponse; fields that nobody knows are passed over."""
    at, found = 0, 0
    try:
        while at < len(message):
            tag, at = _read_varint(message, at)
            number, sort = tag >> 3, tag & 7
            if sort == 0:
                value, at = _read_varint(message, at)
                found = value if number == 1 else found
            elif sort in {1, 5}:
                at += 8 if sort == 1 else 4
            elif sort == 2:
                size, at = _read_varint(message, at)
                at += size
            else:
                raise ValueError
        if at > len(message):
            raise ValueError
    except (IndexError, ValueError):
        raise _Failure(Code.INTERNAL, _GARBLED) from None
    return found & 0xFFFFFFFF  # an enum's number has 32 bits


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = message[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
        if shift > 63:
            raise ValueError
