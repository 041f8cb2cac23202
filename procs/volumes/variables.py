"""Files of variables that a container of a pod writes for another (P-174).

A line is ``NAME='value'``: the value stands between single quotes, is taken as it is and may go
over several lines. Nothing but a comment may follow it. Empty lines and comments are passed over.
A space behind the equals sign ends the assignment as it does in a shell: the value is empty. The
first line for a name counts, and nothing behind it is looked at.

Only the standard library: it runs in processes of single operations.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from procs.volumes import walk
from procs.volumes.errors import VolumeError

LIMIT: Final = 1 << 20  # bytes: as much as a config map can have
_SPACE: Final = " \t"


def value_in(text: str, key: str) -> str | None:
    """Return the value of a variable; None: there is none. ValueError says which line is wrong."""
    for name, value in _assignments(text):
        if name == key:
            return value
    return None


def read_key(root: str, path: str, key: str) -> str | None:
    """Return the value of a variable in a file of a volume; None: no such one, or no such file.

    A VolumeError says why it cannot be read: who writes the volume may have put anything there,
    but a link may not lead out of the volume.
    """
    try:
        return value_in(_text(root, path), key)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise VolumeError(err.strerror or str(err)) from None
    except ValueError as err:  # not UTF-8, or not a variable
        raise VolumeError(str(err)) from None


def _text(root: str, path: str) -> str:
    with walk.opened(root, path) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise VolumeError("it is not a file")
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise VolumeError(f"it has more than {LIMIT} bytes")
    return data.decode()


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    lines = enumerate((line.removesuffix("\r") for line in text.split("\n")), start=1)
    for number, line in lines:
        line = line.lstrip(_SPACE)  # noqa: PLW2901 - what stands before a name is nothing
        if not line or line.startswith("#"):
            continue
        name, equals, rest = line.partition("=")
        _check_name(number, name, equals)
        if rest.startswith((" ", "\t")):
            yield name, ""
        elif not rest.startswith("'"):
            raise ValueError(f"line {number}: the value must be enclosed in single quotes")
        else:
            yield name, _quoted(number, rest[1:], lines)


def _check_name(number: int, name: str, equals: str) -> None:
    if not equals:
        raise ValueError(f"line {number}: '=' is missing")
    if not name:
        raise ValueError(f"line {number}: the variable has no name")
    if name.endswith((" ", "\t")):
        raise ValueError(f"line {number}: there must be no space before '='")


def _quoted(first: int, rest: str, lines: Iterator[tuple[int, str]]) -> str:
    """Return a value up to its closing quote, which may be some lines further on."""
    value, number = "", first
    while "'" not in rest:
        value += rest + "\n"
        number, rest = next(lines, (0, ""))
        if not number:
            raise ValueError(f"line {first}: the single quote is not closed")
    last, _, behind = rest.partition("'")
    behind = behind.lstrip(_SPACE)
    if behind and not behind.startswith("#"):
        raise ValueError(f"line {number}: nothing but a comment may follow the closing quote")
    return value + last
