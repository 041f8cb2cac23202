"""What is wrong with a configuration, said in lines that a person can act on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_SHOWN: Final = 120  # characters of a bad value that a line shows
_NAME: Final = 100  # characters up to which a wrong name is worth a suggestion
_SECRET: Final = "staticPodURLHeader"  # noqa: S105 - the name of the field, not a secret


class BadValueError(ValueError):
    """A value that its type does not allow, with the path below the field where it stands."""

    def __init__(self, allowed: str, value: Any, below: str = "") -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.value = value
        self.below = below


class BadValuesError(ValueError):
    """Several bad values found in one field."""

    def __init__(self, items: list[BadValueError]) -> None:
        super().__init__("; ".join(item.allowed for item in items))
        self.items = items


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: where it was written, the field, its value, and what is allowed."""

    where: str
    field: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return ": ".join(one_line(part) for part in self.parts() if part)

    def parts(self) -> tuple[str, str, str, str]:
        """Return the parts in the order in which they are shown."""
        return self.where, self.field, self.value, self.allowed


class ConfigError(Exception):
    """The configuration cannot be used; ``problems`` holds every reason, one line each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class HelpWanted(Exception):  # noqa: N818 - a wish, not an error
    """The command line asks for the help text."""


class VersionWanted(Exception):  # noqa: N818 - a wish, not an error
    """The command line asks for the version; ``kind`` is "true" or "raw"."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def one_line(text: str) -> str:
    """Escape what would break a line or colour a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: Any, field: str = "") -> str:
    """Render a value for a problem line: compact, bounded, and never a secret."""
    if field.startswith(_SECRET):
        return "<masked>"
    text = value if isinstance(value, Raw) else _compact(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _compact(value: Any) -> str:
    """Encode as JSON, but only as far as is shown: aliases can make a small file a huge value."""
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        text += piece
        if len(text) > _SHOWN:
            break
    return text


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that a mistyped one stands for most likely, or nothing."""
    if len(name) > _NAME:
        return ""
    import difflib  # only where something is wrong

    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), "")


class Raw(str):
    """Text to be shown as it is, without quotes."""

    __slots__ = ()
