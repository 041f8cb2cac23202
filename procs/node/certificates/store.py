"""Certificates with their keys on disk, where the Go kubelet has them (N-43).

``<cert-dir>/kubelet-client-<date>.pem`` holds a chain and its key; ``kubelet-client-current.pem``
is a link to the one in use. A new file is complete and checked before the link is moved, and the
link is moved at one instant: whoever reads through it finds a pair that belongs together.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from procs.node.certificates import der, files

CLIENT: Final = "kubelet-client"
SERVER: Final = "kubelet-server"
_DATE: Final = "%Y-%m-%d-%H-%M-%S"
_DIRECTORY_MODE: Final = 0o755  # as with the Go kubelet; the files in it are closed
_KEY: Final = re.compile(
    r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----[^-]+-----END \1-----\n?", re.MULTILINE
)


class BadPairError(Exception):
    """Certificate and key cannot be used together; the text says why and names the file."""


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A certificate with its key, as they are in a file."""

    path: str
    chain: str
    key: str
    certificate: der.Certificate


@dataclass(frozen=True, slots=True)
class Found:
    """The pair in use, if there is a sound one, and what was wrong on the way to it."""

    pair: Pair | None
    problems: tuple[str, ...] = ()


def load(cert_file: str, key_file: str = "") -> Pair:
    """Read a pair and prove that it is one; BadPairError if it is not."""
    key_file = key_file or cert_file
    try:
        text, secret = files.read(cert_file), files.read(key_file)
        if text is None or secret is None:
            raise BadPairError(f"{cert_file if text is None else key_file} is not there")
        certificate = der.leaf(text)
        key = key_of(secret)
        if not key:
            raise BadPairError(f"{key_file} has no private key in it")
        prove(cert_file, key_file)
    except OSError as err:
        raise BadPairError(f"{cert_file} cannot be read: {err.strerror or err}") from None
    except ValueError as err:
        raise BadPairError(f"{cert_file} is of no use: {err}") from None
    return Pair(cert_file, der.chain(text), key, certificate)


def key_of(pem: str) -> str:
    """Return the first private key of a PEM text; "" if there is none."""
    found = _KEY.search(pem)
    return found[0] if found else ""


def prove(cert_file: str, key_file: str) -> None:
    """Let OpenSSL say whether the key is the certificate's."""
    try:
        # A password, so that it never asks a terminal for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as err:
        why = (err.reason or str(err)).lower().replace("_", " ")
        raise BadPairError(f"{cert_file} and its key do not fit: {why}") from None


class Store:
    """The pairs of one purpose: ``kubelet-client`` or ``kubelet-server``."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.current = os.path.join(directory, f"{name}-current.pem")
        self._updated = os.path.join(directory, f"{name}-updated.pem")
        self._prefix = os.path.join(directory, name)
        self._dated = re.compile(re.escape(name) + r"-\d{4}(-\d\d){5}\.pem")
        self._unfinished = re.compile(re.escape(name) + r"-[-0-9a-z]+\.pem" + re.escape(files.NEW))

    def load(self, wall_ns: int) -> Found:
        """Return the pair in use; where it is of no use, fall back to the newest that is."""
        self._clean()
        if not os.path.lexists(self.current) and not self._all():
            return Found(None)
        try:
            return Found(load(self.current))
        except BadPairError as err:
            problem = str(err)
        for path in self._all():
            try:
                pair = load(path)
            except BadPairError:
                continue
            if not pair.certificate.expired(wall_ns):
                self._link(path)
                return Found(pair, (f"{problem}; {path} is used instead",))
        return Found(None, (f"{problem}; there is no other that could be used",))

    def save(self, chain: str, key: str, wall_ns: int) -> Pair:
        """Keep a pair and use it from now on; one that is kept already is only used."""
        os.makedirs(self.directory, _DIRECTORY_MODE, exist_ok=True)
        text = chain.rstrip("\n") + "\n" + key.rstrip("\n") + "\n"
        newest = next(iter(self._all()), "")
        path = newest if newest and _same(newest, text) else self._write(text, wall_ns)
        pair = load(path)
        self._link(path)
        return pair

    def _write(self, text: str, wall_ns: int) -> str:
        second = wall_ns // 10**9
        while os.path.lexists(path := self._path(second)):  # one each second at most
            second += 1
        checked = path + files.NEW
        files.write(checked, text)
        try:
            load(checked)
        except BadPairError:
            files.remove(checked)
            raise
        os.replace(checked, path)
        files.sync(self.directory)
        return path

    def _path(self, second: int) -> str:
        # The local time, as an operator's ls shows it beside the name.
        return f"{self._prefix}-{datetime.fromtimestamp(second).astimezone().strftime(_DATE)}.pem"

    def _link(self, path: str) -> None:
        if os.path.islink(self.current) and os.path.realpath(self.current) == path:
            return
        files.remove(self._updated)
        os.symlink(path, self._updated)
        os.replace(self._updated, self.current)
        files.sync(self.directory)

    def _all(self) -> list[str]:
        """Return the dated files, newest first."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return []
        dated = sorted((name for name in names if self._dated.fullmatch(name)), reverse=True)
        return [os.path.join(self.directory, name) for name in dated]

    def _clean(self) -> None:
        """Remove what a predecessor did not finish."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return
        for name in names:
            if self._unfinished.match(name):
                files.remove(os.path.join(self.directory, name))
        files.remove(self._updated)


def _same(path: str, text: str) -> bool:
    try:
        return files.read(path) == text
    except (OSError, ValueError):
        return False
