"""Whether the node can enforce the AppArmor profiles that a pod asks for (A-6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.pod import Pod
from kubelet.api.security import AppArmorProfile
from kubelet.pods.resources import every_container
from procs.syncloop.admission.base import Refusal, Request

REASON: Final = "AppArmor"
ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_UNCONFINED: Final = "Unconfined"
_LOCALHOST: Final = "Localhost"
_RUNTIME_DEFAULT: Final = "RuntimeDefault"
# How the annotation, older than the field, writes the same.
_WRITTEN: Final = {"runtime/default": _RUNTIME_DEFAULT, "unconfined": _UNCONFINED}
_LOCAL_PREFIX: Final = "localhost/"

SWITCH: Final = "/sys/module/apparmor/parameters/enabled"
PROFILES: Final = "/sys/kernel/security/apparmor/profiles"


def check(request: Request) -> Refusal | None:
    """Refuse a pod whose profiles would not be enforced; one that runs already is not asked."""
    if request.pod.status.phase not in ("", "Pending"):
        return None
    problem = _problem(request)
    return Refusal(REASON, f"Cannot enforce AppArmor: {problem}") if problem else None


def enabled(path: str = SWITCH) -> bool:
    """Whether the kernel enforces profiles."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(1) == "Y"
    except OSError:
        return False


def loaded(path: str = PROFILES) -> frozenset[str] | None:
    """Return the profiles that the kernel has; None when it does not say."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    return frozenset(name for line in lines if (name := line.rpartition(" (")[0].strip()))


def _problem(request: Request) -> str | None:
    profiles = list(_profiles(request.pod))
    if not any(profile.type != _UNCONFINED for profile in profiles):
        return None
    if not request.facts.apparmor:
        return "AppArmor is not enabled on the host"
    known = request.facts.profiles
    for profile in profiles:
        if profile.type == _LOCALHOST:
            name = profile.localhost_profile
            if not name.strip():
                return f'invalid empty AppArmor profile name: "{name}"'
            if known is not None and name not in known:
                return f'profile "{name}" is not loaded'
        elif profile.type not in (_UNCONFINED, _RUNTIME_DEFAULT):
            return f'invalid AppArmor profile type: "{profile.type}"'
    return None


def _profiles(pod: Pod) -> Iterator[AppArmorProfile]:
    """Yield the profile of each container: its own, the annotation's, or the pod's."""
    context = pod.spec.security_context
    whole = context.app_armor_profile if context is not None else None
    for container in every_container(pod):
        own = container.security_context
        written = pod.metadata.annotations.get(ANNOTATION + container.name, "")
        if own is not None and own.app_armor_profile is not None:
            yield own.app_armor_profile
        elif written:
            yield _read(written)
        elif whole is not None:
            yield whole


def _read(written: str) -> AppArmorProfile:
    if written.startswith(_LOCAL_PREFIX):
        name = written.removeprefix(_LOCAL_PREFIX)
        return AppArmorProfile(type=_LOCALHOST, localhost_profile=name)
    return AppArmorProfile(type=_WRITTEN.get(written, written))
