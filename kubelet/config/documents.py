"""Reading a YAML or JSON file into plain values, with the line of each value at hand.

Strict where Kubernetes is: a duplicate key, a second document and an empty file are errors. The
scalars follow Kubernetes' own YAML reader where it differs from PyYAML: no dates, no base 60.
``yaml`` is imported on first use: most processes get the configuration as JSON from the
supervisor and never need it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubelet.config.errors import Problem, Raw, one_line, shown
from kubelet.scalars import EXPONENT, SCALARS, TAG

MAX_BYTES: Final = 4 << 20
MAX_DEPTH: Final = 64


Place = tuple[str | int, ...]


class Unreadable(Exception):  # noqa: N818 - carries problems, one or more
    """A file that cannot be read as a document."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(slots=True)
class Document:
    """A file's content and where each part of it stands."""

    path: str
    content: Any
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def where(self, path: Place) -> str:
        """Return ``file:line`` of a value, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if line := self.lines.get(path[:length]):
                return f"{self.path}:{line}"
        return self.path


def read(path: str) -> Document:
    """Read one file, or raise Unreadable."""
    text = _text(path)
    try:
        return _Reader(path).read(text)
    except Unreadable as err:
        if not text.lstrip().startswith("{"):
            raise
        return _json(path, text, err)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        raise Unreadable([Problem(path, "", "cannot be read", reason)]) from None
    if len(data) > MAX_BYTES:
        allowed = f"a configuration file has at most {MAX_BYTES} bytes"
        raise Unreadable([Problem(path, "", "too large", allowed)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = data.count(b"\n", 0, err.start) + 1
        raise Unreadable(
            [Problem(f"{path}:{line}", "", "not UTF-8", "must be text in UTF-8")]
        ) from None
    if not text.strip():
        raise Unreadable([Problem(path, "", "empty file", "must hold a KubeletConfiguration")])
    return text


def _json(path: str, text: str, err: Unreadable) -> Document:
    """Read JSON that is not YAML, such as escaped pairs of surrogates."""
    problems: list[Problem] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in items:
            if key in out:
                problems.append(Problem(path, key, shown(value), "must be given only once"))
            out[key] = value
        return out

    try:
        content = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise err from None
    return Document(path, content, {}, problems)


class _Reader:
    """Turns one YAML text into a Document."""

    def __init__(self, path: str) -> None:
        import yaml  # see the module's docstring

        self._yaml = yaml
        self._loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._document = Document(path, None)
        self._open: set[int] = set()  # nodes being built: an alias to one of them is a loop
        self._built: dict[int, Any] = {}  # a node reached by many aliases is built once

    def read(self, text: str) -> Document:
        """Parse the whole text."""
        try:
            self._measure(text)
            node = self._yaml.compose(text, Loader=self._loader)
        except self._yaml.MarkedYAMLError as err:
            raise Unreadable([self._syntax(err)]) from None
        except (self._yaml.YAMLError, ValueError) as err:
            problem = Problem(self._document.path, "", "bad YAML", one_line(str(err)))
            raise Unreadable([problem]) from None
        if node is None:
            empty = Problem(
                self._document.path, "", "empty file", "must hold a KubeletConfiguration"
            )
            raise Unreadable([empty])
        self._document.content = self._value(node, ())
        return self._document

    def _measure(self, text: str) -> None:
        """Refuse deep nesting before anything recursive sees it."""
        depth = 0
        for event in self._yaml.parse(text, Loader=self._loader):
            name = type(event).__name__
            depth += name in {"MappingStartEvent", "SequenceStartEvent"}
            depth -= name in {"MappingEndEvent", "SequenceEndEvent"}
            if depth > MAX_DEPTH:
                where = f"{self._document.path}:{event.start_mark.line + 1}"
                allowed = f"at most {MAX_DEPTH} levels are allowed"
                raise Unreadable([Problem(where, "", "nested too deeply", allowed)])

    def _syntax(self, err: Any) -> Problem:
        mark = err.problem_mark or err.context_mark
        where = self._document.path
        if mark is not None:
            where = f"{where}:{mark.line + 1}:{mark.column + 1}"
        return Problem(where, "", "bad YAML", err.problem or err.context or "syntax error")

    def _value(self, node: Any, path: Place) -> Any:
        self._document.lines[path] = node.start_mark.line + 1
        if id(node) in self._open:
            self._complain(node, path, Raw("alias"), "must not contain itself")
            return None
        if id(node) in self._built:
            return self._built[id(node)]
        self._open.add(id(node))
        value = self._build(node, path)
        self._open.discard(id(node))
        self._built[id(node)] = value
        return value

    def _build(self, node: Any, path: Place) -> Any:
        if isinstance(node, self._yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, self._yaml.SequenceNode):
            return [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: Any, path: Place) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, self._yaml.ScalarNode):
                self._complain(key_node, path, Raw("key"), "must be a string")
                continue
            key = key_node.value
            if key_node.tag == TAG + "merge":
                merged |= self._merge(value_node, path)
                continue
            if key in out:
                self._complain(key_node, (*path, key), Raw("duplicate"), "must be given only once")
                continue
            out[key] = self._value(value_node, (*path, key))
            self._document.lines[*path, key] = key_node.start_mark.line + 1
        return merged | out

    def _merge(self, node: Any, path: Place) -> dict[str, Any]:
        """Resolve ``<<``: one map, or a list of maps of which the first wins."""
        value = self._value(node, (*path, "<<"))
        out: dict[str, Any] = {}
        for part in reversed(value if isinstance(value, list) else [value]):
            if isinstance(part, dict):
                out |= part
            else:
                self._complain(node, (*path, "<<"), part, "must be a map or a list of maps")
        return out

    def _scalar(self, node: Any, path: Place) -> Any:
        tag = node.tag.removeprefix(TAG)
        if tag == "str" and not node.style and EXPONENT.fullmatch(node.value):
            tag = "float"
        read = SCALARS.get(tag)
        if read is None:
            self._complain(node, path, Raw(node.tag), "this YAML tag is not allowed")
            return None
        return read(node.value)

    def _complain(self, node: Any, path: Place, value: Any, allowed: str) -> None:
        where = f"{self._document.path}:{node.start_mark.line + 1}"
        problem = Problem(where, dotted(path), shown(value, dotted(path)), allowed)
        self._document.problems.append(problem)


def dotted(path: Place) -> str:
    """Render a path for people: ``reservedMemory[0].limits``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
