"""One manifest to static pods: decoded, given their identity, completed and validated (P-5..P-8).

A manifest is text from a file or from a URL. Whatever is wrong with one pod is said with field and
value and is nobody else's affair: the other pods of a list are not touched by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kubelet import times
from kubelet.api import codec
from kubelet.api.defaults import with_defaults
from kubelet.api.pod import Pod
from kubelet.api.scheduling import Toleration
from kubelet.api.status import PodStatus
from kubelet.api.validation import static_problems, validate_pod
from kubelet.config.errors import shown
from kubelet.pods.rows import FILE, HTTP
from procs.syncloop.sources import document
from procs.syncloop.sources.changes import HASH, LOCAL_ANNOTATIONS, SOURCE
from procs.syncloop.sources.identity import static_uid, uid_problem

DEFAULT_NAMESPACE: Final = "default"
# A pod from a file is not evicted for what was tainted later.
_STAYS: Final = Toleration(operator="Exists", effect="NoExecute")
_SAMPLE: Final = b"{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: i}]}}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of one pod's document: the pod, or why there is none."""

    origin: str
    pod: Pod | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a manifest came from, for which node."""

    source: str
    where: str  # the file's path or the URL: a part of the pods' identity
    node: str


def from_file(data: bytes, path: str, node: str) -> Parsed:
    """Return the pod in a file."""
    try:
        found = document.read(data)
    except document.UnreadableError as err:
        return Parsed(path, problems=(str(err),))
    parsed = static_pod(found.value, Place(FILE, path, node), path)
    return replace(parsed, warnings=(*found.warnings, *parsed.warnings))


def warm_up() -> None:
    """Have everything at hand that reading a manifest needs: the first one is not kept waiting."""
    from_file(_SAMPLE, "", "node")


def from_body(data: bytes, url: str, node: str, shown_url: str) -> tuple[Parsed, ...]:
    """Return the pods in what a URL gave, a Pod or a list; UnreadableError if it is neither."""
    found = document.read(data)
    value = found.value
    kind = value.get("kind") if isinstance(value, dict) else None
    place = Place(HTTP, url, node)
    if kind not in ("PodList", "List"):
        if kind != "Pod":
            raise document.UnreadableError(_kind_problem(value, '"Pod", "PodList" or "List"'))
        parsed = static_pod(value, place, f"{shown_url}#{_named(value)}")
        return (replace(parsed, warnings=(*found.warnings, *parsed.warnings)),)
    if value.get("apiVersion") != "v1":
        raise document.UnreadableError(_version_problem(value))
    items = value.get("items")
    if items is not None and not isinstance(items, list):
        raise document.UnreadableError(f"items: must be a list, not {shown(items)}")
    return _items(items or [], place, shown_url, typed=kind == "PodList")


def _items(items: list[Any], place: Place, url: str, *, typed: bool) -> tuple[Parsed, ...]:
    parsed: dict[str, Parsed] = {}
    for index, item in enumerate(items):
        value = item
        if typed and isinstance(item, dict):  # the list says what its items are
            value = {"apiVersion": "v1", "kind": "Pod", **item}
        origin = f"{url}#{_named(item) or index}"
        if origin in parsed:
            origin = f"{origin}[{index}]"
        parsed[origin] = static_pod(value, place, origin)
    return tuple(parsed.values())


def _named(value: Any) -> str:
    """Return namespace and name in a document of which nothing is known; "" if there are none."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return ""
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    return f"{namespace}/{metadata['name']}"


def static_pod(value: Any, place: Place, origin: str) -> Parsed:
    """Return the static pod in a document."""
    found, problems, warnings = decoded(value)
    if found is None:
        return Parsed(origin, None, problems, warnings)
    warnings = (*warnings, *_odd(found))
    pod = with_defaults(identified(found, place))
    problems = (*problems_of(pod), *static_problems(pod))
    return Parsed(origin, None if problems else pod, tuple(dict.fromkeys(problems)), warnings)


def decoded(value: Any) -> tuple[Pod | None, tuple[str, ...], tuple[str, ...]]:
    """Return the pod in a document as it stands there, else the problems; and the warnings."""
    if not isinstance(value, dict) or value.get("kind") != "Pod":
        return None, (_kind_problem(value, '"Pod"'),), ()
    if value.get("apiVersion") != "v1":
        return None, (_version_problem(value),), ()
    try:
        pod, warnings = codec.decode(Pod, value)
    except codec.DecodeError as err:
        return None, tuple(err.problems), ()
    return pod, (), tuple(warnings)


def problems_of(pod: Pod) -> tuple[str, ...]:
    """Return all that is wrong with a complete pod of any source."""
    problems = [uid_problem(pod.uid), *_time_problems(pod), *validate_pod(pod)]
    return tuple(problem for problem in problems if problem)


def identified(pod: Pod, place: Place) -> Pod:
    """Return a pod of a manifest with its identity on this node (P-7)."""
    uid = pod.uid or static_uid(pod, place.node, place.source, place.where)
    kept = {k: v for k, v in pod.metadata.annotations.items() if k not in LOCAL_ANNOTATIONS}
    metadata = replace(
        pod.metadata,
        uid=uid,
        name=f"{pod.name}-{place.node.lower()}" if pod.name else "",
        namespace=pod.namespace or DEFAULT_NAMESPACE,
        annotations={**kept, HASH: uid, SOURCE: place.source},
    )
    spec = replace(pod.spec, node_name=place.node)
    if place.source == FILE and _STAYS not in spec.tolerations:
        spec = replace(spec, tolerations=(*spec.tolerations, _STAYS))
    return replace(pod, metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))


def _odd(pod: Pod) -> list[str]:
    """Return what is accepted but has not the effect that its writer may think of."""
    given = sorted((LOCAL_ANNOTATIONS | {HASH}) & pod.metadata.annotations.keys())
    warnings = [f"metadata.annotations[{key}]: is set by the kubelet itself" for key in given]
    if pod.spec.priority_class_name and pod.spec.priority is None:  # P-8
        warnings.append(
            f"spec.priorityClassName: {pod.spec.priority_class_name!r} has no effect on a static "
            "pod without spec.priority"
        )
    return warnings


def _time_problems(pod: Pod) -> list[str]:
    given = {
        "creationTimestamp": pod.metadata.creation_timestamp,
        "deletionTimestamp": pod.metadata.deletion_timestamp,
    }
    return [
        f"metadata.{field}: Invalid value: {text!r}: must be a time such as 2026-01-02T03:04:05Z"
        for field, text in given.items()
        if not _is_time(text)
    ]


def _is_time(text: str) -> bool:
    try:
        times.to_ns(text)
    except (ValueError, OverflowError):
        return False
    return True


def _kind_problem(value: Any, allowed: str) -> str:
    if not isinstance(value, dict):
        return f"document: must be an object of kind {allowed}, not {shown(value)}"
    kind = value.get("kind")
    if kind is None:
        return f"kind: Required value: must be {allowed}"
    return f"kind: Invalid value: {shown(kind)}: must be {allowed}"


def _version_problem(value: dict[str, Any]) -> str:
    version = value.get("apiVersion")
    if version is None:
        return 'apiVersion: Required value: must be "v1"'
    return f'apiVersion: Invalid value: {shown(version)}: must be "v1"'
