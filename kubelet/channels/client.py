"""Asking a process from outside the tree, without an event loop: what ``kubeletctl`` uses."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final, TypeVar

import zmq

from kubelet.channels import messages, paths, sockets, wire
from kubelet.channels.asker import read_answer, write_request
from kubelet.channels.errors import (
    DeniedError,
    PeerDownError,
    PeerGoneError,
    RequestTimeoutError,
)
from kubelet.channels.messages import Request

R = TypeVar("R")

_MONITOR: Final = "inproc://client-monitor"
_ID: Final = 1  # there is one request per connection


def call(run_dir: Path, kind: str, message: Request[R], timeout: float = 5.0) -> R:
    """Ask ``kind`` and return its reply, or raise a ChannelError, within ``timeout`` seconds."""
    deadline = time.monotonic_ns() + int(timeout * 1e9)
    row = messages.BY_TYPE[type(message)]
    frame = write_request(row, _ID, deadline, message)
    path = paths.socket_path(run_dir, kind, paths.REQUESTS)
    _check_reachable(path, kind)
    context: sockets.Context = zmq.Context()
    try:
        envelope = _Exchange(context, path, deadline).run(frame)
    except _NoAnswerError as no:
        raise no.explain(kind, row.name, timeout) from None
    finally:
        context.destroy(linger=0)
    reply: R = read_answer(kind, row, envelope)
    return reply


def _check_reachable(path: Path, kind: str) -> None:
    """Say at once what waiting would not mend."""
    try:
        path.stat()
    except FileNotFoundError:
        raise PeerDownError(f"{kind} has no socket at {path}: is the kubelet running?") from None
    except PermissionError:
        raise DeniedError(f"{path} may not be opened by uid {os.geteuid()}") from None
    if not os.access(path, os.W_OK):
        raise DeniedError(f"{path} may not be opened by uid {os.geteuid()}")


class _NoAnswerError(Exception):
    """The exchange ended without an answer, because of what its arguments say."""

    def __init__(self, *, sent: bool, gone: bool) -> None:
        super().__init__()
        self._sent = sent
        self._gone = gone

    def explain(self, kind: str, name: str, seconds: float) -> Exception:
        """Build the error that the user sees."""
        if self._gone:
            return PeerGoneError(f"{kind} went away before it answered {name}")
        if self._sent:
            return RequestTimeoutError(f"{kind} did not answer {name} within {seconds:g} s")
        return PeerDownError(f"{kind} could not be reached for {name} in {seconds:g} s")


class _Exchange:
    """One request and its answer over a connection of its own."""

    def __init__(self, context: sockets.Context, path: Path, deadline_ns: int) -> None:
        self._deadline = deadline_ns
        self._socket = sockets.make(context, zmq.DEALER)
        self._socket.set(zmq.IMMEDIATE, 1)
        self._socket.monitor(_MONITOR, zmq.EVENT_DISCONNECTED)
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.connect(_MONITOR)
        sockets.connect(self._socket, path)

    def run(self, frame: bytes) -> wire.Envelope:
        """Send when connected, then wait for the answer."""
        self._send(frame)
        while True:
            arrived = self._wait_for_answer()
            answer = self._receive()
            if answer:
                return answer
            if not arrived:
                raise _NoAnswerError(sent=True, gone=False)
            if self._monitor.poll(0):
                raise _NoAnswerError(sent=True, gone=True)

    def _send(self, frame: bytes) -> None:
        while self._socket.poll(self._left_ms(), zmq.POLLOUT):
            with contextlib.suppress(zmq.Again):  # the connection ended in between
                self._socket.send(frame, zmq.DONTWAIT)
                return
        raise _NoAnswerError(sent=False, gone=False)

    def _left_ms(self) -> int:
        return max(0, (self._deadline - time.monotonic_ns()) // 1_000_000)

    def _wait_for_answer(self) -> bool:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        return bool(poller.poll(self._left_ms()))

    def _receive(self) -> wire.Envelope | None:
        """Return the answer if it has come; anything else that came is passed over."""
        while self._socket.poll(0):
            parts = self._socket.recv_multipart(zmq.DONTWAIT)
            try:
                envelope = wire.decode(parts[0])
            except wire.GarbageError:
                continue
            if len(parts) == 1 and envelope.id == _ID:
                return envelope
        return None
