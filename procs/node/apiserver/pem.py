"""Whether PEM texts are what they should be; only for ``resolve``: the library is a heavy one."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates


class PemError(Exception):
    """A text is not what it should be."""


def check_certificates(text: str) -> None:
    """Raise PemError unless there is a certificate."""
    try:
        load_pem_x509_certificates(text.encode())
    except ValueError:
        raise PemError("holds no PEM certificate") from None


def check_pair(cert: str, key: str) -> None:
    """Raise PemError unless there is a key, and it is that of the first certificate."""
    try:
        found = load_pem_private_key(key.encode(), None)
    except TypeError:
        raise PemError("is a key with a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise PemError("holds no PEM private key") from None
    certificate = load_pem_x509_certificates(cert.encode())[0]
    keys = (found.public_key(), certificate.public_key())
    texts = {item.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for item in keys}
    if len(texts) != 1:
        raise PemError("does not belong to the client certificate")
