"""Certificates in PEM texts, made plain: no remarks, no headers, one form of each (L-27, L-28)."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

_BLOCK: Final = re.compile(
    r"^-----BEGIN CERTIFICATE-----[ \t]*\r?\n(.*?)^-----END CERTIFICATE-----",
    re.DOTALL | re.MULTILINE,
)
_HEADERS: Final = re.compile(r"\A(?:[^\n]*:[^\n]*\n(?:[ \t][^\n]*\n)*)+[ \t]*\r?\n")


def certificates(text: str) -> list[bytes]:
    """Return the certificates of a text in their order; what is none is left out."""
    found = []
    for block in _BLOCK.finditer(text):
        body = "".join(_HEADERS.sub("", block[1]).split())
        try:
            found.append(base64.b64decode(body, validate=True))
        except (binascii.Error, ValueError):
            continue
    return [one for one in found if one]


def chain(text: str) -> bytes:
    """Return the certificates of a text alone, in their order."""
    return b"".join(map(_encoded, certificates(text)))


def anchors(found: Iterable[bytes]) -> bytes:
    """Return each certificate once.

    The order means nothing, and is the same whenever the certificates are.
    """
    return b"".join(map(_encoded, sorted(set(found), key=lambda one: sha256(one).digest())))


def _encoded(certificate: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(certificate).encode()
