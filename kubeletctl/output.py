"""Output for programs: JSON and YAML."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Any


class Format(StrEnum):
    """What ``-o`` may say."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def emit(document: Any, form: Format) -> None:
    """Print one document as JSON or YAML."""
    sys.stdout.write(render(document, form))


def render(document: Any, form: Format) -> str:
    """Return one document as JSON or YAML text."""
    if form is Format.JSON:
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    import yaml  # slow to import, and seldom asked for

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def emit_line(document: Any, form: Format) -> None:
    """Print one of many documents: a line of JSON, or a YAML document of its own."""
    if form is Format.JSON:
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("---\n" + render(document, form))
    sys.stdout.flush()
