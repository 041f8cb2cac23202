"""The row types of the configuration table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubelet.config.checks import Check
from kubelet.config.types import Type

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"
DEFAULT: Final = "default"  # the origin of what nobody set


@dataclass(frozen=True, slots=True)
class Field:
    """One field of KubeletConfiguration v1beta1."""

    path: str  # dotted, as in the file
    type: Type
    default: Any  # in JSON form; None means that the field has no value unless it is set
    help: str
    flag: str | None = None  # the flag that sets the same thing
    check: Check | None = None
    zero_unset: bool = False  # a zero value in a file means "not set", as in Go's own types
    relative: bool = False  # a path that is taken relative to the file it stands in (C-7)
    acted_on_by: str | None = None  # which process acts on it; None: accepted, not acted on


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line flag; ``field`` names the configuration field that it sets, if any."""

    name: str
    type: Type
    default: Any
    help: str
    field: str | None = None
    shorthand: str = ""
    bare: str | None = None  # the value of the flag when it is given without one
    deprecated: str = ""  # what to use instead; empty: not deprecated
    check: Check | None = None
    own: bool = False  # not a flag of the Go kubelet
    acted_on_by: str | None = None
