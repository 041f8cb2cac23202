"""Security settings of pods and containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AppArmorProfile:
    """``AppArmorProfile`` of core/v1."""

    localhost_profile: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """``Capabilities`` of core/v1."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SELinuxOptions:
    """``SELinuxOptions`` of core/v1."""

    level: str = ""
    role: str = ""
    type: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class SeccompProfile:
    """``SeccompProfile`` of core/v1."""

    localhost_profile: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """``SecurityContext`` of core/v1."""

    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str = ""
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Sysctl:
    """``Sysctl`` of core/v1."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class PodSecurityContext:
    """``PodSecurityContext`` of core/v1."""

    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str = ""
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = ""
    sysctls: tuple[Sysctl, ...] = ()
    windows_options: dict[str, Any] | None = None
