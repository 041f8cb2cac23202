"""What is held of a container after each probe of it: thresholds, holds, initial values. Pure.

A *standing* is what one probe of one container has led to so far. Results move it; nothing else
does, but for the end of the pod, which makes liveness and startup a success for good (B-6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from kubelet.pods.probes import Finding, ProbeKind, Track, Verdict

_INITIAL: Final = {  # B-3
    ProbeKind.LIVENESS: Verdict.SUCCESS,
    ProbeKind.READINESS: Verdict.FAILURE,
    ProbeKind.STARTUP: Verdict.UNKNOWN,
}


class Standing(NamedTuple):
    """Where one probe of one container stands."""

    verdict: Verdict
    streak: int = 0  # equal results in a row
    failing: bool = False  # what those results are

    @property
    def settled(self) -> bool:
        """Whether it succeeds, and is known to: then its rhythm may be shifted."""
        return self.verdict is Verdict.SUCCESS and self.streak > 0 and not self.failing


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How many equal results in a row make a verdict (B-8)."""

    success: int = 1
    failure: int = 3


def initial(kind: ProbeKind, *, started: bool = False, ready: bool = False) -> Standing:
    """Return where a probe begins with a container of which the status says this much.

    A container that had started, or was ready, before anybody here knew of it stays so until a
    probe says otherwise: a kubelet's new start is nothing that pods should notice (B-7).
    """
    known = (kind is ProbeKind.STARTUP and started) or (kind is ProbeKind.READINESS and ready)
    return Standing(Verdict.SUCCESS if known else _INITIAL[kind])


def remembered(kind: ProbeKind, finding: Finding, track: Track) -> Standing:
    """Return where a predecessor's probe stood; it may have been killed between its two rows."""
    standing = Standing(finding.verdict, track.streak, track.failing)
    return Standing(finding.verdict) if is_held(kind, standing) else standing


def after(kind: ProbeKind, standing: Standing, limits: Thresholds, *, failed: bool) -> Standing:
    """Return where a probe stands after one more result (B-8); rounds without one do not count."""
    streak = standing.streak + 1 if failed == standing.failing else 1
    if streak < (limits.failure if failed else limits.success):
        return Standing(standing.verdict, streak, failed)
    found = Standing(Verdict.FAILURE if failed else Verdict.SUCCESS, streak, failed)
    return Standing(found.verdict, 0, failed) if is_held(kind, found) else found


def ended(kind: ProbeKind, standing: Standing) -> Standing:
    """Return where a probe stands when its pod ends (B-6): only readiness goes on."""
    return standing if kind is ProbeKind.READINESS else Standing(Verdict.SUCCESS)


def is_held(kind: ProbeKind, standing: Standing) -> bool:
    """Tell whether nothing more is to be asked of this container (B-9)."""
    if kind is ProbeKind.STARTUP:
        return standing.verdict is not Verdict.UNKNOWN
    return kind is ProbeKind.LIVENESS and standing.verdict is Verdict.FAILURE


def waits(kind: ProbeKind, startup: Standing | None) -> bool:
    """Tell whether a probe waits for its container to have started (B-5)."""
    if kind is ProbeKind.STARTUP or startup is None:
        return False
    return startup.verdict is not Verdict.SUCCESS
