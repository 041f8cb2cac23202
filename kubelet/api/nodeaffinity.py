"""Whether a node is one that a selector of nodes selects. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kubelet.api.scheduling import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm


def matches(
    selector: NodeSelector, labels: Mapping[str, str], fields: Mapping[str, str] | None = None
) -> bool:
    """Tell whether one of the terms selects a node with these labels and fields."""
    return any(_selects(term, labels, fields or {}) for term in selector.node_selector_terms)


def _selects(term: NodeSelectorTerm, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """Tell whether all of a term holds; one that asks for nothing holds nowhere."""
    if not term.match_expressions and not term.match_fields:
        return False
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
