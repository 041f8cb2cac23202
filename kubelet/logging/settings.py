"""What the logging flags and the ``logging`` section of the configuration say, in typed form."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Final

FORMATS: Final = ("text", "json")


@dataclass(frozen=True, slots=True)
class Settings:
    """How and how much to log."""

    format: str = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    split_stream: bool = False  # info to standard output, the rest to standard error
    info_buffer: int = 0  # bytes of info lines that may wait for a flush
    flush_seconds: float = 5.0


def parse_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    """``pattern=N,...``: a level of its own for the modules whose file name matches."""
    pairs = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        pattern, equals, level = part.partition("=")
        if not equals or not pattern or not level.isdigit():
            raise ValueError(f"{part!r} is not of the form pattern=N")
        pairs.append((pattern, int(level)))
    return tuple(pairs)


def level_for(settings: Settings, module: str) -> int:
    """The verbosity in force for a module, by the last part of its dotted name."""
    name = module.rpartition(".")[2]
    for pattern, level in settings.vmodule:
        if fnmatch.fnmatchcase(name, pattern):
            return level
    return settings.verbosity
