"""A program of its own for what needs ``cryptography``: keys, requests, self-signed certificates.

``python -m procs.node.certificates.tool <verb>`` reads one JSON object from standard input and
prints another. It lives for a moment, so that the process that asks never holds that library; and
a key goes through pipes alone, never through arguments, the environment or a log.

| verb | reads | prints |
|---|---|---|
| request | commonName, organizations, dns, ips, key (or "" for a new one) | key, request, digest |
| self-sign | name, dns, ips, now, seconds | certificate (with its issuer's), key |

What is wrong with its input is an answer as well: ``{"error": <sentence>}``.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW: Final = timedelta(hours=1)  # clocks of those who look at it may be behind


class BadInputError(ValueError):
    """The input cannot be used; the text says why."""


def make_request(wish: dict[str, Any]) -> dict[str, str]:
    """Make a key, unless one is given, and a request for a certificate of it (N-42)."""
    key = _load(wish["key"]) if wish["key"] else ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in wish["organizations"]]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, wish["commonName"]))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    names = _names(wish)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    request = builder.sign(key, hashes.SHA256())
    return {
        "key": _pem(key),
        "request": request.public_bytes(serialization.Encoding.PEM).decode(),
        "digest": hashlib.sha256(_public(key)).hexdigest(),
    }


def self_sign(wish: dict[str, Any]) -> dict[str, str]:
    """Make a serving certificate, signed by an authority whose key nobody keeps (N-40)."""
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    now = int(wish["now"])
    issuer, subject = (_common_name(f"{wish['name']}{part}@{now}") for part in ("-ca", ""))
    begin = datetime.fromtimestamp(now, UTC) - _SKEW
    end = datetime.fromtimestamp(now + int(wish["seconds"]), UTC)

    def signed(
        name: x509.Name, public: ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType
    ) -> str:
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number())
        builder = builder.not_valid_before(begin).not_valid_after(end)
        for extension in extensions:
            critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            builder = builder.add_extension(extension, critical=critical)
        made = builder.sign(authority, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM).decode()

    leaf = signed(
        subject,
        key.public_key(),
        x509.BasicConstraints(ca=False, path_length=None),
        _usage(signs=False),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName(_names(wish)),
    )
    top = signed(
        issuer,
        authority.public_key(),
        x509.BasicConstraints(ca=True, path_length=None),
        _usage(signs=True),
    )
    return {"certificate": leaf + top, "key": _pem(key)}


def _load(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        raise BadInputError(f"the key cannot be read: {type(err).__name__}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadInputError("the key is not ECDSA P-256")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.DER, form)


def _names(wish: dict[str, Any]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in wish["dns"]]
    return names + [x509.IPAddress(ipaddress.ip_address(ip)) for ip in wish["ips"]]


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


VERBS: Final[dict[str, Callable[[dict[str, Any]], dict[str, str]]]] = {
    "request": make_request,
    "self-sign": self_sign,
}


def main(arguments: Sequence[str]) -> int:
    """Do one verb; its exit status."""
    verb = VERBS.get(arguments[0]) if len(arguments) == 1 else None
    if verb is None:
        print(f"one verb is wanted, of {', '.join(VERBS)}", file=sys.stderr)
        return 1
    try:
        answer = verb(json.load(sys.stdin))
    except (ValueError, KeyError, TypeError) as err:
        answer = {"error": str(err) or type(err).__name__}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
