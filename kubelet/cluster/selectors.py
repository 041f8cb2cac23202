"""Label selectors as the text of a query: who asks and who looks up agree by it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

EVERYTHING: Final = "*"  # the text of a selector that is there, but asks for nothing
LONGEST: Final = 100 * 1024
_SETS: Final = {"In": "in", "NotIn": "notin"}

# Key, operator and values of one requirement.
Expression = tuple[str, str, Sequence[str]]


class SelectorError(ValueError):
    """There is no such selector; the text says why."""


def text_of(labels: Mapping[str, str], expressions: Iterable[Expression]) -> str:
    """Return a selector's text, the same for the same requirements in whatever order.

    No selector at all has no text: what it stands for depends on who asks.
    """
    wanted = {f"{key}={value}" for key, value in labels.items()}
    wanted |= {_requirement(*one) for one in expressions}
    text = ",".join(sorted(wanted)) or EVERYTHING
    if len(text) > LONGEST:
        raise SelectorError(f"label selector length ({len(text)}) is larger than {LONGEST}")
    return text


def query_of(text: str) -> str:
    """Return what a selector's text is in a request."""
    return "" if text == EVERYTHING else text


def _requirement(key: str, operator: str, values: Sequence[str]) -> str:
    if operator in _SETS:
        if not values:
            raise SelectorError(f"{key} {operator} needs values")
        return f"{key} {_SETS[operator]} ({','.join(sorted(set(values)))})"
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    raise SelectorError(f'"{operator}" is not a valid label selector operator')
