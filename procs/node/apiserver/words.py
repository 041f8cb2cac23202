"""What went wrong on the way to the API server, in words that somebody can act on."""

from __future__ import annotations

import errno
import socket
import ssl
from datetime import UTC, datetime
from typing import Final

from procs.node.apiserver.validity import Validity

# Of openssl's x509_vfy.h: what verification found.
NOT_YET_VALID: Final = 9
EXPIRED: Final = 10
_UNKNOWN_ISSUER: Final = (2, 18, 19, 20, 21)
_OTHER_HOST: Final = (62, 64)

# Of alerts by which a server refuses us, as OpenSSL names them.
_ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "it says that our client certificate has expired",
    "CERTIFICATE_REQUIRED": "it wants a client certificate and the kubeconfig has none",
    "UNKNOWN_CA": "it does not know the CA of our client certificate",
    "BAD_CERTIFICATE": "it does not accept our client certificate",
    "CERTIFICATE_UNKNOWN": "it does not accept our client certificate",
    "PROTOCOL_VERSION": "it speaks no version of TLS from 1.2 on",
    "HANDSHAKE_FAILURE": "there is no cipher that both know, or it wants a client certificate",
}


def moment(when: datetime) -> str:
    """Return a moment as it is shown."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def of_socket(err: OSError) -> str:
    """Return why a connection cannot be made, or has ended."""
    if isinstance(err, socket.gaierror):
        return f"its name cannot be resolved ({err.strerror or err})"
    if err.errno == errno.ECONNREFUSED:
        return "connection refused"
    if err.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no way there ({(err.strerror or str(err)).lower()})"
    if isinstance(err, TimeoutError):
        return "no answer"
    if isinstance(err, ConnectionError):
        return "the connection was closed"
    return (err.strerror or str(err)).lower() or type(err).__name__


def of_tls(err: ssl.SSLError, ca: str, host: str, seen: Validity | None, now: datetime) -> str:
    """Return why there is no trust; ``seen`` is the validity of the server's certificate."""
    if isinstance(err, ssl.SSLCertVerificationError):
        return "its certificate " + _certificate(err, ca, host, seen, now)
    reason = (err.reason or "").upper()
    for name, words in _ALERTS.items():
        if name in reason and "ALERT" in reason:
            return words
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"):
        return "it does not speak TLS"
    if reason == "UNSUPPORTED_PROTOCOL":
        return _ALERTS["PROTOCOL_VERSION"]
    return f"TLS failed ({reason.replace('_', ' ').lower() or 'no reason given'})"


def _certificate(
    err: ssl.SSLCertVerificationError, ca: str, host: str, seen: Validity | None, now: datetime
) -> str:
    code = err.verify_code
    if code == EXPIRED:
        when = f" on {moment(seen.end)}" if seen is not None and seen.end <= now else ""
        return f"expired{when}: this node's clock says {moment(now)}"
    if code == NOT_YET_VALID:
        when = f" before {moment(seen.begin)}" if seen is not None and seen.begin > now else " yet"
        return f"is not valid{when}: this node's clock says {moment(now)}"
    if code in _UNKNOWN_ISSUER:
        return f"is not signed by {ca}"
    if code in _OTHER_HOST:
        return f"is not for {host}"
    return f"is not accepted ({err.verify_message})"


def of_client(name: str, validity: Validity | None, now: datetime) -> str:
    """Return what is wrong with our own certificate's time; "" if nothing is."""
    if validity is None:
        return ""
    if validity.end <= now:
        return f"client certificate {name} expired on {moment(validity.end)}"
    if validity.begin > now:
        return (
            f"client certificate {name} is not valid before {moment(validity.begin)}: "
            f"this node's clock says {moment(now)}"
        )
    return ""
