"""From when until when a certificate is valid: what errors of TLS must name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from procs.node.certificates import der


@dataclass(frozen=True, slots=True)
class Validity:
    """The moments between which a certificate counts."""

    begin: datetime
    end: datetime


def of_pem(text: str) -> Validity | None:
    """Return the validity of the first certificate of a PEM text; None if there is none."""
    try:
        return _validity(der.leaf(text))
    except der.BadCertificateError:
        return None


def of_der(data: bytes) -> Validity | None:
    """Return the validity of a certificate; None if that is not one."""
    try:
        return _validity(der.parse(data))
    except der.BadCertificateError:
        return None


def _validity(certificate: der.Certificate) -> Validity:
    begin, end = certificate.not_before_ns, certificate.not_after_ns
    return Validity(*(datetime.fromtimestamp(ns // 10**9, UTC) for ns in (begin, end)))
