"""Comparing what was wanted with what is wanted now: pure functions over sets of pods (P-1, P-2).

Two questions are answered here. Which of the candidates of all sources are taken, if some have
the same name or UID; and what happened to the pods of one source since the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kubelet import times
from kubelet.api.pod import Pod
from kubelet.pods.rows import API
from procs.syncloop.sources.changes import LOCAL_ANNOTATIONS, SEEN, SOURCE, Candidate, Change, Op

# What ends makes room before anything begins.
_ORDER: Final = (Op.REMOVE, Op.ADD, Op.UPDATE, Op.DELETE, Op.RECONCILE)


Holder = tuple[str, str]  # source and origin


@dataclass(frozen=True, slots=True)
class Settled:
    """The candidates that are taken, who has which name, and a sentence for each refused one."""

    chosen: tuple[Candidate, ...] = ()
    holders: Mapping[str, Holder] = field(default_factory=dict)  # by full name
    problems: tuple[str, ...] = ()


def settle(
    candidates: Iterable[Candidate],
    holders: Mapping[str, Holder],
    silent: frozenset[str] = frozenset(),
) -> Settled:
    """Take one candidate for each name and each UID: who had it before, else who comes first.

    The pod that runs stays when somebody adds a second one of its name under a file name that
    sorts before: a mistake in one file does not end the pod of another. A name whose holder is of
    a source that has not said anything yet (``silent``) is given to nobody else until it does.
    Pods of the API server have no quarrel about names: it gives each once, and one whose name is
    taken here waits for its turn (P-15).
    """
    pending = list(candidates)
    reserved = {name: who for name, who in holders.items() if who[0] in silent}
    held = [c for c in pending if holders.get(c.pod.full_name) == _holder(c)]
    others = [c for c in pending if holders.get(c.pod.full_name) != _holder(c)]
    by_name: dict[str, Candidate] = {}
    by_uid: dict[str, Candidate] = {}
    problems = []
    for one in (*held, *others):
        named = one.source != API
        taken = by_name.get(one.pod.full_name) if named else None
        taken = taken or by_uid.get(one.pod.uid)
        if taken is not None:
            problems.append(_refusal(one, taken))
        elif not named:
            by_uid[one.pod.uid] = one
        elif one.pod.full_name not in reserved:
            by_name[one.pod.full_name] = by_uid[one.pod.uid] = one
    kept = {id(one) for one in by_uid.values()}
    return Settled(
        tuple(one for one in pending if id(one) in kept),
        reserved | {name: _holder(one) for name, one in by_name.items()},
        tuple(problems),
    )


def _holder(candidate: Candidate) -> Holder:
    return candidate.source, candidate.origin


def _refusal(late: Candidate, taken: Candidate) -> str:
    same_name = late.pod.full_name == taken.pod.full_name
    what = f"metadata.name: pod {late.pod}" if same_name else f"metadata.uid: {late.pod.uid!r}"
    return f"{late.origin}: {what} is already given by {taken.origin}, which stays in force"


@dataclass(frozen=True, slots=True)
class Compared:
    """The pods of a source as they are known from now on, and what changed."""

    pods: Mapping[str, Pod] = field(default_factory=dict)  # by uid
    changes: tuple[Change, ...] = ()


def compare(
    source: str, old: Mapping[str, Pod], new: Iterable[Pod], seen: Callable[[str], str]
) -> Compared:
    """Return what happened to the pods of one source; ``seen`` tells when a UID was first seen."""
    known: dict[str, Pod] = {}
    changes: list[Change] = []
    for pod in new:
        op, merged = _merged(source, old.get(pod.uid), pod, seen)
        known[pod.uid] = merged
        if op is not None:
            changes.append(Change(op, merged, source))
    changes += [Change(Op.REMOVE, pod, source) for uid, pod in old.items() if uid not in known]
    return Compared(known, tuple(in_order(changes)))


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Return changes as they are to be handled: by kind, those added by creation time (P-9)."""
    return sorted(changes, key=lambda c: (_ORDER.index(c.op), _created(c)))


def _created(change: Change) -> int:
    if change.op is not Op.ADD:
        return 0
    try:
        return times.to_ns(change.pod.metadata.creation_timestamp)
    except ValueError:  # nobody who validates lets it in; it sorts as one without
        return 0


def _merged(
    source: str, old: Pod | None, new: Pod, seen: Callable[[str], str]
) -> tuple[Op | None, Pod]:
    """Return what happened to one pod, and the pod as it is known from now on."""
    if old is None:
        first = new.metadata.annotations.get(SEEN) or seen(new.uid)
        return Op.ADD, _noted(new, source, first)
    if differ(old, new):
        op = Op.DELETE if new.metadata.deletion_timestamp else Op.UPDATE
        return op, _keep_notes(old, new)
    if old.status != new.status:
        merged = replace(old, status=new.status)
        return Op.RECONCILE, merged
    return None, old


def differ(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod differ in what is to be acted on (P-2)."""
    a, b = old.metadata, new.metadata
    return (
        old.spec != new.spec
        or a.labels != b.labels
        or a.deletion_timestamp != b.deletion_timestamp
        or a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        or plain_annotations(old) != plain_annotations(new)
    )


def plain_annotations(pod: Pod) -> dict[str, str]:
    """Return a pod's annotations without the node's own notes."""
    return {k: v for k, v in pod.metadata.annotations.items() if k not in LOCAL_ANNOTATIONS}


def _noted(pod: Pod, source: str, seen: str) -> Pod:
    annotations = {**pod.metadata.annotations, SOURCE: source, SEEN: seen}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def _keep_notes(old: Pod, new: Pod) -> Pod:
    """Return the new version with the node's notes of the old one."""
    notes = {k: v for k, v in old.metadata.annotations.items() if k in LOCAL_ANNOTATIONS}
    annotations = {**plain_annotations(new), **notes}
    return replace(new, metadata=replace(new.metadata, annotations=annotations))
