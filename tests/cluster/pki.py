"""The certificates of a test cluster: one authority, and whoever it vouches for."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a directory; its own pair is there as `<name>.crt` and `.key`."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(f"kubelet-test-{name}")
        now = _now()
        made = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 10 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.pair = _write(directory, name, made, self._key)

    def issue(
        self,
        file: str,
        name: str,
        *groups: str,
        hosts: tuple[str, ...] = (),
        age: dt.timedelta = DAY,
        life: dt.timedelta = 5 * DAY,
    ) -> Pair:
        """A pair for a user, or with hosts for a server; `age` old, it lives on for `life`."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = _now()
        use = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        made = (
            x509.CertificateBuilder()
            .subject_name(_subject(name, *groups))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - age)
            .not_valid_after(now + life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            made = made.add_extension(names, critical=False)
        return _write(self.directory, file, made.sign(self._key, hashes.SHA256()), key)


def make_signing_key(directory: Path, name: str) -> Path:
    """A key alone, as service account tokens are signed with."""
    path = directory / f"{name}.key"
    _save_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path


def write_kubeconfig(path: Path, server: str, ca: Path, **user: str) -> Path:
    """A kubeconfig; the user's fields are those of its `user` entry, with `_` for `-`."""
    entry = {field.replace("_", "-"): value for field, value in user.items()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": server, "certificate-authority": str(ca)}}
        ],
        "users": [{"name": "user", "user": entry}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(document, indent=1))  # JSON is YAML
    path.chmod(0o600)
    return path


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _subject(name: str, *groups: str) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(
    directory: Path, name: str, made: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Pair:
    pair = Pair(directory / f"{name}.crt", directory / f"{name}.key")
    pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    _save_key(pair.key, key)
    return pair


def _save_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    # SEC1, which Go reads for service account keys too.
    plain = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    path.write_bytes(plain)
