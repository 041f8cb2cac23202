"""What can go wrong on a channel, as types."""

from __future__ import annotations

import enum
from typing import Final


class ErrorKind(enum.Enum):
    """What an error reply says; the value is what goes over the wire."""

    DENIED = "denied"  # the sender's kind may not ask this
    UNKNOWN = "unknown"  # no such request, or not handled by this process
    BAD_REQUEST = "bad-request"  # the body does not fit the type
    FAILED = "failed"  # the handler could not do it
    TIMEOUT = "timeout"  # the handler gave up waiting
    BUSY = "busy"  # too many of these are running


class ChannelError(Exception):
    """Anything that a channel reports to its user."""


class SocketPathTooLong(ChannelError):  # noqa: N818 - the name says what is wrong
    """The run directory is so deep that the kernel cannot address the sockets in it."""

    def __init__(self, path: str, limit: int) -> None:
        size = len(path.encode())
        super().__init__(
            f"socket path {path!r} is {size} bytes long, the kernel allows {limit}: "
            "choose a shorter run directory"
        )
        self.path = path
        self.limit = limit


class DeniedError(ChannelError):
    """The peer does not accept this request from this process."""


class UnknownRequestError(ChannelError):
    """The peer does not know the request, or does not handle it."""


class BadRequestError(ChannelError):
    """The request does not fit its type, or is too large."""


class FailedError(ChannelError):
    """The handler could not do what was asked."""


class BusyError(ChannelError):
    """Too many requests are pending here, or running there."""


class BadReplyError(ChannelError):
    """The reply does not fit its type: both sides run different versions."""


class RequestTimeoutError(ChannelError, TimeoutError):
    """No reply within the time-out; the request may or may not have been carried out."""


class PeerDownError(RequestTimeoutError):
    """The request was never sent: no connection could be made within the time-out."""


class PeerGoneError(ChannelError):
    """The peer went away after the request was sent; it may or may not have been carried out."""


class HandlerError(Exception):
    """An expected failure in a handler: answered to the sender, and the process goes on."""

    def __init__(self, text: str, kind: ErrorKind = ErrorKind.FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind


_BY_KIND: Final[dict[ErrorKind, type[ChannelError]]] = {
    ErrorKind.DENIED: DeniedError,
    ErrorKind.UNKNOWN: UnknownRequestError,
    ErrorKind.BAD_REQUEST: BadRequestError,
    ErrorKind.FAILED: FailedError,
    ErrorKind.TIMEOUT: RequestTimeoutError,
    ErrorKind.BUSY: BusyError,
}


def remote_error(peer: str, request: str, kind: ErrorKind, text: str) -> ChannelError:
    """Build the exception for an error reply."""
    return _BY_KIND[kind](f"{peer} answered {request}: {text}")
