"""Where the request of a probe or a hook goes, and how it reads (B-12, B-19, P-145)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from kubelet.api.container import Container
from kubelet.api.handlers import HTTPGetAction
from kubelet.config.version import VERSION
from kubelet.http.words import quoted

REQUESTS: Final = 10  # the first one, and those that redirections ask for
TOO_MANY: Final = f"stopped after {REQUESTS} redirects"

_SHORT_VERSION: Final = ".".join(VERSION.removeprefix("v").split(".")[:2])
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")  # a line end would begin another header
_SAFE: Final = "/%:@!$&'()*+,;=~-._"  # stands for itself in a path
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
# What a request says of itself: of its place, of its connection, and of a body that it has not.
_OURS: Final = frozenset({"host", "connection", "content-length", "transfer-encoding", "trailer"})


class TargetError(Exception):
    """There is nowhere to send a request to; its text says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes, and what it says there."""

    scheme: str
    host: str
    port: int
    path: str  # as it is sent, with the query
    headers: tuple[tuple[str, str], ...] = ()
    place: str = ""  # host and port as the address had them; none: both

    @property
    def authority(self) -> str:
        """Host and port, as a Host header names them."""
        return self.place or joined(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def agent(program: str) -> str:
    """Return the User-Agent of a part of the kubelet."""
    return f"{program}/{_SHORT_VERSION}"


def joined(host: str, port: int) -> str:
    """Return a host and a port as one word; an IPv6 address is put into brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def target_of(container: Container, action: HTTPGetAction, pod_ip: str) -> Target:
    """Return where an action's request goes."""
    host = action.host or pod_ip
    if not host:
        raise TargetError("failed to find networking container: the pod has no address")
    headers = tuple((h.name, h.value) for h in action.http_headers)
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise TargetError(f"invalid header field {name!r} with {_shown(name, value)}")
    scheme = (action.scheme or "HTTP").lower()
    if scheme not in _PORTS:
        raise TargetError(f"unsupported protocol scheme {quoted(scheme)}; allowed: HTTP, HTTPS")
    return Target(scheme, host, port_of(container, action.port), sent_path(action.path), headers)


def _shown(name: str, value: str) -> str:
    return "a value that is not shown" if name.lower() in _SECRET else f"value {value!r}"


def sent_path(path: str) -> str:
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
        raise TargetError(f"invalid port number: {number}")
    return number


def _named_port(container: Container, name: str) -> int:
    for known in container.ports:
        if name and known.name == name and known.container_port:
            return known.container_port
    if name.isascii() and name.isdigit():
        return int(name)
    raise TargetError(f"couldn't find port: {name!r} in container {container.name}")


def request_of(target: Target, who: str) -> bytes:
    """Return the request as it is sent; ``who`` asks, unless the headers say another."""
    lines = [f"GET {target.path} HTTP/1.1", f"Host: {named_host(target)}"]
    lines += [f"{name}: {value}" for name, value in sent_headers(target.headers, who)]
    lines += ["Connection: close", "", ""]
    return "\r\n".join(lines).encode()


def named_host(target: Target) -> str:
    """Return what a request calls the host: as a header has it, or by its place."""
    given = (value for name, value in target.headers if name.lower() == "host")
    return next(given, "") or target.authority


def sent_headers(headers: Sequence[tuple[str, str]], who: str) -> Iterator[tuple[str, str]]:
    """Give the headers to be sent, but what a connection says of itself (B-12).

    One that was emptied, of those that we would add, is there in order to have none.
    """
    given = {name.lower() for name, _value in headers}
    if "user-agent" not in given:
        yield "User-Agent", who
    if "accept" not in given:
        yield "Accept", "*/*"
    for name, value in headers:
        lower = name.lower()
        if lower not in _OURS and (value or lower not in {"accept", "user-agent"}):
            yield name, value


def is_redirection(status: int, location: str) -> bool:
    """Tell whether an answer leads on; without a place to go to it is an answer as any other."""
    return status in _REDIRECTIONS and bool(location)


def redirected(target: Target, location: str) -> Target:
    """Return where an answer leads to, whatever its scheme; the caller decides about going there.

    A Host header is kept as long as the new place is told without a scheme.
    """
    try:
        found = urlsplit(urljoin(str(target), location))
        port = found.port or _PORTS.get(found.scheme, 0)
        absolute = bool(urlsplit(location).scheme)
    except ValueError as err:
        raise TargetError(f"failed to parse Location header {quoted(location)}: {err}") from None
    headers = tuple(h for h in target.headers if not absolute or h[0].lower() != "host")
    path = sent_path(f"{found.path}?{found.query}" if found.query else found.path)
    place = found.netloc.rpartition("@")[2]
    return Target(found.scheme, found.hostname or "", port, path, headers, place)


def may_follow(first: Target, further: Target) -> bool:
    """Tell whether a redirection stays within the host that was to be asked (B-12)."""
    return bool(further.host) and further.host.lower() == first.host.lower()


def refusal(further: Target) -> str | None:
    """Return why a place cannot be gone to, whoever's it is; None: it can."""
    if further.scheme not in _PORTS:
        return f"unsupported protocol scheme {quoted(further.scheme)}"
    return None
