"""Pods whose handling keeps killing processes are left alone, so that the node is not. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DEATHS: Final = 3
WINDOW: Final = 3600.0  # seconds in which these deaths must fall


@dataclass(frozen=True, slots=True)
class Case:
    """One pod's record with one kind of process."""

    pod: str
    kind: str
    deaths: int
    first_unix: float
    since_unix: float = 0.0  # when it was quarantined; 0 = it is not

    @property
    def quarantined(self) -> bool:
        """Whether it is left alone now."""
        return self.since_unix > 0


def blame(cases: tuple[Case, ...], pod: str, kind: str, now_unix: float) -> tuple[Case, ...]:
    """Count one more death of ``kind`` while it was handling ``pod``."""
    others = tuple(c for c in cases if (c.pod, c.kind) != (pod, kind) and _fresh(c, now_unix))
    mine = [c for c in cases if (c.pod, c.kind) == (pod, kind) and _fresh(c, now_unix)]
    case = mine[0] if mine else Case(pod, kind, 0, now_unix)
    case = replace(case, deaths=case.deaths + 1)
    if case.deaths >= DEATHS and not case.quarantined:
        case = replace(case, since_unix=now_unix)
    return (*others, case)


def release(cases: tuple[Case, ...], pod: str) -> tuple[Case, ...]:
    """Forget everything held against a pod."""
    return tuple(c for c in cases if c.pod != pod)


def pods(cases: tuple[Case, ...], kind: str) -> tuple[str, ...]:
    """The pods that this kind of process must leave alone."""
    return tuple(sorted(c.pod for c in cases if c.kind == kind and c.quarantined))


def _fresh(case: Case, now_unix: float) -> bool:
    return case.quarantined or now_unix - case.first_unix < WINDOW
