"""TLS: whom we trust, who we are, and one connection's encryption.

The encryption is done here rather than by asyncio: that takes 256 KiB for each connection, and
cannot be put inside another one, which a proxy with https needs.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from procs.node.apiserver.files import Followed
from procs.node.apiserver.types import ApiError, Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from procs.node.apiserver.credentials import Pair

_PLAIN: Final = 1 << 16  # bytes decrypted at a time
# Shared by all connections: what is read into it is used before anybody reads again.
_plain: Final = memoryview(bytearray(_PLAIN))


class Trust:
    """Who may speak for the server: the CA, whose file may be replaced at any time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._ca = Followed(endpoint.ca_file, endpoint.ca_pem)
        self._insecure = endpoint.insecure

    def look(self) -> bool:
        """Whether the CA is another than before."""
        return not self._insecure and self._ca.look()

    @property
    def name(self) -> str:
        """Where the CA comes from, for a sentence."""
        if self._ca.path:
            return f"the CA in {self._ca.path}"
        return "the CA in the kubeconfig" if self._ca.text else "a CA of this system"

    def context(self, pair: Pair | None) -> ssl.SSLContext:
        """Return what new connections are encrypted with; ApiError if that cannot be."""
        context = new_context()
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self._ca.text:
            try:
                context.load_verify_locations(cadata=self._ca.text)
            except (ssl.SSLError, ValueError):
                raise ApiError(f"{self.name} cannot be read: no PEM certificates") from None
        else:
            context.load_default_certs()
        if pair is not None:
            _identify(context, pair)
        return context


def new_context() -> ssl.SSLContext:
    """Return a context for a client, with no CA yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.options |= ssl.OP_NO_RENEGOTIATION
    # A CA may be one that another has signed, which is not among those given.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Many clusters' CAs name no key identifiers; no interpreter's default may refuse them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    return context


def _identify(context: ssl.SSLContext, pair: Pair) -> None:
    try:
        with _as_file(pair.cert) as cert, _as_file(pair.key) as key:
            context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, OSError) as err:
        if isinstance(err, ssl.SSLError) and err.reason == "KEY_VALUES_MISMATCH":
            sentence = f"client certificate {pair.name} and its key do not belong together"
            raise ApiError(sentence) from None
        raise ApiError(f"client certificate {pair.name} or its key cannot be read") from None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give a text a path for a moment; it is in memory only, and nobody else can open it."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        data = text.encode()
        while data:
            data = data[os.write(descriptor, data) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class Tls:
    """One connection's encryption: ciphertext in, plain text out, and the other way round."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self.established = False
        self.closed = False  # by the other side, as it should

    def handshake(self) -> bytes:
        """Go on with the handshake; returns what is to be sent. Raises ssl.SSLError."""
        try:
            self._object.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def alert(self) -> bytes:
        """Return what tells the other side why the handshake failed."""
        return self._outgoing.read()

    def take(self, data: memoryview | bytes) -> None:
        """Take ciphertext."""
        self._incoming.write(data)

    def plain(self, sink: Callable[[memoryview], None]) -> None:
        """Pass on what can be decrypted. Raises ssl.SSLError."""
        try:
            while count := self._object.read(_PLAIN, _plain):
                sink(_plain[: cast("int", count)])  # with a buffer it is a number
            self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True

    def seal(self, data: bytes) -> bytes:
        """Return plain text encrypted."""
        sent = self._object.write(data)
        while sent < len(data):
            sent += self._object.write(data[sent:])
        return self._outgoing.read()

    def answers(self) -> bytes:
        """Return what the encryption itself has to send, such as a new key."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def peer(self) -> bytes:
        """Return the server's certificate in DER; b"" if it has none."""
        return self._object.getpeercert(binary_form=True) or b""
