"""Keys and requests are made by a program of its own; certificates are read without its library."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
import subprocess
import sys
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from procs.node.certificates import der
from procs.node.certificates.client import Subject, Tool, ToolError
from tests.unit.node.certificates_scene import DAY, HOUR, Authority, key_pem, moment

WHO = Subject("system:node:n", ("system:nodes",), ("n", "n.example"), ("10.0.0.7", "fd00::7"))


def test_a_request_is_what_the_signers_want() -> None:
    """N-42: ECDSA P-256, CN system:node:<name>, O system:nodes, with the names asked for."""
    made = asyncio.run(Tool().request(WHO))

    request = x509.load_pem_x509_csr(made.request.encode())
    assert request.is_signature_valid
    assert request.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n", "n.example"]
    addresses = [ipaddress.ip_address(text) for text in WHO.ips]
    assert names.get_values_for_type(x509.IPAddress) == addresses
    key = serialization.load_pem_private_key(made.key.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    assert key.public_key() == request.public_key()


def test_a_key_that_is_given_is_used() -> None:
    """The same key gives the same digest, from which the request's name comes; another does not."""

    async def story():
        first = await Tool().request(WHO)
        return first, await Tool().request(WHO, first.key), await Tool().request(WHO)

    first, again, other = asyncio.run(story())
    assert (again.key, again.digest) == (first.key, first.digest)
    assert other.digest != first.digest


def _rsa() -> str:
    return key_pem(rsa.generate_private_key(65537, 2048))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("rubbish", "the key cannot be read"),
        (_rsa(), "the key is not ECDSA P-256"),
        (key_pem(ec.generate_private_key(ec.SECP384R1())), "the key is not ECDSA P-256"),
    ],
    ids=["rubbish", "rsa", "another curve"],
)
def test_a_key_that_cannot_be_used_is_a_sentence_without_the_key(key: str, words: str) -> None:
    """The caller learns what is wrong with a key, and nothing of the key."""
    with pytest.raises(ToolError, match=words) as caught:
        asyncio.run(Tool().request(WHO, key))
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("print('hello')", "printed no answer"),
        ("import time; time.sleep(60)", "did not answer within 0.5s"),
        ("raise RuntimeError('no library')", "RuntimeError: no library"),
    ],
)
def test_a_program_that_fails_is_a_sentence(code: str, words: str) -> None:
    """Whatever happens to the program, there is one sentence that says so."""
    tool = Tool(0.5 if "sleep" in code else 30, (sys.executable, "-c", code))
    with pytest.raises(ToolError, match=words) as caught:
        asyncio.run(tool.request(WHO))
    assert "\n" not in str(caught.value)


def test_a_program_that_is_not_there_is_a_sentence() -> None:
    """So is an interpreter that was removed in an upgrade."""
    with pytest.raises(ToolError, match="cannot be run: No such file"):
        asyncio.run(Tool(command=("/nowhere/python",)).request(WHO))


def test_the_program_is_found_from_anywhere(tmp_path, monkeypatch) -> None:
    """It needs neither the directory nor the variables that the kubelet was started with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "procs.py").write_text("raise SystemExit('wrong module')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert asyncio.run(Tool().request(WHO)).request


def test_a_wrong_verb_is_refused() -> None:
    """The program says what it can do."""
    command = [sys.executable, "-m", "procs.node.certificates.tool", "juggle"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "one verb is wanted, of request, self-sign" in done.stderr


def test_nobody_else_needs_the_library() -> None:
    """The process that asks never imports what weighs 15 MiB, nor a model of the API."""
    code = (
        "import sys, procs.node.certificates.service as s\n"
        "heavy = {'cryptography', 'kubernetes', 'yaml'} & set(sys.modules)\n"
        "print(sorted(heavy), s.Certificates.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] Certificates\n", "")


def test_a_certificate_that_vouches_for_itself(tmp_path) -> None:
    """N-40: CN <node>@<time>, the names, a chain that OpenSSL accepts with its own authority.

    So it does where it checks strictly, which is what Python's clients ask for from 3.13 on.
    """
    now = int(time.time())
    made = asyncio.run(Tool().self_sign(Subject("n", (), ("n",), ("127.0.0.1",)), now, 3600))

    leaf = der.leaf(made.chain)
    assert (leaf.common_name, leaf.issuer) == (f"n@{now}", f"n-ca@{now}")
    assert (leaf.dns, leaf.ips) == (("n",), ("127.0.0.1",))
    assert (leaf.not_before_ns, leaf.not_after_ns) == ((now - 3600) * 10**9, (now + 3600) * 10**9)
    first, second = x509.load_pem_x509_certificates(made.chain.encode())
    first.verify_directly_issued_by(second)
    (tmp_path / "both.pem").write_text(made.chain + made.key)
    assert _handshake(str(tmp_path / "both.pem"), made.chain, "127.0.0.1")


def _handshake(path: str, trusted: str, name: str) -> bool:
    """Have OpenSSL be both sides of a connection."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(path)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_verify_locations(cadata=trusted)
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(wires[0], wires[1], server_hostname=name),
        server.wrap_bio(wires[1], wires[0], server_side=True),
    ]
    for _ in range(3):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides[0].version() is not None


# --- reading -------------------------------------------------------------------------------------


def test_a_certificate_is_read_as_the_library_reads_it() -> None:
    """Validity, subject, issuer and names of one that a cluster signed."""
    authority = Authority("some ca")
    made = asyncio.run(Tool().request(WHO))
    now = time.time_ns()
    chain = authority.sign(made.request.encode(), now - HOUR, now + DAY)

    found = der.leaf("remarks\n" + made.key + chain + authority.pem)

    known = x509.load_pem_x509_certificate(chain.encode())
    assert moment(found.not_before_ns) == known.not_valid_before_utc
    assert moment(found.not_after_ns) == known.not_valid_after_utc
    assert (found.common_name, found.organizations) == ("system:node:n", ("system:nodes",))
    assert (found.issuer, found.dns, found.ips) == ("some ca", WHO.dns, WHO.ips)
    assert not found.expired(now)
    assert found.expired(known.not_valid_after_utc.timestamp() * 10**9)


@pytest.mark.parametrize("year", [1995, 2049, 2050, 9999])
def test_both_ways_to_write_a_year_are_read(year: int) -> None:
    """Up to 2049 a year has two digits, and four from then on."""
    end = int(moment(0).replace(year=year, month=12, day=31).timestamp()) * 10**9
    chain, _ = Authority().pair(before=end - DAY, after=end)
    assert der.leaf(chain).not_after_ns == end


def test_anything_else_is_no_certificate() -> None:
    """Bytes cut off or changed at any place: an error that says so, or a certificate; no crash."""
    chain, key = Authority().pair()
    whole = ssl.PEM_cert_to_DER_cert(chain)
    assert der.parse(whole).common_name
    for size in range(len(whole)):
        with pytest.raises(der.BadCertificateError):
            der.parse(whole[:size])
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        with contextlib.suppress(der.BadCertificateError):
            der.parse(bytes(changed))
    with pytest.raises(der.BadCertificateError):
        der.parse(b"\x30\x00")
    for text in ("", key, "-----BEGIN CERTIFICATE-----\nQQ=\n-----END CERTIFICATE-----"):
        with pytest.raises(der.BadCertificateError):
            der.leaf(text)
