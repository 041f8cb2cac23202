"""An HTTP/1 answer, read as it comes: fed with bytes of any length, and never holding many.

It is as strict as the client of Go programs is, and says what is wrong in that client's words. Of
the head it keeps what is acted on, of the body what a probe may show: however much a server sends,
and however slowly, a few lines are all that is held.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeAlias

from kubelet.http.words import quoted

HEAD_LIMIT: Final = 10 << 20  # bytes of a head, with those of the answers that announce it
BODY_LIMIT: Final = 10 << 10  # bytes of a body that are looked at (B-12)
_LINE_LIMIT: Final = 64 << 10  # bytes of a line that are held
_SIZE_LIMIT: Final = 4 << 10  # bytes of the line that tells a chunk's size

_STATUS: Final = re.compile(rb"HTTP/(\d)\.(\d) +(\d{3})(?: [^\n]*)?\r?\n")
_VERSION: Final = re.compile(rb"HTTP/\d\.\d")
# A name, spaces in it forgiven, and a value without control characters; or the rest of a value.
_START: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z -]+:"
_VALUE: Final = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_FIELDS: Final = re.compile(rb"(?:(?:(?! )" + _START + rb"|[ \t])" + _VALUE + rb"\r?\n)*+")
_PART: Final = re.compile(rb"(?:(?! )" + _START + rb"|[ \t])" + _VALUE)
_KEPT: Final = re.compile(
    rb"^(location|content-length|transfer-encoding):[ \t]*([^\r\n]*?)[ \t]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_KEPT_START: Final = re.compile(rb"(?:location|content-length|transfer-encoding):", re.IGNORECASE)
_SIZE: Final = re.compile(rb"[0-9A-Fa-f]+")
_EMPTY: Final = frozenset({204, 304})  # statuses of answers without a body


Enough: TypeAlias = Callable[[int, str], bool]


class AnswerError(Exception):
    """What came is no answer; its text says why."""


class BodyError(AnswerError):
    """The head of an answer came, and its body broke."""


class _At(Enum):
    """What is expected next."""

    STATUS = auto()
    FIELDS = auto()
    BODY = auto()  # as many bytes as were told, or as come
    SIZE = auto()  # of a chunk
    CHUNK = auto()
    DONE = auto()


class Answer:
    """What a server says, as far as it matters."""

    __slots__ = ("_at", "_begun", "_enough", "_left", "_lengths", "_modern", "_rest", "_skips",
                 "_taken", "_transfer", "body", "length", "location", "status")  # fmt: skip

    def __init__(self, enough: Enough | None = None) -> None:
        self._enough = enough  # says of status and location whether the body is of no interest
        self.status = 0
        self.location = ""
        self.body = b""
        self.length: int | None = None  # of the body, as it is told; None: it is not
        self._at = _At.STATUS
        self._rest = b""  # came, and is not complete
        self._taken = 0  # bytes of heads
        self._begun = False  # a field has been seen
        self._skips = False  # within a line that is too long to be held
        self._left: int | None = None  # of a body or chunk; None: until the connection ends
        self._modern = False  # at least HTTP/1.1
        self._lengths: list[bytes] = []
        self._transfer: list[bytes] = []

    @property
    def done(self) -> bool:
        """Whether nothing more is wanted."""
        return self._at is _At.DONE

    @property
    def has_head(self) -> bool:
        """Whether the head is complete: status and location are what they are."""
        return self._at not in {_At.STATUS, _At.FIELDS}

    def feed(self, data: bytes) -> bool:
        """Take what came; tell whether the answer is done."""
        if not self.has_head:
            self._taken += len(data)
            if self._taken > HEAD_LIMIT:
                text = f"net/http: server response headers exceeded {HEAD_LIMIT} bytes; aborted"
                raise _broken(text)
        self._rest += data
        while self._rest and not self.done and self._step():
            pass
        return self.done

    def end(self) -> None:
        """Take it that nothing more will come."""
        if self._at is _At.STATUS:
            if not self._rest:
                raise AnswerError("EOF")
            self.feed(b"\n")  # a line that ends so is judged as one that ends
        if not self.has_head:
            raise _broken("unexpected EOF")
        if self._at is _At.BODY and self._left is None:
            self._at = _At.DONE
        if not self.done:
            raise BodyError("unexpected EOF")

    def _step(self) -> bool:
        """Go on by a line or a piece; False: more must come first."""
        match self._at:
            case _At.STATUS:
                return self._status_line()
            case _At.FIELDS:
                return self._fields()
            case _At.BODY | _At.CHUNK:
                return self._piece()
            case _At.SIZE:
                return self._size_line()
            case _At.DONE:
                return False

    def _status_line(self) -> bool:
        if b"\n" not in self._rest:
            if len(self._rest) > _LINE_LIMIT:
                raise _broken(_fault_of_status(self._rest))
            return False
        found = _STATUS.match(self._rest)
        if found is None:
            raise _broken(_fault_of_status(self._rest.partition(b"\n")[0].rstrip(b"\r")))
        self.status = int(found[3])
        self._modern = (found[1], found[2]) >= (b"1", b"1")
        self._rest = self._rest[found.end() :]
        self._at = _At.FIELDS
        self._begun = False
        self.location = ""
        self._lengths, self._transfer = [], []
        return True

    def _fields(self) -> bool:
        """Take the whole lines that are there; the first empty one ends the head."""
        if self._skips and not self._skip():
            return False
        found = _FIELDS.match(self._rest)
        size = found.end() if found else 0
        if size:
            if not self._begun and self._rest[:1] in b" \t":
                raise _broken(_fault_of_field(self._rest, begun=False))
            self._keep(size)
            self._begun = True
        rest = self._rest = self._rest[size:]
        if rest.startswith((b"\r\n", b"\n")):
            self._rest = rest[rest.index(b"\n") + 1 :]
            self._head_is_complete()
            return True
        if b"\n" in rest:
            raise _broken(_fault_of_field(rest, self._begun))
        if len(rest) > _LINE_LIMIT:
            self._skip_line()
        return False

    def _skip_line(self) -> None:
        if not _PART.match(self._rest) or _KEPT_START.match(self._rest):
            raise _broken(_fault_of_field(self._rest, self._begun))
        self._skips = self._begun = True
        self._rest = b""

    def _skip(self) -> bool:
        """Forget the rest of a long line; tell whether it is over."""
        _, end, self._rest = self._rest.partition(b"\n")
        self._skips = not end
        return bool(end) and bool(self._rest)

    def _keep(self, size: int) -> None:
        for found in _KEPT.finditer(self._rest, 0, size):
            name, value = found[1].lower(), found[2]
            if name == b"content-length":
                self._lengths = [*self._lengths[:1], value]  # as many as a sentence needs
                if len(set(self._lengths)) > 1:
                    got = " ".join(quoted(one) for one in self._lengths)
                    text = "http: message cannot contain multiple Content-Length headers"
                    raise _broken(f"{text}; got [{got}]")
            elif name == b"transfer-encoding":
                self._transfer = [*self._transfer[:1], value]
            elif not self.location:
                self.location = value.decode("latin-1")

    def _head_is_complete(self) -> None:
        if 100 <= self.status < 200 and self.status != 101:  # only announces another
            self._at = _At.STATUS
            return
        enough = self._enough is not None and self._enough(self.status, self.location)
        chunked = self._modern and bool(self._transfer) and self._is_chunked()
        length = self.length = None if chunked else self._length()
        if enough or self.status in _EMPTY or self.status == 101 or length == 0:
            self._at = _At.DONE
        elif chunked:
            self._at = _At.SIZE
        else:
            self._at, self._left = _At.BODY, length

    def _is_chunked(self) -> bool:
        if len(self._transfer) > 1:
            got = " ".join(quoted(one) for one in self._transfer)
            raise _broken(f"too many transfer encodings: [{got}]")
        if self._transfer[0].lower() != b"chunked":
            raise _broken(f"unsupported transfer encoding: {quoted(self._transfer[0])}")
        return True

    def _length(self) -> int | None:
        if not self._lengths or not self._lengths[0]:
            return None
        length = self._lengths[0]
        if not length.isdigit() or len(length) > 18:
            raise _broken(f"bad Content-Length {quoted(length)}")
        return int(length)

    def _piece(self) -> bool:
        """Take of a body or chunk what is there."""
        room = BODY_LIMIT - len(self.body)
        take = room if self._left is None else min(room, self._left)
        piece, self._rest = self._rest[:take], self._rest[take:]
        self.body += piece
        if self._left is not None:
            self._left -= len(piece)
        if len(self.body) >= BODY_LIMIT or (self._left == 0 and self._at is _At.BODY):
            self._at, self._rest = _At.DONE, b""
            return False
        if self._left == 0:
            return self._chunk_end()
        return False

    def _chunk_end(self) -> bool:
        if self._rest.startswith(b"\r\n"):
            self._rest = self._rest[2:]
            self._at = _At.SIZE
            return True
        if self._rest in {b"", b"\r"}:
            return False
        raise BodyError("malformed chunked encoding")

    def _size_line(self) -> bool:
        line, end, rest = self._rest.partition(b"\n")
        if len(line) > _SIZE_LIMIT:
            raise BodyError("header line too long")
        if not end:
            return False
        size = line.partition(b";")[0].strip()
        if not size:
            raise BodyError("empty hex number for chunk length")
        if not _SIZE.fullmatch(size):
            raise BodyError("invalid byte in chunk length")
        if len(size) > 16:
            raise BodyError("http chunk length too large")
        self._rest, self._left = rest, int(size, 16)
        self._at = _At.CHUNK if self._left else _At.DONE  # what follows the last one is not read
        return True


def _broken(text: str) -> AnswerError:
    return AnswerError(f"net/http: HTTP/1.x transport connection broken: {text}")


def _fault_of_status(line: bytes) -> str:
    version, space, rest = line.partition(b" ")
    if not space:
        return f"malformed HTTP response {quoted(line)}"
    code = rest.lstrip(b" ").partition(b" ")[0]
    if len(code) != 3 or not code.isdigit():
        return f"malformed HTTP status code {quoted(code)}"
    if not _VERSION.fullmatch(version):
        return f"malformed HTTP version {quoted(version)}"
    return f"malformed HTTP response {quoted(line)}"


def _fault_of_field(data: bytes, begun: bool) -> str:
    line = data.partition(b"\n")[0].rstrip(b"\r")
    if not begun and line[:1] in {b" ", b"\t"}:
        return f"malformed MIME header initial line: {quoted(line)}"
    if b":" not in line:
        return f"malformed MIME header: missing colon: {quoted(line)}"
    return f"malformed MIME header line: {quoted(line)}"
