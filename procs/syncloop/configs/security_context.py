"""Who a container runs as, and what it may do (P-156..P-160). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from kubelet.api.container import Container, EphemeralContainer
from kubelet.api.pod import Pod
from kubelet.api.security import (
    AppArmorProfile,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from kubelet.cri import api_pb2 as pb
from kubelet.pods import resources
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs.context import ContainerContext, ImageInfo
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.policy import READ_ONLY_PATHS, Policy
from procs.syncloop.site import Site

APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST: Final = "Localhost"
_PROFILES: Final = {
    "RuntimeDefault": pb.SecurityProfile.RuntimeDefault,
    "Unconfined": pb.SecurityProfile.Unconfined,
    _LOCALHOST: pb.SecurityProfile.Localhost,
}
_OLD_APPARMOR: Final = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}

T = TypeVar("T")


def container_security(
    pod: Pod, container: Container, image: ImageInfo, context: ContainerContext, site: Site
) -> pb.LinuxContainerSecurityContext:
    """Return the security context of a container; its own settings go before the pod's."""
    own = container.security_context or SecurityContext()
    whole = pod.spec.security_context or PodSecurityContext()
    _check_not_root(pod, container, own, whole, image)
    found = pb.LinuxContainerSecurityContext(
        privileged=bool(own.privileged),
        readonly_rootfs=bool(own.read_only_root_filesystem),
        no_new_privs=own.allow_privilege_escalation is False,
        supplemental_groups=groups(whole, context.volumes.values()),
        supplemental_groups_policy=groups_policy(whole),
        namespace_options=_namespaces(pod, container, context),
        seccomp=seccomp(own.seccomp_profile or whole.seccomp_profile, site),
    )
    _set_user(found, own, whole, image)
    _set_selinux(found, own.se_linux_options or whole.se_linux_options)
    _set_capabilities(found, own)
    _set_paths(found, own, context.policy)
    _set_apparmor(found, _apparmor(pod, container, own, whole))
    return found


def namespaces(pod: Pod) -> pb.NamespaceOption:
    """Return which namespaces a pod shares with whom (P-156)."""
    spec = pod.spec
    pid = pb.NODE if spec.host_pid else pb.POD if spec.share_process_namespace else pb.CONTAINER
    return pb.NamespaceOption(
        network=pb.NODE if spec.host_network else pb.POD,
        ipc=pb.NODE if spec.host_ipc else pb.POD,
        pid=pid,
    )


def groups(whole: PodSecurityContext, volumes: Iterable[VolumeRow]) -> list[int]:
    """Return the groups that a pod's processes are in besides their own (P-160)."""
    of_files = [whole.fs_group] if whole.fs_group is not None else []
    of_volumes = [volume.gid for volume in volumes if volume.gid]
    return list(dict.fromkeys([*of_files, *whole.supplemental_groups, *of_volumes]))


def groups_policy(whole: PodSecurityContext) -> pb.SupplementalGroupsPolicy:
    """Return whether groups that the image gives its user count too (P-160)."""
    return pb.Strict if whole.supplemental_groups_policy == "Strict" else pb.Merge


def seccomp(profile: SeccompProfile | None, site: Site) -> pb.SecurityProfile:
    """Return a container's filter of system calls (P-157)."""
    if profile is None:
        default = "RuntimeDefault" if site.seccomp_default else "Unconfined"
        return pb.SecurityProfile(profile_type=_PROFILES[default])
    kind = _profile(profile.type, "seccompProfile.type")
    if profile.type != _LOCALHOST:
        return pb.SecurityProfile(profile_type=kind)
    if not profile.localhost_profile:
        raise ConfigError("localhostProfile must be set if seccompProfile type is Localhost.")
    path = f"{site.root_dir}/seccomp/{profile.localhost_profile}"
    return pb.SecurityProfile(profile_type=kind, localhost_ref=path)


def selinux(options: SELinuxOptions) -> pb.SELinuxOption:
    """Return a SELinux label."""
    return pb.SELinuxOption(
        user=options.user, role=options.role, type=options.type, level=options.level
    )


def any_privileged(pod: Pod) -> bool:
    """Whether some container of a pod is privileged."""
    return any(
        container.security_context is not None and bool(container.security_context.privileged)
        for container in resources.every_container(pod)
    )


def _profile(type_: str, field: str) -> pb.SecurityProfile.ProfileType:
    found = _PROFILES.get(type_)
    if found is None:
        raise ConfigError(f"{field}: {type_!r} must be one of {', '.join(_PROFILES)}")
    return found


def _namespaces(pod: Pod, container: Container, context: ContainerContext) -> pb.NamespaceOption:
    found = namespaces(pod)
    of_sandbox = context.sandbox.linux.security_context.namespace_options
    if of_sandbox.HasField("userns_options"):
        found.userns_options.CopyFrom(of_sandbox.userns_options)
    if isinstance(container, EphemeralContainer) and container.target_container_name:
        if not context.target_id:
            raise ConfigError(f"unable to find target container {container.target_container_name}")
        found.pid = pb.TARGET
        found.target_id = context.target_id
    return found


def _check_not_root(
    pod: Pod,
    container: Container,
    own: SecurityContext,
    whole: PodSecurityContext,
    image: ImageInfo,
) -> None:
    """Refuse a container that must not run as root and would, or might (P-159)."""
    if not _first(own.run_as_non_root, whole.run_as_non_root):
        return
    user = _first(own.run_as_user, whole.run_as_user)
    why = ""
    if user is not None:
        why = "container's runAsUser breaks non-root policy" if user == 0 else ""
    elif image.uid == 0:
        why = "container has runAsNonRoot and image will run as root"
    elif image.uid is None:
        why = (
            f"container has runAsNonRoot and image has non-numeric user ({image.user}), cannot "
            "verify user is non-root"
        )
    if why:
        where = f'pod: "{pod.name}_{pod.namespace}({pod.uid})", container: {container.name}'
        raise ConfigError(f"{why} ({where})")


def _set_user(
    found: pb.LinuxContainerSecurityContext,
    own: SecurityContext,
    whole: PodSecurityContext,
    image: ImageInfo,
) -> None:
    user = _first(own.run_as_user, whole.run_as_user, image.uid)
    if user is not None:
        found.run_as_user.value = user
    else:
        found.run_as_username = image.user
    group = _first(own.run_as_group, whole.run_as_group)
    if group is not None:
        found.run_as_group.value = group


def _set_selinux(found: pb.LinuxContainerSecurityContext, options: SELinuxOptions | None) -> None:
    if options is not None:
        found.selinux_options.CopyFrom(selinux(options))


def _set_capabilities(found: pb.LinuxContainerSecurityContext, own: SecurityContext) -> None:
    if own.capabilities is not None:
        found.capabilities.add_capabilities.extend(own.capabilities.add)
        found.capabilities.drop_capabilities.extend(own.capabilities.drop)


def _set_paths(
    found: pb.LinuxContainerSecurityContext, own: SecurityContext, policy: Policy
) -> None:
    """Hide what of /proc and /sys is the node's own, unless the pod wants to see it (P-158)."""
    if own.proc_mount != "Unmasked":
        found.masked_paths.extend(policy.masked_paths)
        found.readonly_paths.extend(READ_ONLY_PATHS)


def _apparmor(
    pod: Pod, container: Container, own: SecurityContext, whole: PodSecurityContext
) -> AppArmorProfile | None:
    """Return a container's profile: its own, that of the old annotation, that of its pod."""
    if own.app_armor_profile is not None:
        return own.app_armor_profile
    text = pod.metadata.annotations.get(APPARMOR_ANNOTATION + container.name, "")
    if not text:
        return whole.app_armor_profile
    for type_, old in _OLD_APPARMOR.items():
        if text == old:
            return AppArmorProfile(type=type_)
    name = text.removeprefix("localhost/")
    if name == text or not name:
        raise ConfigError(f"invalid AppArmor profile name: {text!r}")
    return AppArmorProfile(localhost_profile=name, type=_LOCALHOST)


def _set_apparmor(found: pb.LinuxContainerSecurityContext, profile: AppArmorProfile | None) -> None:
    """Send a profile in the way of today and in that of before: older runtimes read that."""
    if profile is None:
        return
    found.apparmor.profile_type = _profile(profile.type, "appArmorProfile.type")
    if profile.type != _LOCALHOST:
        found.apparmor_profile = _OLD_APPARMOR[profile.type]
        return
    if not profile.localhost_profile:
        raise ConfigError("localhostProfile must be set if appArmorProfile type is Localhost.")
    found.apparmor.localhost_ref = profile.localhost_profile
    found.apparmor_profile = f"localhost/{profile.localhost_profile}"


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
