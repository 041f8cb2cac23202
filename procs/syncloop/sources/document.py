"""The text of a manifest to plain values, as a JSON document would have them.

JSON or YAML; dates stay text, "1:30" is no number, a duplicate key is an error. What a small text
can blow up to is bounded: nesting, and the number of values with every alias written out. The
library for YAML is imported when the first text that is not JSON comes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubelet.config.errors import one_line, shown
from kubelet.scalars import EXPONENT, SCALARS, TAG

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 200_000  # a pod of the largest size that any API server stores has far fewer


_SURROGATE: Final = re.compile(r"\\[uU]0*[dD][89a-fA-F]")


class UnreadableError(ValueError):
    """A text is no document; says where and why."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds."""

    value: Any
    warnings: tuple[str, ...] = ()


def read(data: bytes) -> Document:
    """Return the document in a text, or raise UnreadableError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = data.count(b"\n", 0, err.start) + 1
        raise UnreadableError(f"line {line}: not UTF-8, must be text in UTF-8") from None
    if not text.strip():
        raise UnreadableError("empty, must hold a Pod in JSON or YAML")
    found = _read(text)
    if _SURROGATE.search(text):
        _check_text(found.value)
    return found


def _read(text: str) -> Document:
    if not text.lstrip().startswith("{"):
        return _Yaml(text).read()
    try:
        return Document(_json(text))
    except json.JSONDecodeError as err:
        try:  # YAML may begin with a brace, too
            return _Yaml(text).read()
        except UnreadableError:
            where = f"line {err.lineno}, column {err.colno}"
            raise UnreadableError(f"{where}: not JSON: {err.msg}") from None


def _check_text(value: Any) -> None:
    """Refuse half of a pair of surrogates: nothing that is written or sent can hold it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError("a \\u escape stands for half a character") from None


# JSON.


def _json(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
    except RecursionError:
        raise _too_deep() from None
    _measure(value)
    return value


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) != len(items):
        keys = [key for key, _ in items]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _twice(twice)
    return found


def _no_number(text: str) -> Any:
    raise UnreadableError(f"{text} is not a number that JSON knows")


def _measure(value: Any) -> None:
    """Refuse deep nesting before anything recursive sees it."""
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level, depth = below, depth + 1
        if depth > MAX_DEPTH + 1:
            raise _too_deep()


def _too_deep(line: int = 0) -> UnreadableError:
    return _at(line, f"nested too deeply, at most {MAX_DEPTH} levels are allowed")


def _twice(key: str, line: int = 0) -> UnreadableError:
    return _at(line, f"key {shown(key)} must be given only once")


def _at(line: int, text: str) -> UnreadableError:
    return UnreadableError(f"line {line}: {text}" if line else text)


# YAML.


class _Yaml:
    """Builds the values of one YAML text while it is parsed, event by event."""

    def __init__(self, text: str) -> None:
        import yaml  # see the module's docstring

        self._yaml = yaml
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._loader = loader
        self._text = text
        self._resolver: Any = None
        self._anchors: dict[str, tuple[Any, int]] = {}  # anchor -> value, and how many it holds
        self._count = 0

    def read(self) -> Document:
        """Return the first document that holds something; more of them are a warning (P-5)."""
        yaml = self._yaml
        try:
            self._resolver = self._loader(self._text)
            found = list(self._documents())
        except yaml.MarkedYAMLError as err:
            mark = err.problem_mark or err.context_mark
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise UnreadableError(f"{where}bad YAML: {err.problem or err.context}") from None
        except (yaml.YAMLError, ValueError) as err:
            if isinstance(err, UnreadableError):
                raise
            raise UnreadableError(f"bad YAML: {one_line(str(err))}") from None
        if not found:
            raise UnreadableError("empty, must hold a Pod in JSON or YAML")
        more = "holds more than one document: the first is used, the others are ignored"
        return Document(found[0], (more,) if len(found) > 1 else ())

    def _documents(self) -> Iterator[Any]:
        """Yield the first document, and a None if there is another one."""
        events = self._events()
        first = True
        for event in events:
            if type(event).__name__ != "DocumentStartEvent":
                continue
            self._anchors = {}
            value = self._value(next(events), events, 0)
            if value is None:
                continue
            yield value if first else None
            if not first:
                return
            first = False

    def _events(self) -> Iterator[Any]:
        while self._resolver.check_event():
            yield self._resolver.get_event()

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Any:
        line = event.start_mark.line + 1
        self._grow(1, line)
        if depth > MAX_DEPTH:
            raise _too_deep(line)
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event.anchor, line)
        before = self._count
        if kind == "MappingStartEvent":
            self._plain_tag(event, "map", line)
            value: Any = self._mapping(events, depth)
        elif kind == "SequenceStartEvent":
            self._plain_tag(event, "seq", line)
            value = self._sequence(events, depth)
        else:
            value = self._scalar(event, line)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._count - before)
        return value

    def _grow(self, by: int, line: int) -> None:
        self._count += by
        if self._count > MAX_VALUES:
            raise _at(line, f"holds more than {MAX_VALUES} values")

    def _alias(self, anchor: str, line: int) -> Any:
        if anchor not in self._anchors:
            raise _at(line, f"alias {shown(anchor)} is unknown, or contains itself")
        value, size = self._anchors[anchor]
        self._grow(size, line)
        return value

    def _plain_tag(self, event: Any, kind: str, line: int) -> None:
        if event.tag not in (None, "!", TAG + kind):
            raise _at(line, f"YAML tag {shown(event.tag)} is not allowed")

    def _sequence(self, events: Iterator[Any], depth: int) -> list[Any]:
        items = []
        while type(event := next(events)).__name__ != "SequenceEndEvent":
            items.append(self._value(event, events, depth + 1))
        return items

    def _mapping(self, events: Iterator[Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while type(event := next(events)).__name__ != "MappingEndEvent":
            line = event.start_mark.line + 1
            if type(event).__name__ != "ScalarEvent":
                raise _at(line, "a key must be a string")
            value = self._value(next(events), events, depth + 1)
            if self._tag(event) == "merge":
                merged |= _merge(value, line)
            elif event.value in found:
                raise _twice(event.value, line)
            else:
                found[event.value] = value
        return merged | found

    def _tag(self, event: Any) -> str:
        """Return a scalar's tag, as the text or the writer says."""
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(self._yaml.ScalarNode, event.value, event.implicit)
        return str(tag).removeprefix(TAG)

    def _scalar(self, event: Any, line: int) -> Any:
        tag = self._tag(event)
        if tag == "str" and event.implicit[0] and EXPONENT.fullmatch(event.value):
            tag = "float"
        make = SCALARS.get(tag)
        if make is None:
            raise _at(line, f"YAML tag {shown(event.tag)} is not allowed")
        value = make(event.value)
        if isinstance(value, float) and not math.isfinite(value):
            raise _at(line, f"{event.value} is not a number that JSON knows")
        return value


def _merge(value: Any, line: int) -> dict[str, Any]:
    """Resolve ``<<``: one map, or a list of maps of which the first wins."""
    found: dict[str, Any] = {}
    for part in reversed(value if isinstance(value, list) else [value]):
        if not isinstance(part, dict):
            raise _at(line, f"<< is {shown(part)}, must be a map or a list of maps")
        found |= part
    return found
