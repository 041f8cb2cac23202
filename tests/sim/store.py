"""The state file: JSON, replaced by a rename at each change, so that a kill costs nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

SCHEMA = 1


class Store:
    """Writes the records when something changed, before the call that changed it is answered."""

    def __init__(self, path: str, records: Callable[[], Iterable[str]]) -> None:
        self._path = path
        self._records = records
        self._dirty = False

    def read(self) -> list[dict[str, Any]]:
        """The records of an earlier life, if there was one. ValueError when they are bad."""
        if not self._path:
            return []
        try:
            with open(self._path, encoding="utf-8") as file:
                document = json.load(file)
        except FileNotFoundError:
            return []
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"{self._path}: not a state file of schema {SCHEMA}")
        records: list[dict[str, Any]] = document["records"]
        return records

    def changed(self) -> None:
        """Something is to be written."""
        self._dirty = True

    def settle(self) -> None:
        """Write what changed. Calls that end in the same moment share one write."""
        if not self._dirty or not self._path:
            return
        self._dirty = False
        text = f'{{"schema":{SCHEMA},"records":[\n' + ",\n".join(self._records()) + "\n]}\n"
        temporary = f"{self._path}.new"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, self._path)

    def tidy(self) -> None:
        """Remove what a kill in the middle of a write has left."""
        if self._path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._path}.new")
