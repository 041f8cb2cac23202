"""What a pod for one operating system may not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.pod import PodSpec
from kubelet.api.security import PodSecurityContext, SecurityContext
from kubelet.api.validation.metadata import every_container
from kubelet.api.validation.texts import forbidden, invalid, required, unsupported

_NO_LINUX: Final = "windows options cannot be set for a linux pod"
_NO_WINDOWS: Final = "cannot be set for a windows pod"


def operating_system(spec: PodSpec) -> Iterator[str]:
    """Check the operating system that a pod names, and what it allows."""
    yield from _host_process(spec)
    if spec.os is None:
        return
    if not spec.os.name:
        yield required("spec.os.name", "cannot be empty")
    elif spec.os.name == "linux":
        yield from _linux(spec)
    elif spec.os.name == "windows":
        yield from _windows(spec)
    else:
        yield unsupported("spec.os", spec.os.name, ("linux", "windows"))


def _linux(spec: PodSpec) -> Iterator[str]:
    if spec.security_context and spec.security_context.windows_options is not None:
        yield forbidden("spec.securityContext.windowsOptions", _NO_LINUX)
    for path, container in every_container(spec):
        context = container.security_context
        if context and context.windows_options is not None:
            yield forbidden(f"{path}.securityContext.windowsOptions", _NO_LINUX)


def _windows(spec: PodSpec) -> Iterator[str]:
    given: dict[str, object] = {
        "hostUsers": spec.host_users is not None,
        "hostPID": spec.host_pid,
        "hostIPC": spec.host_ipc,
        "shareProcessNamespace": spec.share_process_namespace is not None,
        "resources": spec.resources is not None,
    }
    yield from (forbidden(f"spec.{key}", _NO_WINDOWS) for key, value in given.items() if value)
    if spec.security_context is not None:
        yield from _refused("spec.securityContext", _pod_settings(spec.security_context))
    for path, container in every_container(spec):
        if container.security_context is not None:
            settings = _container_settings(container.security_context)
            yield from _refused(f"{path}.securityContext", settings)


def _refused(path: str, settings: dict[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        if value is not None and value not in ("", ()):
            yield forbidden(f"{path}.{key}", _NO_WINDOWS)


def _pod_settings(context: PodSecurityContext) -> dict[str, object]:
    return {
        "appArmorProfile": context.app_armor_profile,
        "seLinuxOptions": context.se_linux_options,
        "seccompProfile": context.seccomp_profile,
        "fsGroup": context.fs_group,
        "fsGroupChangePolicy": context.fs_group_change_policy,
        "sysctls": context.sysctls,
        "runAsUser": context.run_as_user,
        "runAsGroup": context.run_as_group,
        "supplementalGroups": context.supplemental_groups,
        "supplementalGroupsPolicy": context.supplemental_groups_policy,
        "seLinuxChangePolicy": context.se_linux_change_policy,
    }


def _container_settings(context: SecurityContext) -> dict[str, object]:
    return {
        "appArmorProfile": context.app_armor_profile,
        "seLinuxOptions": context.se_linux_options,
        "seccompProfile": context.seccomp_profile,
        "capabilities": context.capabilities,
        "readOnlyRootFilesystem": context.read_only_root_filesystem,
        "privileged": context.privileged,
        "allowPrivilegeEscalation": context.allow_privilege_escalation,
        "procMount": context.proc_mount,
        "runAsUser": context.run_as_user,
        "runAsGroup": context.run_as_group,
    }


def _host_process(spec: PodSpec) -> Iterator[str]:
    """Check that containers which are processes of a Windows host are so together."""
    context = spec.security_context
    whole = (context.windows_options or {}).get("hostProcess") if context else None
    found = list(every_container(spec))
    processes = 0
    for path, container in found:
        own = container.security_context
        value = (own.windows_options or {}).get("hostProcess") if own else None
        if whole is not None and value is not None and whole != value:
            yield invalid(
                f"{path}.securityContext.windowsOptions.hostProcess",
                value,
                f"must be the pod's value, which is {str(whole).lower()}",
            )
        processes += bool(whole if value is None else value)
    if processes and processes != len(found):
        detail = "If pod contains any hostProcess containers then all containers must be"
        yield invalid("spec", "", f"{detail} HostProcess containers")
    if processes and not spec.host_network:
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid("spec.hostNetwork", value=False, detail=detail)
