"""Whether a node is one that a pod asks for: nodeSelector and required node affinity (A-4)."""

from __future__ import annotations

from collections.abc import Mapping

from kubelet.api.pod import Pod
from kubelet.api.scheduling import NodeSelectorRequirement, NodeSelectorTerm


def matches(pod: Pod, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod may run on a node of this name and with these labels."""
    spec = pod.spec
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = (
        affinity.required_during_scheduling_ignored_during_execution
        if affinity is not None
        else None
    )
    if required is None:
        return True
    return any(_term(term, node, labels) for term in required.node_selector_terms)


def _term(term: NodeSelectorTerm, node: str, labels: Mapping[str, str]) -> bool:
    """Whether all of a term holds; one without requirements holds nowhere."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node}
    return all(_holds(one, labels) for one in term.match_expressions) and all(
        _holds(one, fields) for one in term.match_fields
    )


def _holds(one: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case "In":
            return value in one.values
        case "NotIn":
            return value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, one)
        case _:
            return False


def _compares(value: str | None, one: NodeSelectorRequirement) -> bool:
    try:
        found, (wanted,) = int(value or ""), map(int, one.values)
    except ValueError:
        return False  # not a number, or not one number
    return found > wanted if one.operator == "Gt" else found < wanted
