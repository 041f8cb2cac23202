"""Security settings of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kubelet.api.pod import PodSpec
from kubelet.api.security import (
    AppArmorProfile,
    Capabilities,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)
from kubelet.api.validation.names import (
    descending_path,
    dns_subdomain,
    each,
    identity,
    one_of,
)
from kubelet.api.validation.texts import (
    duplicate,
    forbidden,
    invalid,
    required,
    size,
    too_long,
    unsupported,
)

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PATH_LIMIT: Final = 4095
_SYSCTL_LIMIT: Final = 253
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_FORM: Final = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_SYSCTL: Final = re.compile(_SYSCTL_FORM)
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_CREDENTIAL_LIMIT: Final = 64 * 1024


def pod_security(spec: PodSpec) -> Iterator[str]:
    """Check the security settings of a pod."""
    context, path = spec.security_context, "spec.securityContext"
    if spec.share_process_namespace and spec.host_pid:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid("spec.shareProcessNamespace", value=True, detail=detail)
    if context is None:
        return
    yield from identity(f"{path}.fsGroup", context.fs_group)
    yield from identity(f"{path}.runAsUser", context.run_as_user)
    yield from identity(f"{path}.runAsGroup", context.run_as_group)
    for i, group in enumerate(context.supplemental_groups):
        yield from identity(f"{path}.supplementalGroups[{i}]", group)
    yield from _sysctls(f"{path}.sysctls", context, spec)
    yield from _policies(path, context)
    yield from _seccomp(f"{path}.seccompProfile", context.seccomp_profile)
    yield from _windows(f"{path}.windowsOptions", context.windows_options)
    yield from _apparmor(f"{path}.appArmorProfile", context.app_armor_profile)


def _policies(path: str, context: PodSecurityContext) -> Iterator[str]:
    for key, value, allowed in (
        ("fsGroupChangePolicy", context.fs_group_change_policy, ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict")),
        ("seLinuxChangePolicy", context.se_linux_change_policy, ("MountOption", "Recursive")),
    ):
        if value:
            yield from one_of(f"{path}.{key}", value, allowed)


def container_security(path: str, context: SecurityContext, host_users: bool) -> Iterator[str]:
    """Check the security settings of a container."""
    yield from identity(f"{path}.runAsUser", context.run_as_user)
    yield from identity(f"{path}.runAsGroup", context.run_as_group)
    if context.proc_mount:
        yield from one_of(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
        if context.proc_mount == "Unmasked" and host_users:
            detail = "`hostUsers` must be false to use `Unmasked`"
            yield invalid(f"{path}.procMount", context.proc_mount, detail)
    yield from _seccomp(f"{path}.seccompProfile", context.seccomp_profile)
    yield from _escalation(path, context)
    yield from _windows(f"{path}.windowsOptions", context.windows_options)
    yield from _apparmor(f"{path}.appArmorProfile", context.app_armor_profile)


def _escalation(path: str, context: SecurityContext) -> Iterator[str]:
    if context.allow_privilege_escalation is not False:
        return
    refused = "cannot set `allowPrivilegeEscalation` to false and"
    if context.privileged:
        yield invalid(path, context, f"{refused} `privileged` to true")
    added = (context.capabilities or Capabilities()).add
    if "CAP_SYS_ADMIN" in added:
        yield invalid(path, context, f"{refused} `capabilities.Add` CAP_SYS_ADMIN")


def _seccomp(path: str, profile: SeccompProfile | None) -> Iterator[str]:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    else:
        yield from one_of(f"{path}.type", profile.type, _PROFILES)
    if profile.type != "Localhost":
        if profile.localhost_profile:
            detail = "can only be set when seccomp type is Localhost"
            yield invalid(f"{path}.localhostProfile", profile.localhost_profile, detail)
    elif not profile.localhost_profile:
        yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        yield from each(f"{path}.localhostProfile", profile.localhost_profile, descending_path)


def _apparmor(path: str, profile: AppArmorProfile | None) -> Iterator[str]:
    if profile is None:
        return
    where, name = f"{path}.localhostProfile", profile.localhost_profile
    if not profile.type:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif profile.type not in _PROFILES:
        yield unsupported(f"{path}.type", profile.type, _PROFILES)
    elif profile.type != "Localhost":
        if name:
            yield invalid(where, name, "can only be set when AppArmor type is Localhost")
    elif not name.strip():
        yield required(where, "must be set when AppArmor type is Localhost")
    else:
        if name != name.strip():
            yield invalid(where, name, "must not be padded with whitespace")
        if size(name) > _PATH_LIMIT:
            yield too_long(where, _PATH_LIMIT)


def _sysctls(path: str, context: PodSecurityContext, spec: PodSpec) -> Iterator[str]:
    seen: set[str] = set()
    for i, sysctl in enumerate(context.sysctls):
        where, name = f"{path}[{i}].name", sysctl.name
        dotted = name.replace("/", ".")
        if not name:
            yield required(where)
        elif len(name) > _SYSCTL_LIMIT or not _SYSCTL.match(name):
            detail = f"must have at most {_SYSCTL_LIMIT} characters and match regex {_SYSCTL_FORM}"
            yield invalid(where, name, detail)
        elif dotted in seen:
            yield duplicate(where, name)
        seen.add(dotted)
        # In a namespace of the host it would change the host.
        if spec.host_network and dotted.startswith("net."):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        ipc = dotted == "kernel.sem" or dotted.startswith(_IPC_SYSCTLS)
        if spec.host_ipc and ipc:
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")


def host_users(spec: PodSpec) -> Iterator[str]:
    """Check that a pod with users of its own shares no other namespace with the host."""
    if spec.host_users is not False:
        return
    for key, shared in (
        ("hostNetwork", spec.host_network),
        ("hostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
    ):
        if shared:
            yield forbidden(f"spec.{key}", "when `hostUsers` is false")
    for kind, found in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for i, container in enumerate(found):
            if container.volume_devices:
                where = f"spec.{kind}[{i}].volumeDevices"
                yield forbidden(where, "when `hostUsers` is false")


def _windows(path: str, options: dict[str, Any] | None) -> Iterator[str]:
    if options is None:
        return
    name = options.get("gmsaCredentialSpecName")
    if isinstance(name, str):
        yield from each(f"{path}.gmsaCredentialSpecName", name, dns_subdomain)
    credential = options.get("gmsaCredentialSpec")
    if credential == "":
        yield invalid(f"{path}.gmsaCredentialSpec", credential, "cannot be an empty string")
    elif isinstance(credential, str) and size(credential) > _CREDENTIAL_LIMIT:
        yield too_long(f"{path}.gmsaCredentialSpec", _CREDENTIAL_LIMIT)
    user = options.get("runAsUserName")
    if user == "":
        yield invalid(f"{path}.runAsUserName", user, "cannot be an empty string")
