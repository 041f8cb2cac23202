"""Where a pod may run: tolerations, affinities, spreading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.meta import LabelSelector, LabelSelectorRequirement
from kubelet.api.scheduling import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from kubelet.api.validation.names import (
    Rule,
    dns_label,
    dns_subdomain,
    each,
    label_map,
    label_value,
    one_of,
    qualified_name,
)
from kubelet.api.validation.texts import POSITIVE, duplicate, forbidden, invalid, required

_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT: Final = "must be in the range 1-100"
_OPERATOR: Final = "not a valid selector operator"


def label_selector(path: str, selector: LabelSelector | None) -> Iterator[str]:
    """Check a selector of labels."""
    if selector is None:
        return
    yield from label_map(f"{path}.matchLabels", selector.match_labels)
    for i, requirement in enumerate(selector.match_expressions):
        yield from _label_requirement(f"{path}.matchExpressions[{i}]", requirement)


def _label_requirement(path: str, requirement: LabelSelectorRequirement) -> Iterator[str]:
    if requirement.operator in {"In", "NotIn"}:
        if not requirement.values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{path}.values", detail)
    elif requirement.operator in {"Exists", "DoesNotExist"}:
        if requirement.values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{path}.values", detail)
    else:
        yield invalid(f"{path}.operator", requirement.operator, _OPERATOR)
    yield from each(f"{path}.key", requirement.key, qualified_name)
    yield from _values(f"{path}.values", requirement.values, label_value)


def _values(path: str, values: tuple[str, ...], rule: Rule) -> Iterator[str]:
    for i, value in enumerate(values):
        yield from each(f"{path}[{i}]", value, rule)


def tolerations(path: str, found: tuple[Toleration, ...]) -> Iterator[str]:
    """Check which taints a pod tolerates."""
    for i, toleration in enumerate(found):
        yield from _toleration(f"{path}[{i}]", toleration)


def _toleration(path: str, toleration: Toleration) -> Iterator[str]:
    operator = toleration.operator
    if toleration.key:
        yield from each(f"{path}.key", toleration.key, qualified_name)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and'
        yield invalid(f"{path}.operator", operator, f'{detail} all keys"')
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.effect, detail)
    if operator in {"Equal", ""}:
        wrong = "; ".join(label_value(toleration.value))
    else:
        yield from one_of(f"{path}.operator", operator, ("Equal", "Exists"))
        exists = operator == "Exists" and toleration.value
        wrong = "value must be empty when `operator` is 'Exists'" if exists else ""
    if wrong:
        yield invalid(f"{path}.operator", toleration.value, wrong)
    if toleration.effect:
        yield from one_of(f"{path}.effect", toleration.effect, _EFFECTS)


def affinity(path: str, found: Affinity | None) -> Iterator[str]:
    """Check which nodes and which neighbours a pod wants."""
    if found is None:
        return
    if found.node_affinity is not None:
        yield from _node_affinity(f"{path}.nodeAffinity", found.node_affinity)
    if found.pod_affinity is not None:
        yield from _pod_affinity(f"{path}.podAffinity", found.pod_affinity)
    if found.pod_anti_affinity is not None:
        yield from _pod_affinity(f"{path}.podAntiAffinity", found.pod_anti_affinity)


def _node_affinity(path: str, found: NodeAffinity) -> Iterator[str]:
    selector = found.required_during_scheduling_ignored_during_execution
    if selector is not None:
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not selector.node_selector_terms:
            yield required(where, "must have at least one node selector term")
        for i, term in enumerate(selector.node_selector_terms):
            yield from _node_term(f"{where}[{i}]", term)
    preferred = found.preferred_during_scheduling_ignored_during_execution
    for i, wish in enumerate(preferred):
        where = f"{path}.{_PREFERRED}[{i}]"
        yield from _weight(where, wish.weight)
        # A wish for a value that no label has is never granted, but it is no error.
        term = wish.preference or NodeSelectorTerm()
        yield from _node_term(f"{where}.preference", term, values=False)


def _weight(path: str, weight: int | None) -> Iterator[str]:
    if not 1 <= (weight or 0) <= 100:
        yield invalid(f"{path}.weight", weight or 0, _WEIGHT)


def _node_term(path: str, term: NodeSelectorTerm, *, values: bool = True) -> Iterator[str]:
    for i, requirement in enumerate(term.match_expressions):
        where = f"{path}.matchExpressions[{i}]"
        yield from _node_requirement(where, requirement)
        if values:
            yield from _values(f"{where}.values", requirement.values, label_value)
    for i, requirement in enumerate(term.match_fields):
        yield from _node_field(f"{path}.matchFields[{i}]", requirement)


def _node_requirement(path: str, requirement: NodeSelectorRequirement) -> Iterator[str]:
    count, operator = len(requirement.values), requirement.operator
    if operator in {"In", "NotIn"}:
        if not count:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{path}.values", detail)
    elif operator in {"Exists", "DoesNotExist"}:
        if count:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{path}.values", detail)
    elif operator in {"Gt", "Lt"}:
        if count != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(f"{path}.values", detail)
    else:
        yield invalid(f"{path}.operator", operator, _OPERATOR)
    yield from each(f"{path}.key", requirement.key, qualified_name)


def _node_field(path: str, requirement: NodeSelectorRequirement) -> Iterator[str]:
    if requirement.operator not in {"In", "NotIn"}:
        yield invalid(f"{path}.operator", requirement.operator, _OPERATOR)
    elif len(requirement.values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", detail)
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
    else:
        yield from _values(f"{path}.values", requirement.values, dns_subdomain)


def _pod_affinity(path: str, found: PodAffinity | PodAntiAffinity) -> Iterator[str]:
    for i, term in enumerate(found.required_during_scheduling_ignored_during_execution):
        yield from _pod_term(f"{path}.{_REQUIRED}[{i}]", term)
    for i, wish in enumerate(found.preferred_during_scheduling_ignored_during_execution):
        where = f"{path}.{_PREFERRED}[{i}]"
        yield from _weight(where, wish.weight)
        term = wish.pod_affinity_term or PodAffinityTerm()
        yield from _pod_term(f"{where}.podAffinityTerm", term)


def _pod_term(path: str, term: PodAffinityTerm) -> Iterator[str]:
    yield from label_selector(f"{path}.labelSelector", term.label_selector)
    yield from label_selector(f"{path}.namespaceSelector", term.namespace_selector)
    for i, name in enumerate(term.namespaces):
        yield from each(f"{path}.namespaces[{i}]", name, dns_label)
    keys = {"matchLabelKeys": term.match_label_keys, "mismatchLabelKeys": term.mismatch_label_keys}
    for key, labels in keys.items():
        if labels and term.label_selector is None:
            yield _needs_selector(f"{path}.{key}")
        else:
            yield from _values(f"{path}.{key}", labels, qualified_name)
    for i, label in enumerate(term.match_label_keys):
        if label in term.mismatch_label_keys:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{i}]", label, detail)
    if term.topology_key:
        yield from each(f"{path}.topologyKey", term.topology_key, qualified_name)
    else:
        yield required(f"{path}.topologyKey", "can not be empty")


def _needs_selector(path: str) -> str:
    return forbidden(path, "must not be specified when labelSelector is not set")


def spreading(path: str, constraints: tuple[TopologySpreadConstraint, ...]) -> Iterator[str]:
    """Check how a pod and its like are spread over the nodes."""
    seen: set[tuple[str, str]] = set()
    for i, one in enumerate(constraints):
        where = f"{path}[{i}]"
        if (one.max_skew or 0) <= 0:
            yield invalid(f"{where}.maxSkew", one.max_skew or 0, POSITIVE)
        if not one.topology_key:
            yield required(f"{where}.topologyKey", "can not be empty")
        actions = ("DoNotSchedule", "ScheduleAnyway")
        yield from one_of(f"{where}.whenUnsatisfiable", one.when_unsatisfiable, actions)
        kind = (one.topology_key, one.when_unsatisfiable)
        if kind in seen:
            shown = f"{{{kind[0]}, {kind[1]}}}"
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", shown)
        seen.add(kind)
        yield from _domains(f"{where}.minDomains", one)
        for key, value in (
            ("nodeAffinityPolicy", one.node_affinity_policy),
            ("nodeTaintsPolicy", one.node_taints_policy),
        ):
            if value:
                yield from one_of(f"{where}.{key}", value, ("Honor", "Ignore"))
        yield from _spread_keys(f"{where}.matchLabelKeys", one)
        yield from label_selector(f"{where}.labelSelector", one.label_selector)


def _domains(path: str, constraint: TopologySpreadConstraint) -> Iterator[str]:
    count = constraint.min_domains
    if count is None:
        return
    if count <= 0:
        yield invalid(path, count, POSITIVE)
    action = constraint.when_unsatisfiable
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(path, count, detail)


def _spread_keys(path: str, constraint: TopologySpreadConstraint) -> Iterator[str]:
    selector, keys = constraint.label_selector, constraint.match_label_keys
    if keys and selector is None:
        yield _needs_selector(path)
    selected = {*selector.match_labels} if selector else set()
    selected |= {one.key for one in selector.match_expressions} if selector else set()
    for i, key in enumerate(keys):
        yield from each(f"{path}[{i}]", key, qualified_name)
        if key in selected:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{path}[{i}]", key, detail)


def gates(path: str, found: tuple[PodSchedulingGate, ...]) -> Iterator[str]:
    """Check what holds a pod back from being scheduled."""
    seen: set[str] = set()
    for i, gate in enumerate(found):
        yield from each(f"{path}[{i}]", gate.name, qualified_name)
        if gate.name in seen:
            yield duplicate(f"{path}[{i}]", gate.name)
        seen.add(gate.name)
