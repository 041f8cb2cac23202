"""Files with pods on a command line: JSON or YAML, several documents, lists, directories.

The text is read by the same reader as the manifests of static pods, so that both ends of the socket
mean the same by it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubeletctl.fields import obj, text
from kubeletctl.words import plain

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
DEFAULT_NAMESPACE: Final = "default"
MAX_BYTES: Final = 64 << 20
_LISTS: Final = ("List", "PodList")
# It stands at the beginning of a line, even inside a text of several lines: so YAML has it.
_SEPARATOR: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """One document, or what is wrong with the place where one was looked for."""

    origin: str  # the file, and which of its documents
    value: Any = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The name that the document gives its pod; "" if it has none."""
        return text(obj(self.value, "metadata"), "name")

    @property
    def namespace(self) -> str:
        """The namespace that the document gives its pod, or the default one."""
        return text(obj(self.value, "metadata"), "namespace") or DEFAULT_NAMESPACE


def gather(paths: list[str]) -> list[Found]:
    """Return every document in files and directories; ``-`` is standard input."""
    return [found for path in paths for found in _of_path(path)]


def _of_path(path: str) -> Iterator[Found]:
    if path == STDIN:
        yield from documents(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
        return
    if not os.path.isdir(path):
        yield from _of_file(path)
        return
    names = sorted(name for name in os.listdir(path) if name.endswith(SUFFIXES))
    if not names:
        allowed = ", ".join(SUFFIXES)
        yield Found(path, problem=f"there is no file in it whose name ends in {allowed}")
    for name in names:
        if not name.startswith("."):
            yield from _of_file(os.path.join(path, name))


def _of_file(path: str) -> Iterator[Found]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as problem:
        yield Found(path, problem=f"cannot be read: {problem.strerror}")
        return
    yield from documents(data, path)


def documents(data: bytes, origin: str) -> list[Found]:
    """Return the documents in a text, the items of lists one by one. Pure."""
    if len(data) > MAX_BYTES:
        return [Found(origin, problem=f"is longer than {MAX_BYTES} bytes")]
    try:
        pieces = _pieces(data.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        return [Found(origin, problem=f"line {line}: not UTF-8, must be text in UTF-8")]
    if not pieces:
        return [Found(origin, problem="empty, must hold a Pod in JSON or YAML")]
    found = []
    for number, piece in enumerate(pieces, 1):
        where = f"{origin}: document {number}" if len(pieces) > 1 else origin
        found += _items(_read(piece, where))
    return found


def _pieces(text_: str) -> list[str]:
    """Part a text at its separators; each part begins with as many empty lines as were before it.

    So the lines that errors name are those of the file. Parts that hold only comments are left out.
    """
    pieces, start = [], 0
    for end in (*(match.start() for match in _SEPARATOR.finditer(text_)), len(text_)):
        piece = text_[start:end]
        if _holds_something(piece):
            pieces.append("\n" * text_.count("\n", 0, start) + piece)
        start = end
    return pieces


def _holds_something(piece: str) -> bool:
    lines = (line.strip() for line in piece.removeprefix("---").splitlines())
    return any(line and not line.startswith(("#", "%")) and line != "..." for line in lines)


def _read(piece: str, origin: str) -> Found:
    from procs.syncloop.sources import document  # only where there is something to read

    try:
        return Found(origin, document.read(piece.encode()).value)
    except document.UnreadableError as problem:
        return Found(origin, problem=plain(str(problem)))


def _items(found: Found) -> list[Found]:
    """Return the items of a list, or what it is if it is none."""
    value = found.value
    if found.problem or not isinstance(value, dict) or value.get("kind") not in _LISTS:
        return [found]
    items = value.get("items")
    if not isinstance(items, list):
        return [Found(found.origin, problem="items: must be a list")]
    typed = {"apiVersion": "v1", "kind": "Pod"} if value["kind"] == "PodList" else {}
    return [
        Found(
            f"{found.origin}: items[{index}]", {**typed, **item} if isinstance(item, dict) else item
        )
        for index, item in enumerate(items)
    ]
