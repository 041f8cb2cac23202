"""One conversation over a socket of its own: callbacks of the loop, and a single future.

A socket is closed without SO_LINGER: with it, close() stands still until the other side has
acknowledged the end, for 40 ms as a rule and for a second if the pod is cut off, and with it every
other probe. The kernel does the same work behind our back, and TIME_WAIT is no shorter either way.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from kubelet.http.answer import Answer, AnswerError, BodyError
from kubelet.http.target import joined
from kubelet.http.words import system_words
from procs.prober.handlers.patience import Patience
from procs.prober.handlers.resolve import Address
from procs.prober.handlers.tls import Tls, TlsError
from procs.prober.job import ProbeError

_TYPE: Final = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_READ: Final = 16384
_PENDING: Final = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN})
# What this process or this node has run out of says nothing of a container.
_OWN_FAULTS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL}
)


Secure: TypeAlias = Callable[[bytes], Tls]  # that will say what it is given


class StreamError(Exception):
    """A conversation failed; its text says how."""


class StreamTimeoutError(StreamError):
    """The time was over before the conversation was."""


class Stream:
    """Connects to the first address that takes it, says something, and hears the answer.

    Without an answer to wait for, the connection is all that is wanted.
    """

    __slots__ = ("_address", "_addresses", "_answer", "_connected", "_done", "_error", "_loop",
                 "_patience", "_reads", "_request", "_secure", "_share", "_socket", "_tls",
                 "_unsent", "_writes")  # fmt: skip

    def __init__(
        self,
        addresses: Sequence[Address],
        patience: Patience,
        request: bytes = b"",
        answer: Answer | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._addresses = list(addresses)
        self._address: Address = self._addresses[0]
        self._patience = patience
        self._request = request
        self._answer = answer
        self._secure: Secure | None = None
        self._tls: Tls | None = None
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._socket: socket.socket | None = None
        self._share: asyncio.TimerHandle | None = None
        self._error: Exception | None = None  # of the first address
        self._unsent = b""
        self._connected = self._reads = self._writes = False

    async def run(self, secure: Secure | None = None) -> None:
        """Have the conversation, within the time; by the TLS that is made for it, if any is."""
        self._secure = secure
        self._patience.on_end = self._expire
        try:
            self._dial()
            if not self._done.done():  # many a server of this node has answered by now
                await self._done
        finally:
            self._close()
        self._done.result()

    # Connecting.

    def _dial(self) -> None:
        """Try the next address; each of several has its share of the time."""
        self._address = self._addresses.pop(0)
        family, place = self._address
        if self._addresses:
            share = self._patience.left() / (len(self._addresses) + 1)
            self._share = self._loop.call_later(share, self._give_up)
        try:
            self._socket = socket.socket(family, _TYPE, 0)
            code = self._socket.connect_ex(place)
        except OSError as err:  # as there are no more descriptors
            code = err.errno or errno.EIO
        self._dialled(code)

    def _dialled(self, code: int) -> None:
        """A server on this node has mostly taken the connection by now, the others will."""
        assert self._socket is not None or code
        if code and code not in _PENDING:
            self._refused(code)
        elif self._answer is None:
            self._ask_again()
        else:
            self._speak()

    def _ask_again(self) -> None:
        assert self._socket is not None
        code = self._socket.connect_ex(self._address[1])
        if code in _PENDING:
            self._await_writable()
        elif code not in {0, errno.EISCONN}:
            self._refused(code)
        else:
            self._end(None)

    def _speak(self) -> None:
        """Say what is to be said; a connection that is not there yet takes nothing."""
        if self._secure is not None:
            assert self._socket is not None
            self._tls = self._secure(self._request)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(self._tls.begin())
        else:
            self._send(self._request)

    def _refused(self, code: int) -> None:
        """Go on to the next address, if there is one; the first one's words are told."""
        self._forget_share()
        words = system_words(code)
        text = f"dial tcp {_shown(self._address[1])}: connect: {words}"
        if code in _OWN_FAULTS:
            self._end(ProbeError(text))
            return
        self._next(StreamError(text))

    def _give_up(self) -> None:
        """Leave an address that has had its share of the time."""
        self._share = None
        if not self._connected:
            self._next(StreamError(f"dial tcp {_shown(self._address[1])}: i/o timeout"))

    def _next(self, err: Exception) -> None:
        self._error = self._error or err
        self._close()
        if self._addresses:
            self._dial()
        else:
            self._end(self._error)

    # Talking.

    def _send(self, data: bytes) -> None:
        self._unsent += data
        assert self._socket is not None
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            self._await_writable()
            return
        except OSError as err:
            if err.errno != errno.EPIPE:
                self._unsendable(err)
                return
            sent = len(self._unsent)  # the server hung up; it may have said why
        self._connected = True
        self._forget_share()
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._await_writable()
        elif not self._reads:
            self._reads = True
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def _unsendable(self, err: OSError) -> None:
        if self._connected or err.errno == errno.ECONNRESET:
            self._broken(err)
        else:
            self._refused(err.errno or errno.EIO)

    def _await_writable(self) -> None:
        if not self._writes:
            assert self._socket is not None
            self._writes = True
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        assert self._socket is not None
        self._loop.remove_writer(self._socket.fileno())
        self._writes = False
        if self._connected:
            self._send(b"")
            return
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refused(code)
        elif self._answer is None:
            self._ask_again()
        else:
            self._send(b"")

    def _readable(self) -> None:
        assert self._socket is not None
        assert self._answer is not None
        try:
            data = self._socket.recv(_READ)
            if not data:
                self._hung_up()
            elif self._tls is not None:
                self._take(self._tls, data)
            elif self._answer.feed(data):
                self._end(None)
        except BlockingIOError:
            return
        except BodyError as err:
            self._end(ProbeError(str(err)))
        except (AnswerError, TlsError) as err:
            self._end(StreamError(str(err)))
        except OSError as err:
            self._broken(err)

    def _take(self, tls: Tls, data: bytes) -> None:
        assert self._answer is not None
        plain, sealed = tls.take(data)
        if plain and self._answer.feed(plain):
            self._end(None)
        elif sealed:
            self._send(sealed)

    def _hung_up(self) -> None:
        assert self._answer is not None
        self._answer.end()
        self._end(None)

    def _broken(self, err: OSError) -> None:
        assert self._socket is not None
        assert self._answer is not None
        here, there = _shown(self._socket.getsockname()), _shown(self._address[1])
        text = f"read tcp {here}->{there}: read: {system_words(err.errno or errno.EIO)}"
        self._end(ProbeError(text) if self._answer.has_head else StreamError(text))

    # The end.

    def _expire(self) -> None:
        """The time is over; what has come before anybody looked still counts."""
        if self._done.done():
            return
        if self._reads:
            self._readable()
        elif self._writes:
            self._writable()
        if not self._done.done():
            text = f"dial tcp {_shown(self._address[1])}: i/o timeout"
            self._end(self._error or StreamTimeoutError(text))

    def _end(self, error: Exception | None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)
        self._close()

    def _forget_share(self) -> None:
        if self._share is not None:
            self._share.cancel()
            self._share = None

    def _close(self) -> None:
        self._forget_share()
        if self._socket is None:
            return
        number = self._socket.fileno()
        if self._reads:
            self._loop.remove_reader(number)
        if self._writes:
            self._loop.remove_writer(number)
        self._reads = self._writes = self._connected = False
        self._unsent = b""
        self._socket.close()
        self._socket = None


def _shown(place: tuple[object, ...]) -> str:
    return joined(str(place[0]), int(str(place[1])))
