"""Peers that are no runtime, each on a socket of its own; used in the test and in a child of it.

``python -m tests.unit.cri.bad_peers DIRECTORY`` calls every one of them, and a runtime that ends in
the middle of a call, and prints one line for each error. With a user ID it becomes that user first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from pathlib import Path

from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import CriError

SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # an empty frame, with which an HTTP/2 server begins
TIMEOUT = 1.0


def silent(_peer):
    """Accepts, and never says a word."""


def say(peer, words):
    """Send it all and wait for the other side to leave: a close with unread input loses output."""
    peer.sendall(words)
    peer.shutdown(socket.SHUT_WR)
    while peer.recv(65536):
        pass
    peer.close()


def garbage(peer):
    """Says something that is no protocol at all."""
    say(peer, bytes(range(256)) * 16)


def http1(peer):
    """Is a web server."""
    say(peer, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def closer(peer):
    """Closes at once."""
    peer.close()


def garbled(peer):
    """Begins well, and then breaks the protocol."""
    peer.sendall(SETTINGS)
    peer.recv(65536)
    time.sleep(0.1)  # the call must be under way
    peer.sendall(b"\xff" * 2000)


def deserter(peer):
    """Begins well, and then closes."""
    peer.sendall(SETTINGS)
    peer.recv(65536)
    time.sleep(0.1)
    peer.close()


def mute(peer):
    """Begins well, and then never answers."""
    peer.sendall(SETTINGS)


TALKERS = {
    talk.__name__: talk for talk in (silent, garbage, http1, closer, garbled, deserter, mute)
}


@contextlib.contextmanager
def listening(path, talk):
    """Serve one kind of bad peer in a thread."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(16)
    peers = []

    def accept():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            peers.append(peer)
            with contextlib.suppress(OSError):
                talk(peer)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        for peer in peers:
            peer.close()


def missing(_path):
    """Nothing is there."""


def directory(path):
    """A directory is there."""
    path.mkdir()


def file(path):
    """A file is there."""
    path.touch()


def dead(path):
    """A socket is left over from a runtime that was killed."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


THINGS = {make.__name__: make for make in (missing, directory, file, dead)}


@contextlib.contextmanager
def peer(name, path):
    """Whichever of them."""
    if name in TALKERS:
        with listening(path, TALKERS[name]):
            yield
    else:
        THINGS[name](path)
        yield


async def version(path, seconds=TIMEOUT):
    """Call once."""
    async with await RuntimeClient.connect(f"unix://{path}", timeout=seconds) as client:
        try:
            return await client.version()
        finally:
            assert client.in_flight == ()


async def main(where, user=None):
    """Call every peer; as another user, only what that user may not."""
    if user is not None:
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        names = {"forbidden": contextlib.nullcontext()}
    else:
        names = {name: peer(name, where / name) for name in (*TALKERS, *THINGS)}
    for name, context in names.items():
        with context:
            try:
                await version(where / name)
            except CriError as error:
                print(f"{name}\t{type(error).__name__}\t{error}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
