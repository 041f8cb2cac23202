"""What becomes of a submitted document: a new pod, another version of one, or its end. Pure.

The rules are those of the API server for a client that creates, replaces and deletes pods.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from kubelet import times
from kubelet.api.defaults import with_defaults
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.pods.rows import LOCAL
from procs.syncloop.sources import document, manifest, updates
from procs.syncloop.sources.changes import LOCAL_ANNOTATIONS, SEEN, SOURCE, seen_text
from procs.syncloop.sources.manifest import DEFAULT_NAMESPACE
from procs.syncloop.sources.merge import plain_annotations

DEFAULT_GRACE: Final = 30
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words come out by chance
_SUFFIX: Final = 5
_LONGEST: Final = 63 - _SUFFIX  # of what a name is made from


class InvalidError(ValueError):
    """A document cannot be accepted; its text has every reason."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A pod as it was submitted, without what only the node decides."""

    pod: Pod
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a document is accepted."""

    node: str
    wall_ns: int


def read(data: bytes, node: str) -> Submission:
    """Return the pod in a document; InvalidError if there is none for this node."""
    try:
        found = document.read(data)
    except document.UnreadableError as err:
        raise InvalidError(f"the document cannot be read: {err}") from None
    pod, problems, warnings = manifest.decoded(found.value)
    if pod is None:
        raise InvalidError(f"the document is not a pod: {'; '.join(problems)}")
    if pod.spec.node_name not in ("", node):
        raise InvalidError(
            f"spec.nodeName: Invalid value: {pod.spec.node_name!r}: this node is {node!r}"
        )
    stripped = replace(
        pod,
        metadata=_given(pod.metadata),
        spec=replace(pod.spec, node_name=node),
        status=PodStatus(),
    )
    return Submission(stripped, (*found.warnings, *warnings, *_odd(pod.metadata)))


def _given(metadata: ObjectMeta) -> ObjectMeta:
    """Return what of an object's metadata is its owner's to say."""
    plain = {k: v for k, v in metadata.annotations.items() if k not in LOCAL_ANNOTATIONS}
    name = metadata.name
    if not name and metadata.generate_name:
        suffix = "".join(random.choices(_LETTERS, k=_SUFFIX))  # noqa: S311 - a name, not a secret
        name = metadata.generate_name[:_LONGEST] + suffix
    return ObjectMeta(
        annotations=plain,
        generate_name=metadata.generate_name,
        labels=metadata.labels,
        name=name,
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        owner_references=metadata.owner_references,
        uid=metadata.uid,
    )


def _odd(metadata: ObjectMeta) -> list[str]:
    given = sorted(LOCAL_ANNOTATIONS & metadata.annotations.keys())
    warnings = [f"metadata.annotations[{key}]: is set by the kubelet itself" for key in given]
    if metadata.finalizers:
        warnings.append("metadata.finalizers: has no effect on a pod without an API server")
    return warnings


def created(given: Submission, uid: str, moment: Moment) -> Pod:
    """Return the new pod of a submission; ``uid`` is for one that brings none."""
    notes = {SOURCE: LOCAL, SEEN: seen_text(moment.wall_ns)}
    metadata = replace(
        given.pod.metadata,
        uid=given.pod.uid or uid,
        creation_timestamp=times.to_text(moment.wall_ns),
        generation=1,
        annotations={**given.pod.metadata.annotations, **notes},
    )
    pod = replace(given.pod, metadata=metadata, status=PodStatus(phase="Pending"))
    return _valid(with_defaults(pod))


def updated(given: Submission, old: Pod) -> Pod:
    """Return the next version of a pod: the same object if nothing changes."""
    if old.metadata.deletion_timestamp:
        raise InvalidError(f"pod {old} is being deleted: submit it again when it is gone")
    if given.pod.uid not in ("", old.uid):
        raise InvalidError(
            f"metadata.uid: Invalid value: {given.pod.uid!r}: pod {old} has {old.uid!r}"
        )
    notes = {k: v for k, v in old.metadata.annotations.items() if k in LOCAL_ANNOTATIONS}
    metadata = replace(
        old.metadata,
        labels=given.pod.metadata.labels,
        annotations={**given.pod.metadata.annotations, **notes},
    )
    wanted = replace(updates.completed(given.pod, old), metadata=metadata, status=old.status)
    new = _valid(with_defaults(wanted))
    if new.spec != old.spec:
        _refuse(new, updates.problems(old.spec, new.spec))
        generation = (old.metadata.generation or 0) + 1
        return replace(new, metadata=replace(new.metadata, generation=generation))
    same = new.metadata.labels == old.metadata.labels
    return old if same and plain_annotations(new) == plain_annotations(old) else new


def deleted(old: Pod, grace: int | None, wall_ns: int) -> Pod:
    """Return a pod that is to end; asked again, its grace can only become shorter (P-37)."""
    metadata = old.metadata
    before = metadata.deletion_grace_period_seconds
    if grace is None:
        grace = old.spec.termination_grace_period_seconds
        grace = DEFAULT_GRACE if grace is None else grace
    grace = 1 if grace < 0 else grace
    began_ns = wall_ns
    if metadata.deletion_timestamp:
        if before is not None and grace >= before:
            return old
        began_ns = times.to_ns(metadata.deletion_timestamp) - (before or 0) * 10**9
    marked = replace(
        metadata,
        deletion_timestamp=times.to_text(began_ns + grace * 10**9),
        deletion_grace_period_seconds=grace,
        generation=(metadata.generation or 0) + 1,
    )
    return replace(old, metadata=marked)


def _valid(pod: Pod) -> Pod:
    _refuse(pod, manifest.problems_of(pod))
    return pod


def _refuse(pod: Pod, problems: tuple[str, ...] | list[str]) -> None:
    if problems:
        raise InvalidError(f'Pod "{pod.name}" is invalid: {"; ".join(problems)}')
