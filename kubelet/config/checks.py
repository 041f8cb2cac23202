"""Range and syntax checks of single values; each returns what is allowed, or None when it is."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any, Final

from kubelet import durations

Check = Callable[[Any], str | None]


def at_least(low: int) -> Check:
    """Allow numbers from ``low`` up."""
    allowed = f"must be {low} or greater"
    return lambda value: None if value >= low else allowed


def between(low: float, high: float) -> Check:
    """Allow numbers from ``low`` to ``high``, both included."""
    allowed = f"must be between {low} and {high}"
    return lambda value: None if low <= value <= high else allowed


def above(low: float, high: float) -> Check:
    """Allow numbers above ``low``, up to ``high``."""
    allowed = f"must be greater than {low} and at most {high}"
    return lambda value: None if low < value <= high else allowed


def period(low: str, high: str = "") -> Check:
    """Allow durations from ``low`` to ``high``, both included."""
    least = durations.parse(low)
    most = durations.parse(high) if high else 1 << 63
    allowed = f"must be between {low} and {high}" if high else f"must be {low} or longer"
    return lambda value: None if least <= durations.parse(value) <= most else allowed


def positive_period(value: str) -> str | None:
    """Allow durations longer than nothing."""
    return None if durations.parse(value) > 0 else "must be greater than 0s"


def zero_or_second(value: str) -> str | None:
    """Allow no time at all, or a second and more."""
    length = durations.parse(value)
    return None if length == 0 or length >= durations.SECOND else "must be 0s, or 1s or longer"


def not_empty(value: str) -> str | None:
    """Allow any text but none."""
    return None if value else "must not be empty"


def only_false(value: bool) -> str | None:
    """Allow false only; the mode that true stood for is gone."""
    return "must be false: the run-once mode was removed" if value else None


def pod_logs_dir(value: str) -> str | None:
    """Allow a clean absolute path in ASCII, because it becomes part of metrics."""
    if not value:
        return "must not be empty"
    if not value.startswith("/"):
        return "must be an absolute path"
    if clean(value) != value:
        return f'must be a normalised path, such as "{clean(value)}"'
    return None if value.isascii() else "must contain ASCII characters only"


def clean(path: str) -> str:
    """Normalise a path as Go's filepath.Clean does (Python keeps a double leading slash)."""
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def absolute_path(value: str) -> str | None:
    """Allow a path from the root."""
    if "\0" in value:
        return "must not contain a NUL character"
    return None if value.startswith("/") else "must be an absolute path"


_USER: Final = re.compile(r"[0-9]+(:[0-9]+)?|[a-z_][a-z0-9_.-]*\$?", re.IGNORECASE)


def user(value: str) -> str | None:
    """Allow a user name, a numeric user id, or user:group ids."""
    numbers = value.split(":") if value[:1].isdigit() else []
    if not value.isascii() or not _USER.fullmatch(value) or any(len(n) > 10 for n in numbers):
        return 'must be a user name, or ids such as "65534" or "65534:65534"'
    if any(int(n) > (1 << 32) - 2 for n in numbers):
        return f"must have ids of at most {(1 << 32) - 2}"
    return None
