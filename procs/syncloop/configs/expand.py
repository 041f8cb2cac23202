"""References of the form ``$(NAME)`` in commands, arguments, values and paths (P-163). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

# A doubled dollar is one that means nothing; an opening without its end means itself.
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *values: Mapping[str, str]) -> str:
    """Put values in place of references, of the first map that has the name.

    ``$$(NAME)`` is ``$(NAME)``; a name that no map has is left as it was written.
    """
    return _expanded(text, lambda name: _find(name, values))


def missing(text: str, *values: Mapping[str, str]) -> list[str]:
    """Return the names in a text that no map has."""
    names = [match[1] for match in _REFERENCE.finditer(text) if match[1] is not None]
    return [name for name in names if _find(name, values) is None]


def _expanded(text: str, find: Callable[[str], str | None]) -> str:
    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        found = find(match[1])
        return match[0] if found is None else found

    return _REFERENCE.sub(put, text) if "$" in text else text


def _find(name: str, values: tuple[Mapping[str, str], ...]) -> str | None:
    return next((known[name] for known in values if name in known), None)
