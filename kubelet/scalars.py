"""Scalars of YAML as documents of Kubernetes mean them: dates stay text, "1e3" is a number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

TAG: Final = "tag:yaml.org,2002:"
EXPONENT: Final = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]{1,3}")  # text for YAML 1.1, not for JSON


def _integer(text: str) -> int | str:
    """Read an integer; base 60 ("1:30") and what Python refuses stay text."""
    body = text.replace("_", "")
    digits = body.lstrip("+-")
    try:
        if digits.startswith(("0x", "0b", "0o")):
            return int(body, 0)
        return int(body, 8) if len(digits) > 1 and digits.startswith("0") else int(body)
    except ValueError:
        return text


def _float(text: str) -> float | str:
    body = text.replace("_", "").lower()
    try:
        return float(body.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text


SCALARS: Final[dict[str, Callable[[str], Any]]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() in {"true", "yes", "on"},
    "int": _integer,
    "float": _float,
    "str": str,
    "timestamp": str,
    "value": str,
    "merge": str,
}
