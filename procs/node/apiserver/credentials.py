"""Who we are for the API server: a client certificate, a header, or both; each may change.

A token's file is read again each minute, certificates when their file is another one, a plugin is
run when what it gave expires; all of them also when the server says 401.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from procs.node.apiserver.execplugin import ExecCredential, ExecPlugin
from procs.node.apiserver.files import Followed, read_text
from procs.node.apiserver.types import ApiError, Endpoint

_TOKEN_NS: Final = 60 * 10**9  # for which a token's file counts as read


@dataclass(frozen=True, slots=True)
class Pair:
    """A client certificate with its key, and how it is called in a sentence."""

    cert: str
    key: str
    name: str

    def __repr__(self) -> str:
        return f"Pair({self.name})"  # no key in a log


class TokenFile:
    """A token that somebody writes to a file, again and again."""

    def __init__(self, path: str, token: str, clock: Callable[[], int]) -> None:
        self._path = path
        self._clock = clock
        self._read_ns: int | None = None
        self._problem = ""
        self._token = token  # of the kubeconfig, until the file was read once

    def get(self) -> str:
        """Return the token, or the last good one; ApiError if there never was one."""
        now = self._clock()
        if self._read_ns is None or now - self._read_ns >= _TOKEN_NS:
            self.renew()
        if not self._token:
            raise ApiError(f"token file {self._path}: {self._problem}")
        return self._token

    def renew(self) -> bool:
        """Read the file; whether the token is another."""
        before = self._token
        try:
            token = read_text(self._path).strip()
            if not token:
                raise ValueError("is empty")
            if not token.isprintable() or not token.isascii():
                raise ValueError("holds characters that cannot be sent")
        except (OSError, ValueError) as err:
            # Not noted as read: the next request looks again.
            self._problem = (err.strerror if isinstance(err, OSError) else None) or str(err)
            self._read_ns = None
            return False
        self._token, self._problem, self._read_ns = token, "", self._clock()
        return token != before


class Credentials:
    """What an endpoint gives to log in with. ``on_change``: the client certificate is another."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_change: Callable[[], None],
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._endpoint = endpoint
        self._on_change = on_change
        self._cert = Followed(endpoint.client_cert_file, endpoint.client_cert_pem)
        key_file = endpoint.client_key_file or (
            endpoint.client_cert_file if not endpoint.client_key_pem else ""
        )
        self._key = Followed(key_file, endpoint.client_key_pem or endpoint.client_cert_pem)
        self._token_file = (
            TokenFile(endpoint.token_file, endpoint.token, clock) if endpoint.token_file else None
        )
        self._plugin = (
            ExecPlugin(endpoint, clock=clock, wall=wall) if endpoint.exec_command else None
        )
        self._given: ExecCredential | None = None
        self._fixed = _impersonation(endpoint)
        self._built: tuple[str, bytes] = ("", self._fixed)  # the last header, for its token

    # The certificate.

    @property
    def pair(self) -> Pair | None:
        """The client certificate; None if there is none."""
        if self._cert.text:
            name = self._cert.path or "in the kubeconfig"
            return Pair(self._cert.text, self._key.text, name)
        if self._given is not None and self._given.cert:
            return Pair(self._given.cert, self._given.key, "of the credential plugin")
        return None

    def look(self) -> bool:
        """Read certificate files that are others now (N-46); whether anything changed."""
        if not self._cert.path and not self._key.path:
            return False
        cert, key = self._cert.look(), self._key.look()
        if cert or key:
            self._on_change()
        return cert or key

    # The header.

    async def headers(self) -> bytes:
        """Return the lines that a request needs; ApiError if they cannot be had."""
        endpoint = self._endpoint
        if self._token_file is not None:
            return self._bearer(self._token_file.get())
        if endpoint.token:
            return self._bearer(endpoint.token)
        if endpoint.username:
            login = f"{endpoint.username}:{endpoint.password}".encode()
            return self._line(f"Basic {base64.b64encode(login).decode()}")
        if self._plugin is not None:
            self._take(await self._plugin.get())
            if self._given is not None and self._given.token:
                return self._bearer(self._given.token)
        return self._fixed

    async def renew(self) -> bool:
        """Look for others because these were refused; whether there are any."""
        found = self.look()
        if self._token_file is not None:
            found = self._token_file.renew() or found
        elif self._plugin is not None:
            found = await self._plugin.renew() or found
            if self._plugin.current is not None:
                self._take(self._plugin.current)
        return found

    def close(self) -> None:
        """End what runs."""
        if self._plugin is not None:
            self._plugin.close()

    def _take(self, given: ExecCredential) -> None:
        """Use what the plugin gave."""
        before, self._given = self._given, given
        old = (before.cert, before.key) if before is not None else ("", "")
        if not self._cert.text and old != (given.cert, given.key):
            self._on_change()

    def _bearer(self, token: str) -> bytes:
        return self._built[1] if self._built[0] == token else self._line(f"Bearer {token}", token)

    def _line(self, value: str, token: str = "") -> bytes:
        line = f"Authorization: {value}\r\n".encode() + self._fixed
        if token:
            self._built = (token, line)
        return line


def _impersonation(endpoint: Endpoint) -> bytes:
    if not endpoint.impersonate:
        return b""
    pairs = [("Impersonate-User", endpoint.impersonate)]
    pairs += [("Impersonate-Group", group) for group in endpoint.impersonate_groups]
    if endpoint.impersonate_uid:
        pairs.append(("Impersonate-Uid", endpoint.impersonate_uid))
    for name, values in endpoint.impersonate_extra.items():
        pairs += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
    return "".join(f"{name}: {_plain(value)}\r\n" for name, value in pairs).encode()


def _plain(value: str) -> str:
    """Return a value without what would end its line."""
    return "".join(c for c in value if c.isprintable())
