"""Whether a proxy stands between this node and the API server, and which.

What the kubeconfig names is used. Else the environment decides, read as Go programs read it:
HTTPS_PROXY, HTTP_PROXY and NO_PROXY, also in small letters; localhost never goes through a proxy.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class ProxyError(Exception):
    """A proxy is set that cannot be one; never shows the password that it may hold."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy."""

    scheme: str  # http, https, socks5
    host: str
    port: int
    user: str | None = None
    password: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def authorization(self) -> str:
        """What Proxy-Authorization says; "" for nothing."""
        if self.user is None:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def choose(server: str, configured: str, environment: Mapping[str, str]) -> Proxy | None:
    """Return the proxy to a server; None for none."""
    if configured:
        return parse(configured, "proxy-url of the kubeconfig")
    url = urlsplit(server)
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    value = environment.get(name) or environment.get(name.lower()) or ""
    exempt = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    if not value or not _used(url.hostname or "", port, exempt):
        return None
    return parse(value, name)


def parse(text: str, name: str) -> Proxy:
    """Read a proxy's URL; a bare host is one of http."""
    try:
        url = urlsplit(text)
        if url.scheme not in _PORTS or not url.hostname:
            url = urlsplit(f"http://{text}") if "://" not in text else url
        good = url.scheme in _PORTS and url.hostname
        port = url.port or _PORTS.get(url.scheme, 0)
    except ValueError:
        good = False
    if not good:
        raise ProxyError(f"{name} is not the URL of a proxy of {', '.join(_PORTS)}")
    return _proxy(url, port)


def _proxy(url: SplitResult, port: int) -> Proxy:
    scheme = "socks5" if url.scheme == "socks5h" else url.scheme  # names go to the proxy in both
    user = None if url.username is None else unquote(url.username)
    return Proxy(scheme, url.hostname or "", port, user, unquote(url.password or ""))


# --- NO_PROXY ------------------------------------------------------------------------------------


def _used(host: str, port: int, exempt: str) -> bool:
    """Whether a host is reached through the proxy."""
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    entries = (entry.strip().lower() for entry in exempt.split(","))
    return not any(_matches(entry, host, port, address) for entry in entries if entry)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _matches(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _within(address, entry)
    name, wanted = _host_port(entry)
    if not name or (wanted and wanted != str(port)):
        return False
    listed = _address(name)
    if listed is not None or address is not None:
        return listed == address
    below = name.removeprefix("*")
    if below.startswith("."):  # hosts below it, not itself
        return host.endswith(below)
    return host == name or host.endswith(f".{name}")


def _within(address: _Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _host_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""  # a bare IPv6 address has colons of its own
