"""The node's own resolver file, on which those of pods are based."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from procs.syncloop.configs.errors import SANDBOX, ConfigError

_LIMIT: Final = 10 << 20  # P-179
_COMMENTS: Final = ("#", ";")


@dataclass(frozen=True, slots=True)
class Resolver:
    """What a resolver file says."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def parse(text: str) -> Resolver:
    """Read a resolver file: of several search lines the last counts, as for the C library."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith(_COMMENTS):
            continue
        if words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] == "search":
            searches = tuple(_domain(word) for word in words[1:])
        elif words[0] == "options":
            options.update((word.partition(":")[0], word) for word in words[1:])
    return Resolver(tuple(servers), searches, tuple(options.values()))


def _domain(word: str) -> str:
    """A domain with and without its last dot is the same one; a dot alone is the root."""
    return word if word == "." else word.rstrip(".")


class HostResolver:
    """Reads resolver files, and reads them again only when they changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Resolver]] = {}

    def read(self, path: str) -> Resolver:
        """Return what a file says; an empty path is an empty file, ConfigError what is none."""
        if not path:
            return Resolver()
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = os.fstat(file.fileno())
                stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
                if path not in self._known or self._known[path][0] != stamp:
                    self._known[path] = (stamp, parse(_text(file.read(_LIMIT + 1))))
        except (OSError, ValueError) as err:
            why = getattr(err, "strerror", None) or err
            raise ConfigError(f"cannot read resolver file {path}: {why}", SANDBOX) from None
        return self._known[path][1]


def _text(text: str) -> str:
    if len(text) > _LIMIT:
        raise ValueError(f"it has more than {_LIMIT} bytes")
    return text


HOST: Final = HostResolver()
