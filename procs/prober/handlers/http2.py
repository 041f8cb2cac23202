"""HTTP/2 for one request and its answer, as bytes in and bytes out (RFC 9113). Pure.

The whole request goes out at once, so that an answer costs a single round trip. What comes back is
bounded in every direction: neither windows nor tables ever grow, and whoever sends more than was
agreed on is not listened to any longer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import hpack

Fields: TypeAlias = Mapping[str, str]

FRAME: Final = 16384  # bytes of a frame: what everybody accepts, and we do not ask for more
HEAD_LIMIT: Final = 16384  # bytes of the fields of an answer, as sent and as they are meant
DATA_LIMIT: Final = 16384
_TOTAL: Final = 1 << 18  # bytes of everything, as there is no end of frames that carry nothing
_REMEMBERED: Final = 1024  # bytes of header blocks that are worth remembering

_STREAM: Final = 1
_HEAD: Final = struct.Struct(">HBBBL")  # length in two parts, type, flags, stream
_SETTING: Final = struct.Struct(">HL")
_WORD: Final = struct.Struct(">L")
_TWO_WORDS: Final = struct.Struct(">LL")

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20

REFUSED_STREAM: Final = 0x7
ERROR_NAMES: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)


class Http2Error(Exception):
    """What the peer sent cannot be gone on with; its text says what it is."""


class TooLargeError(Http2Error):
    """The fields of an answer are longer than anybody reads."""


class ResetError(Http2Error):
    """The peer gave the request up; ``code`` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"stream terminated by RST_STREAM with error code: {error_name(code)}")
        self.code = code


def error_name(code: int) -> str:
    """Return the name of an error code; one that has none is shown by its number."""
    return ERROR_NAMES[code] if code < len(ERROR_NAMES) else f"unknown error code 0x{code:x}"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def _settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in pairs))


# No table of fields, nothing pushed, a window as large as the answer that is read, short fields.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _settings(
    (0x1, 0), (0x2, 0), (0x4, DATA_LIMIT), (0x6, HEAD_LIMIT)
)
_SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0)


def _text(value: bytes) -> bytes:
    """Return a string as HPACK has it, without Huffman's code: an integer of 7 bits, the bytes."""
    size = len(value)
    if size < 0x7F:
        return bytes((size,)) + value
    size -= 0x7F
    prefix = bytearray((0x7F,))
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + value


def request(fields: Iterable[tuple[str, str]], body: bytes | None) -> bytes:
    """Return all that is sent for a request; ``body`` None is a request without one."""
    block = b"".join(b"\0" + _text(name.encode()) + _text(value.encode()) for name, value in fields)
    if len(block) > FRAME or len(body or b"") > FRAME:
        raise ValueError(f"the request has more than {FRAME} bytes")
    if body is None:
        return _PREFACE + frame(HEADERS, END_HEADERS | END_STREAM, _STREAM, block)
    head = frame(HEADERS, END_HEADERS, _STREAM, block)
    return _PREFACE + head + frame(DATA, END_STREAM, _STREAM, body)


@lru_cache(maxsize=256)
def _remembered(blocks: tuple[bytes, ...]) -> Fields:
    return _decoded(blocks)


def _decoded(blocks: tuple[bytes, ...]) -> Fields:
    """Return the fields of the last block of a connection.

    What a block means depends on those before it and on nothing else, and servers say the same
    each time: so it can be remembered, which is cheaper by far than to decode it.
    """
    decoder = hpack.Decoder(max_header_list_size=HEAD_LIMIT)
    found: dict[str, str] = {}
    try:
        for block in blocks:
            found = {}
            for name, value in decoder.decode(block, raw=True):
                found.setdefault(bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
    except hpack.OversizedHeaderListError:
        raise TooLargeError("peer header list size exceeded limit") from None
    except hpack.HPACKError as err:
        raise Http2Error(f"the fields cannot be decoded: {err}"[:200]) from None
    return found


class Exchange:
    """What a server has said so far on a connection with one request on it."""

    __slots__ = (
        "_block",
        "_blocks",
        "_buffer",
        "_cut",
        "_expects",
        "_limit",
        "_total",
        "data",
        "ended",
        "fields",
        "settled",
        "trailers",
        "unprocessed",
    )

    def __init__(self, limit: int = DATA_LIMIT, *, cut: bool = False) -> None:
        self._limit = limit
        self._cut = cut
        self._buffer = b""
        self._total = 0
        self._block = bytearray()
        self._blocks: tuple[bytes, ...] = ()
        self._expects = 0  # the flags of the HEADERS that CONTINUATIONs must follow
        self.settled = False  # its SETTINGS came: this is a server that speaks HTTP/2
        self.fields: Fields | None = None
        self.trailers: Fields | None = None
        self.data = bytearray()
        self.ended = False  # there is nothing more to wait for
        self.unprocessed = False  # the server says that it did not look at the request

    def receive(self, data: bytes) -> bytes:
        """Take what came, and return what is to be sent back; Http2Error ends the connection."""
        self._total += len(data)
        if self._total > _TOTAL:
            raise Http2Error(f"more than {_TOTAL} bytes came for one request")
        data = self._buffer + data if self._buffer else data
        at, answer = 0, b""
        while len(data) - at >= 9 and not self.ended:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            size = high << 8 | low
            self._check(size, kind)
            if len(data) - at < 9 + size:
                break
            answer += self._frame(kind, flags, stream & 0x7FFFFFFF, data[at + 9 : at + 9 + size])
            at += 9 + size
        self._buffer = data[at:]
        return answer

    def _check(self, size: int, kind: int) -> None:
        if not self.settled and kind != SETTINGS:
            raise Http2Error("the first frame is no SETTINGS frame: this is not HTTP/2")
        if size > FRAME:
            raise Http2Error(f"a frame has {size} bytes, allowed are {FRAME}")
        if self._expects and kind != CONTINUATION:
            raise Http2Error("a block of fields is not continued")

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """Take one frame; sorts that nobody knows are passed over, as the RFC has it."""
        if kind == SETTINGS:
            return self._settle(flags, stream, payload)
        if kind == PING:
            if len(payload) != 8 or stream:
                raise Http2Error("a PING frame is not one")
            return b"" if flags & ACK else frame(PING, ACK, 0, payload)
        if kind == GOAWAY:
            self._go_away(payload)
        elif kind == PUSH_PROMISE:
            raise Http2Error("something is pushed, which was declined")
        elif kind in {DATA, HEADERS, CONTINUATION, RST_STREAM}:
            if stream != _STREAM:
                raise Http2Error(f"a frame is for stream {stream}, which nobody opened")
            self._of_stream(kind, flags, payload)
        return b""

    def _settle(self, flags: int, stream: int, payload: bytes) -> bytes:
        if flags & ACK:
            if payload or not self.settled:
                raise Http2Error("SETTINGS are acknowledged that were not read")
            return b""
        if stream or len(payload) % 6:
            raise Http2Error("a SETTINGS frame is not one")
        self.settled = True
        return _SETTINGS_ACK

    def _go_away(self, payload: bytes) -> None:
        """A server that goes may still answer; but not what it says it never looked at."""
        if len(payload) < 8:
            raise Http2Error("a GOAWAY frame is too short")
        last, code = _TWO_WORDS.unpack_from(payload)
        if last & 0x7FFFFFFF < _STREAM:
            self.unprocessed = True
            said = payload[8:200].decode(errors="replace")
            raise Http2Error(f"the server goes away: {error_name(code)}, {said!r}")

    def _of_stream(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == RST_STREAM:
            if len(payload) != 4:
                raise Http2Error("an RST_STREAM frame is not one")
            (code,) = _WORD.unpack(payload)
            self.unprocessed = code == REFUSED_STREAM
            raise ResetError(code)
        if kind == DATA:
            self._take_data(_unpadded(flags, payload))
            self.ended = self.ended or bool(flags & END_STREAM)
            return
        if kind == HEADERS:
            payload = _unpadded(flags, payload)
            payload = payload[5:] if flags & PRIORITIZED else payload
        elif not self._expects:
            raise Http2Error("a CONTINUATION follows nothing")
        self._take_fields(kind, flags, payload)

    def _take_data(self, data: bytes) -> None:
        if self.fields is None:
            raise Http2Error("data came before the fields")
        self.data += data
        if len(self.data) > self._limit:
            if not self._cut:
                raise Http2Error(f"more than {self._limit} bytes of data, which was not allowed")
            del self.data[self._limit :]
            self.ended = True

    def _take_fields(self, kind: int, flags: int, payload: bytes) -> None:
        self._block += payload
        if len(self._block) > HEAD_LIMIT:
            raise TooLargeError("peer header list size exceeded limit")
        if kind == HEADERS:
            self._expects = 0x100 | flags
        if not flags & END_HEADERS:
            return
        ends, self._expects = bool(self._expects & END_STREAM), 0
        self._blocks += (bytes(self._block),)
        self._block.clear()
        size = sum(map(len, self._blocks))
        if size > HEAD_LIMIT:
            raise TooLargeError("peer header list size exceeded limit")
        decode = _remembered if size <= _REMEMBERED else _decoded
        self._take_decoded(decode(self._blocks), ends)

    def _take_decoded(self, fields: Fields, ends: bool) -> None:
        if self.fields is None and fields.get(":status", "").startswith("1") and not ends:
            return  # it only announces another
        if self.fields is None:
            self.fields = fields
        else:
            self.trailers = fields
        self.ended = ends


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error("a frame has more padding than it has bytes")
    return payload[1 : len(payload) - payload[0]]
