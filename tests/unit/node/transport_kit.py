"""Servers and certificates for tests of the connection: real sockets, real TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from procs.node.apiserver.types import Endpoint


def now():
    return datetime.now(UTC).replace(microsecond=0)


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


class Authority:
    """A CA that signs what a test needs."""

    def __init__(self, name="test CA"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name(name)
        self.certificate = (
            self._builder(self.name, self.key.public_key(), now() - timedelta(days=400), 4000)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def _builder(self, subject, public_key, begin, days):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
        )

    def issue(self, name="127.0.0.1", begin=None, days=30, hosts=("127.0.0.1",)):
        """Return certificate and key as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        begin = begin or now() - timedelta(days=1)
        builder = self._builder(_name(name), key.public_key(), begin, days)
        names = [
            x509.DNSName(h) if h[0].isalpha() else x509.IPAddress(ip_address(h)) for h in hosts
        ]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
        return pem, _key_pem(key)


@dataclass
class Asked:
    """A request as a server saw it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    peer: str = ""  # common name of the client's certificate
    connection: int = 0

    def header(self, name):
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]


Handler = Callable[[Asked, asyncio.StreamWriter], Awaitable[bool | None]]


def answer(status=200, body=b"{}", headers=()):
    """Return an answer as bytes."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def plain(_asked, writer):
    writer.write(answer())


@dataclass
class Server:
    """A server that says what a test wants, on a port of its own."""

    handler: Handler = plain
    context: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    port: int = 0

    @property
    def url(self):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    async def serve(self, reader, writer):
        self.connections += 1
        number = self.connections
        self.writers.append(writer)
        try:
            while True:
                asked = await read_request(reader)
                asked.connection = number
                if self.context is not None:
                    cert = writer.get_extra_info("peercert") or {}
                    names = [v for rdn in cert.get("subject", ()) for k, v in rdn]
                    asked.peer = names[0] if names else ""
                self.asked.append(asked)
                if await self.handler(asked, writer) is False:
                    return
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def close_all(self):
        """End every connection, as a server does with idle ones; the kernel knows it at once."""
        for writer in self.writers:
            if not writer.is_closing():
                writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


async def read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    asked = Asked(method, path, headers, b"")
    length = int(asked.header("content-length") or 0)
    asked.body = await reader.readexactly(length)
    return asked


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=server.context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for writer in server.writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # what was closed is taken down


def server_context(pair, directory: Path, client_ca=None):
    """Return a server's context; with a CA it looks at client certificates."""
    cert, key = directory / "server.pem", directory / "server.key"
    cert.write_text(pair[0])
    key.write_text(pair[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=client_ca.pem)
    return context


def endpoint(server, **fields):
    return Endpoint(server=server.url, **fields)


class States:
    """What a connection said of its state."""

    def __init__(self):
        self.told: list[str | None] = []

    def __call__(self, sentence):
        self.told.append(sentence)
