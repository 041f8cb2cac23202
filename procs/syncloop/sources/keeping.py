"""The last good version of each manifest: a typo in a file does not end the pod that runs from it.

A Go kubelet forgets the pod of a file that it can no longer read, and ends it. Here the pod goes
on as it was until the file is mended or removed; the problem says so. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubelet.api.pod import Pod
from procs.syncloop.sources.changes import Candidate
from procs.syncloop.sources.manifest import Parsed

MAX_EACH: Final = 20  # problems of one manifest that are told; the rest is counted


@dataclass(frozen=True, slots=True)
class Kept:
    """What a source wants with its broken manifests as they last were good."""

    candidates: tuple[Candidate, ...] = ()
    good: Mapping[str, Pod] = field(default_factory=dict)  # origin -> pod
    problems: tuple[str, ...] = ()


def keep(source: str, parsed: Iterable[Parsed], good: Mapping[str, Pod]) -> Kept:
    """Return the pods of all manifests; ``good`` has their last good versions, by origin."""
    candidates = []
    problems: list[str] = []
    for one in parsed:
        pod = one.pod or good.get(one.origin)
        if pod is not None:
            candidates.append(Candidate(source, one.origin, pod))
        problems += _sentences(one, pod)
    return Kept(tuple(candidates), {c.origin: c.pod for c in candidates}, tuple(problems))


def _sentences(one: Parsed, pod: Pod | None) -> list[str]:
    said = [f"{one.origin}: {problem}" for problem in one.problems[:MAX_EACH]]
    if len(one.problems) > MAX_EACH:
        said.append(f"{one.origin}: {len(one.problems) - MAX_EACH} more problems")
    if one.problems and one.pod is None and pod is not None:
        said.append(
            f"{one.origin}: pod {pod} keeps running as it was until this is mended or removed"
        )
    return said + [f"{one.origin}: warning: {warning}" for warning in one.warnings[:MAX_EACH]]
