"""What this process must still know after its own death, and nobody else needs to: ``ledger``.

How the API server is reached, so that a successor is connected within milliseconds, and what was
already said there, so that it is not said twice. It is a cache: an entry that is not there, or is
of another shape, only means work that is done again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubelet.process import Process

LEDGER: Final = "ledger"


class Ledger:
    """Plain values by key; keys are ``<part>/<what>``."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def get(self, key: str) -> Any:
        """Return a value; None if there is none."""
        return self._process.tables.value(LEDGER, key)

    def put(self, key: str, value: Any) -> None:
        """Remember a value that MessagePack can hold."""
        self._process.tables.put(LEDGER, key, value)

    def delete(self, key: str) -> None:
        """Forget a value."""
        self._process.tables.writers[LEDGER].delete(key)

    def items(self, part: str) -> Iterator[tuple[str, Any]]:
        """Return all of one part, by what follows the slash."""
        for key, value in self._process.tables.items(LEDGER):
            if key.startswith(f"{part}/"):
                yield key.removeprefix(f"{part}/"), value
