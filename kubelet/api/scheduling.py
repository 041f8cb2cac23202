"""Where a pod may run."""

from __future__ import annotations

from dataclasses import dataclass

from kubelet.api.meta import LabelSelector


@dataclass(frozen=True, slots=True)
class NodeSelectorRequirement:
    """``NodeSelectorRequirement`` of core/v1."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """``NodeSelectorTerm`` of core/v1."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """``NodeSelector`` of core/v1."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredSchedulingTerm:
    """``PreferredSchedulingTerm`` of core/v1."""

    preference: NodeSelectorTerm | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """``NodeAffinity`` of core/v1."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """``PodAffinityTerm`` of core/v1."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""


@dataclass(frozen=True, slots=True)
class WeightedPodAffinityTerm:
    """``WeightedPodAffinityTerm`` of core/v1."""

    pod_affinity_term: PodAffinityTerm | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """``PodAffinity`` of core/v1."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAntiAffinity:
    """``PodAntiAffinity`` of core/v1."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Affinity:
    """``Affinity`` of core/v1."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


@dataclass(frozen=True, slots=True)
class Toleration:
    """``Toleration`` of core/v1."""

    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: int | None = None
    value: str = ""


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """``TopologySpreadConstraint`` of core/v1."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    topology_key: str = ""
    when_unsatisfiable: str = ""


@dataclass(frozen=True, slots=True)
class PodSchedulingGate:
    """``PodSchedulingGate`` of core/v1."""

    name: str = ""
