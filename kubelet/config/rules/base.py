"""What a rule is: the fields and flags it looks at, and what it finds wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubelet import durations
from kubelet.config import gates

# Field or flag at fault (with a path below it, if any), its value, and what is allowed.
Fault = tuple[str, Any, str]


@dataclass(frozen=True, slots=True)
class View:
    """The whole configuration, as rules see it."""

    values: dict[str, Any]
    flags: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.flags[name[2:]] if name.startswith("--") else self.values[name]

    def gate(self, name: str) -> bool:
        """Tell whether a feature gate is on."""
        return gates.enabled(name, self.values["featureGates"])

    def time(self, name: str) -> int:
        """Return a duration in nanoseconds."""
        return durations.parse(self[name])


@dataclass(frozen=True, slots=True)
class Rule:
    """A check that looks at several fields, or deep into one."""

    reads: tuple[str, ...]  # the rule is passed over when one of these could not be read
    find: Callable[[View], Iterator[Fault]]


def rule(*reads: str) -> Callable[[Callable[[View], Iterator[Fault]]], Rule]:
    """Make a rule of a function."""
    return lambda find: Rule(reads, find)
