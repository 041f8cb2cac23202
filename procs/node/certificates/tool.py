"""A program of its own for what needs ``cryptography``: keys, requests, self-signed certificates.

``python -m procs.node.certificates.tool <verb>`` reads one JSON object from standard input and
prints another. It lives for a moment, so that the process that asks never holds that library; and
a key goes through pipes alone, never through arguments, the environment or a log.

| verb | reads | prints |
|---|---|---|
| request | commonName, organizations, dns, ips, key (or "" for a new one) | key, request, digest |
| self-sign | name, dns, ips, now, seconds | certificate (with its issuer's), key |
| pod-request | keyType, key (or "" for a new one) | key (PKCS #8), request (DER, base64), digest |

What is wrong with its input is an answer as well: ``{"error": <sentence>}``.
"""

from __future__ import annotations

import base64
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
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

_PUBLIC_EXPONENT: Final = 65537
_KEYS: Final[dict[str, Callable[[], _Key]]] = {  # L-28: the types of a pod's keys
    "RSA3072": lambda: rsa.generate_private_key(_PUBLIC_EXPONENT, 3072),
    "RSA4096": lambda: rsa.generate_private_key(_PUBLIC_EXPONENT, 4096),
    "ECDSAP256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ECDSAP384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ECDSAP521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "ED25519": ed25519.Ed25519PrivateKey.generate,
}
_CURVE_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
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

    def identifiers(public: ec.EllipticCurvePublicKey) -> tuple[x509.ExtensionType, ...]:
        # Those who check strictly, as Python does from 3.13 on, take no certificate without them.
        return (
            x509.SubjectKeyIdentifier.from_public_key(public),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
        )

    def signed(
        name: x509.Name, public: ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType
    ) -> str:
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number())
        builder = builder.not_valid_before(begin).not_valid_after(end)
        for extension in (*extensions, *identifiers(public)):
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


def make_pod_request(wish: dict[str, Any]) -> dict[str, str]:
    """Make a key of a type, unless one is given, and a request that says nothing else (L-28)."""
    make = _KEYS.get(wish["keyType"])
    if make is None:
        raise BadInputError(f'unknown key type "{wish["keyType"]}"')
    key = _load_any(wish["key"]) if wish["key"] else make()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    signed = request.sign(key, _hash_for(key)).public_bytes(serialization.Encoding.DER)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return {
        "key": key.private_bytes(serialization.Encoding.PEM, form, plain).decode(),
        "request": base64.b64encode(signed).decode(),
        "digest": hashlib.sha256(_public(key)).hexdigest(),
    }


def _hash_for(key: _Key) -> Any:
    """Return the hash that a key signs with; one kind of key brings its own."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return None
    curve = key.curve.name if isinstance(key, ec.EllipticCurvePrivateKey) else ""
    return _CURVE_HASHES.get(curve, hashes.SHA256())


def _load_any(pem: str) -> _Key:
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        raise BadInputError(f"the key cannot be read: {type(err).__name__}") from None
    if not isinstance(key, _Key):
        raise BadInputError("the key is of a type that no pod has")
    return key


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


def _public(key: _Key) -> bytes:
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
    "pod-request": make_pod_request,
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
