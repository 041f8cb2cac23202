"""What can be done to requests on their way to the API server, and to its answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self

from tests.cluster.admin import Json

_REASONS = {403: "Forbidden", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}


class Gone(Exception):  # noqa: N818 - it is what the connection is
    """The connection is to be closed, after these last words."""

    def __init__(self, words: bytes = b"") -> None:
        super().__init__("the connection is to be closed")
        self.words = words


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that was answered or ended."""

    method: str
    path: str  # with the query
    status: int  # 0: there was no answer
    at: float  # monotonic seconds: when it came


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def watches(self) -> bool:
        """Whether the answer has no end."""
        return self.method == "GET" and "watch=true" in self.path


class Deed:
    """What is done to a request and its answer; nothing, unless a kind of it says otherwise."""

    async def meet(self, rule: Rule, request: Request) -> bytes | None:
        """What is answered in place of the API server; None: it shall."""
        del rule, request
        return None

    async def pass_frame(self, rule: Rule, line: bytes) -> bytes:
        """A frame of a watch as it is passed on."""
        del rule
        return line

    def pass_head(self, headers: dict[str, str]) -> None:
        """Change the headers of an answer."""

    def pass_body(self, body: bytes) -> bytes:
        """The body of an answer as it is passed on."""
        return body


@dataclass(frozen=True, slots=True)
class Answer(Deed):
    """Say no, as the API server does."""

    status: int
    message: str = ""
    retry_after: int | None = None

    async def meet(self, rule: Rule, request: Request) -> bytes:
        """A Status."""
        del rule
        reason = _REASONS.get(self.status, "")
        message = self.message or f"meddler: {request.method} is answered with {self.status}"
        details = {} if self.retry_after is None else {"retryAfterSeconds": self.retry_after}
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": self.status,
        }
        headers = {"content-type": "application/json"}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return answer_of(self.status, headers, json.dumps(body).encode())


@dataclass(frozen=True, slots=True)
class Words(Deed):
    """Send these bytes and close, whatever they are; into a watch in place of its next frame."""

    words: bytes = b""

    async def meet(self, rule: Rule, request: Request) -> bytes | None:
        """The words, unless it is a watch that can begin first."""
        del rule
        if request.watches:
            return None
        raise Gone(self.words)

    async def pass_frame(self, rule: Rule, line: bytes) -> bytes:
        """The words as a chunk."""
        del rule, line
        raise Gone(chunk_of(self.words))


@dataclass(frozen=True, slots=True)
class Cut(Deed):
    """Send the first half of the next frame of a watch, or of an answer, and close."""

    def pass_body(self, body: bytes) -> bytes:
        """Half of it; the head has promised all."""
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        raise Gone(head + body[: len(body) // 2])

    async def pass_frame(self, rule: Rule, line: bytes) -> bytes:
        """Half of it, as a whole chunk: only its end is missing."""
        del rule
        raise Gone(chunk_of(line[: len(line) // 2]))


@dataclass(frozen=True, slots=True)
class Hold(Deed):
    """Say nothing until the rule is lifted, then go on as a process does that was stopped.

    A watch that is ``dead`` has nothing to say then either: it belonged to another server.
    """

    dead: bool = False

    async def meet(self, rule: Rule, request: Request) -> None:
        """Wait."""
        del request
        await rule.over.wait()

    async def pass_frame(self, rule: Rule, line: bytes) -> bytes:
        """Wait."""
        await (asyncio.Event() if self.dead else rule.over).wait()
        return line


@dataclass(frozen=True, slots=True)
class Delay(Deed):
    """Answer late."""

    seconds: float

    async def meet(self, rule: Rule, request: Request) -> None:
        """Wait for so long."""
        del rule, request
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Change(Deed):
    """Change objects on their way: each of a list, of a watch, and those that stand alone."""

    change: Callable[[Json], Json]
    head: Callable[[dict[str, str]], None] = field(default=lambda _: None)

    def pass_head(self, headers: dict[str, str]) -> None:
        """Change the headers."""
        self.head(headers)

    def pass_body(self, body: bytes) -> bytes:
        """Change what is in a list, or the object."""
        document = json.loads(body)
        if str(document.get("kind", "")).endswith("List"):
            document["items"] = [self.change(item) for item in document.get("items") or ()]
        elif document.get("kind") != "Status":
            document = self.change(document)
        return json.dumps(document).encode()

    async def pass_frame(self, rule: Rule, line: bytes) -> bytes:
        """Change the object of a frame."""
        del rule
        frame = json.loads(line)
        if frame["type"] not in {"BOOKMARK", "ERROR"}:
            frame["object"] = self.change(frame["object"])
        return json.dumps(frame).encode() + b"\n"


class Rule:
    """What is done to which requests, until it is lifted or was done so many times."""

    def __init__(
        self,
        method: str,
        path: str,
        deed: Deed,
        times: int | None = None,
        lift: Callable[[Rule], None] = lambda _: None,
    ) -> None:
        self._lift = lift
        self._method = re.compile(method)
        self._path = re.compile(path)
        self.deed = deed
        self.left = times
        self.hits = 0
        self.over = asyncio.Event()

    def fits(self, method: str, path: str) -> bool:
        """Whether it is about such a request."""
        fits = self._method.fullmatch(method) and self._path.search(path)
        return bool(fits) and self.left != 0

    def hit(self) -> None:
        """Count that it was applied."""
        self.hits += 1
        if self.left is not None:
            self.left -= 1

    def __repr__(self) -> str:
        return f"Rule({self._method.pattern} {self._path.pattern}: {self.deed}, {self.hits} hits)"

    def lift(self) -> None:
        """Let everything go through again."""
        self._lift(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lift()


def answer_of(status: int, headers: dict[str, str], body: bytes) -> bytes:
    """An answer as it is sent."""
    told = {n: v for n, v in headers.items() if n != "transfer-encoding"}
    told["content-length"] = str(len(body))
    lines = [f"{name}: {value}" for name, value in told.items()]
    head = "\r\n".join((f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *lines, "", ""))
    return head.encode() + body


def chunk_of(data: bytes) -> bytes:
    """A piece of an answer whose length is not known."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n" if data else b""
