"""The API server's forms of a problem: path, kind of problem, value, what would be right."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kubelet.api.codec import encode

NOT_NEGATIVE = "must be greater than or equal to 0"
POSITIVE = "must be greater than zero"


def shown(value: object) -> str:
    """Return a value as it stands in a message: text in quotes, objects as JSON."""
    # A document that is kept as it was written may hold a date, which JSON has no form for.
    return json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"), default=str)


def size(text: str) -> int:
    """Return the bytes of a text; half a surrogate pair, which JSON can write, counts too."""
    return len(text.encode(errors="surrogatepass"))


def required(path: str, detail: str = "") -> str:
    """Say that something is missing."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def invalid(path: str, value: object, detail: str) -> str:
    """Say that a value is wrong, and why."""
    return f"{path}: Invalid value: {shown(value)}: {detail}"


def unsupported(path: str, value: object, supported: Iterable[str]) -> str:
    """Say that a value is none of those that exist."""
    known = ", ".join(shown(name) for name in sorted(supported))
    return f"{path}: Unsupported value: {shown(value)}: supported values: {known}"


def duplicate(path: str, value: object) -> str:
    """Say that a value which must be unique was there before."""
    return f"{path}: Duplicate value: {shown(value)}"


def forbidden(path: str, detail: str) -> str:
    """Say that something may not be set here."""
    return f"{path}: Forbidden: {detail}"


def not_found(path: str, value: object, detail: str = "") -> str:
    """Say that what a value refers to does not exist."""
    return f"{path}: Not found: {shown(value)}" + (f": {detail}" if detail else "")


def too_long(path: str, limit: int) -> str:
    """Say that a text has too many bytes."""
    return f"{path}: Too long: may not be more than {limit} bytes"


def too_many(path: str, count: int, limit: int) -> str:
    """Say that a list has too many items."""
    return f"{path}: Too many: {count}: must have at most {limit} items"


def between(low: int, high: int) -> str:
    """Return the words for a range."""
    return f"must be between {low} and {high}, inclusive"
