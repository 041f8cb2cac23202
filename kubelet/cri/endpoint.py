"""Where a runtime is spoken to: a unix socket, and what is wrong with it when nobody answers."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from kubelet import logging as klog
from kubelet.cri.errors import EndpointError

log = klog.get_logger(__name__)

MAX_SOCKET_PATH: Final = 107  # sun_path has 108 bytes and ends in a zero

# How gRPC begins its words when the fault lies on the way and not in the runtime.
_NO_CONNECTION: Final = "failed to connect to all addresses; last error: "
_CUT_OFF: Final = "Stream removed"
_LOST: Final = ("Socket closed", "Connection reset by peer", "Broken pipe", "GOAWAY received")
# What precedes the cause in them: a status of its own, and the address (twice, for connect).
_ORIGIN: Final = re.compile(r"^[A-Z_]+: unix:\S*: (?:connect failed: addr: unix:\S* error: )?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a runtime."""

    path: str

    def __str__(self) -> str:
        return f"unix://{self.path}"

    @property
    def target(self) -> str:
        """The address in gRPC's own notation, which decodes percent signs."""
        return f"unix:{quote(self.path)}"


def parse(text: str) -> Endpoint:
    """Read an endpoint; a bare absolute path is accepted, with a warning, as ever.

    Raises EndpointError with what is wrong and what is allowed.
    """
    if text.startswith("/"):
        log.warning("The endpoint has no scheme, use the full form", use=f"unix://{text}")
        return _checked(text, text)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise EndpointError(f"endpoint {text!r}: {error}") from error
    if parts.scheme != "unix":
        found = f"scheme {parts.scheme!r} is not supported" if parts.scheme else "it has no scheme"
        raise EndpointError(f"endpoint {text!r}: {found}: only unix:///<absolute path> is")
    if parts.query or parts.fragment:
        raise EndpointError(f"endpoint {text!r}: a socket path cannot hold '?' or '#'")
    if parts.netloc:
        raise EndpointError(
            f"endpoint {text!r}: {parts.netloc!r} stands where a host would: "
            "write three slashes, unix:///<absolute path>"
        )
    return _checked(unquote(parts.path), text)


def _checked(path: str, text: str) -> Endpoint:
    if not path.startswith("/"):
        raise EndpointError(f"endpoint {text!r}: the path of the socket must be absolute")
    if not text.isprintable() or not path.isprintable():
        raise EndpointError(f"endpoint {text!r}: control characters are not allowed in it")
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH:
        raise EndpointError(
            f"endpoint {text!r}: the path has {size} bytes, the kernel allows {MAX_SOCKET_PATH}"
        )
    return Endpoint(path)


def transport_fault(details: str) -> bool:
    """Tell a fault of the connection from words of the runtime, by how gRPC begins the former."""
    return details.startswith((_NO_CONNECTION, _CUT_OFF, *_LOST))


def unwrapped(details: str) -> str:
    """The cause itself, where gRPC says around it that it ended the call."""
    inner = details.removeprefix(f"{_CUT_OFF} (")
    return details if inner == details else inner.removesuffix(")")


def why_unreachable(endpoint: Endpoint, details: str) -> str:
    """Say in a sentence why there is no connection, from gRPC's words and what lies at the path."""
    if details.startswith(_NO_CONNECTION):
        cause = _ORIGIN.sub("", details.removeprefix(_NO_CONNECTION))
        return f"cannot reach the runtime at {endpoint}: {_plain(endpoint.path, cause)}"
    cause = unwrapped(details)
    if "parsing HTTP/2" in cause:
        return f"what answers at {endpoint} does not speak gRPC: {cause}"
    return f"the runtime at {endpoint} closed the connection: {cause}"


def _plain(path: str, cause: str) -> str:
    found = _at(path)
    if found is not None:
        return found
    if "Connection refused" in cause:
        return "nobody listens on the socket: the runtime is not running"
    if "SETTINGS" in cause and "timed out" in cause:
        return "the connection was accepted, and then nothing came: the runtime hangs"
    if "parsing HTTP/2" in cause:
        return f"what answers does not speak gRPC: {cause}"
    if "reset by peer" in cause or "Broken pipe" in cause or "closed" in cause:
        return "the connection was accepted and closed at once"
    return cause


def _at(path: str) -> str | None:
    """What is wrong with the path itself; None for a socket."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "there is no such socket"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if stat.S_ISSOCK(mode):
        return None if os.access(path, os.W_OK) else "permission denied"
    return "it is a directory" if stat.S_ISDIR(mode) else "it is not a socket"
