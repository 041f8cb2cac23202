"""Files of variables that a pod's container writes for another (P-174).

A line is ``NAME='value'``: the value stands between single quotes, is taken as it is and may go
over several lines. Empty lines and comments are passed over; the last of several lines for a name
counts.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from procs.syncloop.configs import walk
from procs.syncloop.configs.errors import ConfigError

LIMIT: Final = 64 * 1024

# Space or comment, or an assignment with nothing but a comment behind it.
_LINE: Final = re.compile(
    r"[ \t\r]*(?:#[^\n]*)?(?:\n|\Z)"
    r"|[ \t]*(?P<name>[^\s=#'][^\s=']*)='(?P<value>[^']*)'[ \t\r]*(?:[ \t]#[^\n]*)?(?:\n|\Z)"
)


def parse(text: str) -> dict[str, str]:
    """Return the variables in a text; ValueError says which line is none."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LINE.match(text, at)
        if match is None:
            number = text.count("\n", 0, at) + 1
            raise ValueError(f"line {number} must have the form NAME='value'")
        if match["name"]:
            found[match["name"]] = match["value"]
        at = match.end()
    return found


def read(volume: str, path: str) -> dict[str, str]:
    """Return the variables in a file of a volume; FileNotFoundError if there is none.

    Who writes the volume may have put a link there: it may not lead out of the volume.
    """
    with walk.opened(volume, path.lstrip("/")) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ConfigError(f"environment file {path!r} is not a file")
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise ConfigError(f"environment file {path!r} has more than {LIMIT} bytes")
    try:
        return parse(data.decode())
    except ValueError as err:
        raise ConfigError(f"environment file {path!r} cannot be read: {err}") from None
