"""Just enough of X.509 to know what a certificate says, without a library of 15 MiB.

Nothing is verified here: OpenSSL does that where a certificate is used. Only what RFC 5280 calls
validity, subject, issuer and alternative names is read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_BLOCK: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END CERTIFICATE-----"
)
# Tags of ASN.1.
_SEQUENCE: Final = 0x30
_OID: Final = 0x06
_OCTETS: Final = 0x04
_UTC_TIME: Final = 0x17
_GENERAL_TIME: Final = 0x18
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_DNS: Final = 0x82
_IP: Final = 0x87
# Object identifiers, as they are encoded.
_COMMON_NAME: Final = b"\x55\x04\x03"
_ORGANIZATION: Final = b"\x55\x04\x0a"
_ALTERNATIVE_NAMES: Final = b"\x55\x1d\x11"


class BadCertificateError(ValueError):
    """This is no certificate; the text says why."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says of itself; times are wall clock nanoseconds."""

    not_before_ns: int
    not_after_ns: int
    common_name: str
    organizations: tuple[str, ...]
    issuer: str  # its common name
    dns: tuple[str, ...]
    ips: tuple[str, ...]
    digest: str  # SHA-256 of the whole, in hexadecimal

    def expired(self, wall_ns: int) -> bool:
        """Whether its time is over."""
        return wall_ns >= self.not_after_ns


def leaf(pem: str) -> Certificate:
    """Return the first certificate of a chain: the one that the others vouch for."""
    found = _BLOCK.search(pem)
    if found is None:
        raise BadCertificateError("there is no certificate in it")
    try:
        return parse(base64.b64decode("".join(found[1].split()), validate=True))
    except binascii.Error:
        raise BadCertificateError("its certificate is not base64") from None


def chain(pem: str) -> str:
    """Return the certificates of a PEM text alone, without keys and remarks."""
    return "".join(f"{block[0]}\n" for block in _BLOCK.finditer(pem))


def parse(der: bytes) -> Certificate:
    """Read a certificate; BadCertificateError if it is none."""
    try:
        return _certificate(der)
    except (ValueError, IndexError, OverflowError) as err:
        raise BadCertificateError(f"it is not a certificate: {err}") from None


def _certificate(der: bytes) -> Certificate:
    signed = _one(_one(der, _SEQUENCE), _SEQUENCE)
    fields = [item for item in _items(signed) if item[0] != _VERSION]
    _, _, (_, issuer), (_, validity), (_, subject) = fields[:5]
    names = next((_names(value) for tag, value in fields[5:] if tag == _EXTENSIONS), [])
    before, after = (_time(tag, value) for tag, value in _items(validity))
    return Certificate(
        before,
        after,
        next(iter(_attributes(subject, _COMMON_NAME)), ""),
        tuple(_attributes(subject, _ORGANIZATION)),
        next(iter(_attributes(issuer, _COMMON_NAME)), ""),
        tuple(value.decode() for tag, value in names if tag == _DNS),
        tuple(str(ipaddress.ip_address(value)) for tag, value in names if tag == _IP),
        hashlib.sha256(der).hexdigest(),
    )


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Go through values that stand one after the other: tag and content."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            more = length & 0x7F
            length = int.from_bytes(data[at : at + more], "big")
            at += more
        if at + length > len(data):
            raise ValueError("it is cut off")
        yield tag, data[at : at + length]
        at += length


def _one(data: bytes, wanted: int) -> bytes:
    tag, content = next(_items(data), (0, b""))
    if tag != wanted:
        raise ValueError(f"a value has tag {tag:#x} instead of {wanted:#x}")
    return content


def _attributes(name: bytes, wanted: bytes) -> Iterator[str]:
    for _, group in _items(name):
        for _, attribute in _items(group):
            (_, oid), (_, value) = _items(attribute)
            if oid == wanted:
                yield value.decode(errors="replace")


def _names(extensions: bytes) -> list[tuple[int, bytes]]:
    """Return the alternative names among the extensions."""
    for _, extension in _items(_one(extensions, _SEQUENCE)):
        parts = list(_items(extension))  # identifier, perhaps "critical", content
        if parts[0] == (_OID, _ALTERNATIVE_NAMES) and parts[-1][0] == _OCTETS:
            return list(_items(_one(parts[-1][1], _SEQUENCE)))
    return []


def _time(tag: int, value: bytes) -> int:
    text = value.decode("ascii")
    if tag == _UTC_TIME:  # two digits for the year, of 1950 to 2049
        text = ("20" if text < "50" else "19") + text
    elif tag != _GENERAL_TIME:
        raise ValueError(f"a time has tag {tag:#x}")
    moment = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9
