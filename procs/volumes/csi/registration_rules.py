"""What is asked of a plugin that wants to register, and when it is tried again. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from procs.volumes.csi.driver import path_problem
from procs.volumes.csi.errors import RegistrationError, TakenError

CSI: Final = "CSIPlugin"
FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 122.0

Version: TypeAlias = tuple[int, ...]

# A driver's name is a directory's name and a key of an annotation: the API allows no other (lower
# case letters or not, at most 63 characters, like a DNS name).
_PART: Final = "[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_LONGEST_NAME: Final = 63
# At least two numbers; what follows them does not count.
_VERSION: Final = re.compile(r"\s*v?((?:0|[1-9][0-9]*)(?:\.[0-9]+)+)")
_MAJOR: Final = 1


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """What a plugin says of itself."""

    type: str
    name: str
    endpoint: str = ""
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """A CSI driver that may be registered: there is nothing wrong with what it says."""

    name: str
    endpoint: str
    version: Version


def offer(info: PluginInfo, socket: str) -> Offer:
    """Return what a plugin offers; RegistrationError says what is wrong with it.

    A plugin without an endpoint serves at the socket that it has registered with.
    """
    if info.type != CSI:
        raise RegistrationError(
            f"plugin type {info.type!r}: this kubelet has no handler for it, only for {CSI!r}",
            again=False,
        )
    endpoint = (info.endpoint or socket).removeprefix("unix://")
    problem = path_problem(endpoint)
    if problem:
        raise RegistrationError(f"endpoint {info.endpoint!r}: {problem}")
    return Offer(_name(info.name), endpoint, highest(info.versions))


def _name(name: str) -> str:
    if not name:
        raise RegistrationError("name: the plugin does not say its driver's name")
    if len(name) > _LONGEST_NAME:
        found = f"it has {len(name)} characters, {_LONGEST_NAME} are allowed"
        raise RegistrationError(f"name {name!r}: {found}")
    if _NAME.fullmatch(name) is None:
        allowed = "letters, digits, '-' and '.', with a letter or digit at each end of a part"
        raise RegistrationError(f"name {name!r}: it may hold {allowed}")
    return name


def highest(versions: Sequence[str]) -> Version:
    """Return the highest version of CSI that both sides know: 1.x (L-41)."""
    if not versions:
        raise RegistrationError("supported_versions: the plugin names none, 1.x is supported")
    known = [found for found in map(_version, versions) if found and found[0] <= _MAJOR]
    best = max(known, default=(0,))
    if best[0] != _MAJOR:
        raise RegistrationError(f"supported_versions {list(versions)}: only 1.x is supported")
    return best


def _version(text: str) -> Version:
    found = _VERSION.match(text)
    numbers = [int(number) for number in found[1].split(".")] if found else []
    while len(numbers) > 2 and numbers[-1] == 0:
        numbers.pop()  # 1.2.0 is 1.2
    return tuple(numbers)


def check_free(wanted: Offer, holder: tuple[str, Version] | None, socket: str) -> None:
    """See that a driver's name is free, or held by another socket with a lower version of CSI.

    ``holder`` is the socket that it was registered with and its version; TakenError: it stays so.
    """
    if holder is None or holder[0] == socket or holder[1] < wanted.version:
        return
    version = ".".join(map(str, holder[1]))
    raise TakenError(
        f"another plugin has registered driver {wanted.name!r}, with version {version} "
        f"at {holder[0]}, and {'.'.join(map(str, wanted.version))} is not higher",
        wanted.name,
    )


def wait_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row."""
    return float(min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 16)))
