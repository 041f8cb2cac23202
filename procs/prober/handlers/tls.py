"""TLS without verification, as bytes in and bytes out (B-12)."""

from __future__ import annotations

import re
import ssl
from functools import cache
from typing import Final

_READ: Final = 16384
_PLAIN: Final = b"HTTP/"
_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_(.+)|TLSV1_(UNRECOGNIZED_NAME)")
_ALERTS: Final = {"PROTOCOL_VERSION": "protocol version not supported"}
# What OpenSSL calls the first bytes of an answer that is not TLS.
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)


class TlsError(Exception):
    """There is no TLS with this server; its text says why."""


class Tls:
    """One connection; what is to be said is said as soon as there is a handshake."""

    __slots__ = ("_first", "_in", "_object", "_out", "_request", "_shaken")

    def __init__(self, name: str | None, request: bytes) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = _context().wrap_bio(self._in, self._out, server_hostname=name)
        self._request = request
        self._shaken = False
        self._first = b""

    def begin(self) -> bytes:
        """Return what is to be sent first."""
        self._shake()
        return self._out.read()

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take what came; return what of it is for us, and what is to be sent."""
        if len(self._first) < len(_PLAIN):
            self._first += data[: len(_PLAIN)]
        self._in.write(data)
        try:
            if not self._shaken:
                self._shake()
            return self._opened(), self._out.read()
        except ssl.SSLError as err:
            raise TlsError(self._why(err)) from None

    def _shake(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        self._shaken = True
        self._object.write(self._request)

    def _opened(self) -> bytes:
        plain = b""
        while self._shaken:
            try:
                piece = self._object.read(_READ)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                break
            if not piece:
                break
            plain += piece
        return plain

    def _why(self, err: ssl.SSLError) -> str:
        reason = err.reason or ""
        if not self._shaken and self._first.startswith(_PLAIN):
            return "http: server gave HTTP response to HTTPS client"
        if not self._shaken and reason in _NOT_TLS:
            return "tls: first record does not look like a TLS handshake"
        alert = _ALERT.fullmatch(reason)
        if alert:
            name = alert[1] or alert[2]
            return f"remote error: tls: {_ALERTS.get(name, name.replace('_', ' ').lower())}"
        return f"tls: {(reason or str(err)).replace('_', ' ').lower()}"


@cache
def _context() -> ssl.SSLContext:
    """Return what all connections share: whoever answers is as good as any, however old its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    context.set_alpn_protocols(["http/1.1"])
    return context
