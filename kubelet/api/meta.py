"""What every object of the API has, and references between objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """``ObjectMeta`` of core/v1."""

    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    deletion_timestamp: str = ""
    finalizers: tuple[str, ...] = ()
    generate_name: str = ""
    generation: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    managed_fields: tuple[dict[str, Any], ...] = ()
    name: str = ""
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    self_link: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """``OwnerReference`` of core/v1."""

    api_version: str = ""
    block_owner_deletion: bool | None = None
    controller: bool | None = None
    kind: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """``LabelSelector`` of core/v1."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelSelectorRequirement:
    """``LabelSelectorRequirement`` of core/v1."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalObjectReference:
    """``LocalObjectReference`` of core/v1."""

    name: str = ""
