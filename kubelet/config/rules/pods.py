"""Rules about pods: images, eviction, shutdown, sysctls, taints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.config import names, thresholds
from kubelet.config.rules.base import Fault, Rule, View, rule


@rule("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
def image_gc(view: View) -> Iterator[Fault]:
    """Collection begins above where it ends."""
    low, high = view["imageGCLowThresholdPercent"], view["imageGCHighThresholdPercent"]
    if low >= high:
        allowed = f"must be less than imageGCHighThresholdPercent ({high})"
        yield "imageGCLowThresholdPercent", low, allowed


@rule("imageMinimumGCAge", "imageMaximumGCAge")
def image_age(view: View) -> Iterator[Fault]:
    """An image must be allowed to exist for a while."""
    longest = view.time("imageMaximumGCAge")
    if 0 < longest <= view.time("imageMinimumGCAge"):
        allowed = f"must be greater than imageMinimumGCAge ({view['imageMinimumGCAge']})"
        yield "imageMaximumGCAge", view["imageMaximumGCAge"], allowed


@rule("serializeImagePulls", "maxParallelImagePulls")
def parallel_pulls(view: View) -> Iterator[Fault]:
    """One at a time and several at once exclude each other."""
    if view["serializeImagePulls"] and (view["maxParallelImagePulls"] or 0) > 1:
        yield (
            "maxParallelImagePulls",
            view["maxParallelImagePulls"],
            "must be 1 or unset while serializeImagePulls is true",
        )


@rule("imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist")
def image_allowlist(view: View) -> Iterator[Fault]:
    """A list of exceptions needs the policy that reads it."""
    listed = view["preloadedImagesVerificationAllowlist"]
    wanted = "NeverVerifyAllowlistedImages"
    if listed and view["imagePullCredentialsVerificationPolicy"] != wanted:
        allowed = f'needs imagePullCredentialsVerificationPolicy "{wanted}"'
        yield "preloadedImagesVerificationAllowlist", listed, allowed
    for i, text in enumerate(listed):
        if allowed_ := names.image_pattern(text):
            yield f"preloadedImagesVerificationAllowlist[{i}]", text, allowed_


@rule(
    "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist", "featureGates"
)
def image_verification_gate(view: View) -> Iterator[Fault]:
    """Without the gate the policy stays what it is by default."""
    if view.gate("KubeletEnsureSecretPulledImages"):
        return
    policy = view["imagePullCredentialsVerificationPolicy"]
    needs = "needs feature gate KubeletEnsureSecretPulledImages"
    if policy != "NeverVerifyPreloadedImages":
        yield "imagePullCredentialsVerificationPolicy", policy, needs
    if view["preloadedImagesVerificationAllowlist"]:
        listed = view["preloadedImagesVerificationAllowlist"]
        yield "preloadedImagesVerificationAllowlist", listed, needs


@rule("evictionHard")
def eviction_hard(view: View) -> Iterator[Fault]:
    """E-2, E-3: signals and values."""
    for name, value in view["evictionHard"].items():
        if allowed := thresholds.signal(name) or thresholds.threshold(value):
            yield f"evictionHard[{name}]", value, allowed


@rule("evictionSoft", "evictionSoftGracePeriod")
def eviction_soft(view: View) -> Iterator[Fault]:
    """E-3: a soft threshold also needs a grace period."""
    for name, value in view["evictionSoft"].items():
        if allowed := thresholds.signal(name) or thresholds.threshold(value):
            yield f"evictionSoft[{name}]", value, allowed
        elif name not in view["evictionSoftGracePeriod"]:
            yield f"evictionSoft[{name}]", value, "needs a period in evictionSoftGracePeriod"


@rule("evictionSoftGracePeriod")
def eviction_grace(view: View) -> Iterator[Fault]:
    """Grace periods are durations, by signal."""
    for name, value in view["evictionSoftGracePeriod"].items():
        if allowed := thresholds.signal(name) or thresholds.grace(value):
            yield f"evictionSoftGracePeriod[{name}]", value, allowed


@rule("evictionMinimumReclaim")
def eviction_reclaim(view: View) -> Iterator[Fault]:
    """Amounts to reclaim, by signal."""
    for name, value in view["evictionMinimumReclaim"].items():
        if allowed := thresholds.signal(name) or thresholds.reclaim(value):
            yield f"evictionMinimumReclaim[{name}]", value, allowed


@rule("shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "featureGates")
def shutdown(view: View) -> Iterator[Fault]:
    """The critical pods' time is a part of the whole."""
    whole, part = view["shutdownGracePeriod"], view["shutdownGracePeriodCriticalPods"]
    if view.time("shutdownGracePeriodCriticalPods") > view.time("shutdownGracePeriod"):
        allowed = f"must be at most shutdownGracePeriod ({whole})"
        yield "shutdownGracePeriodCriticalPods", part, allowed
    if not view.gate("GracefulNodeShutdown"):
        for name in ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods"):
            if view.time(name) > 0:
                yield name, view[name], "needs feature gate GracefulNodeShutdown"


@rule(
    "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "featureGates",
)
def shutdown_steps(view: View) -> Iterator[Fault]:
    """Steps by priority replace the two plain periods."""
    name = "shutdownGracePeriodByPodPriority"
    steps = view[name]
    if not steps:
        return
    if view.time("shutdownGracePeriod") or view.time("shutdownGracePeriodCriticalPods"):
        allowed = "cannot be set together with shutdownGracePeriod or its critical pods' part"
        yield name, steps, allowed
    if not view.gate("GracefulNodeShutdownBasedOnPodPriority"):
        yield name, steps, "needs feature gate GracefulNodeShutdownBasedOnPodPriority"
    for i, step in enumerate(steps):
        if step.get("shutdownGracePeriodSeconds", 0) < 0:
            where = f"{name}[{i}].shutdownGracePeriodSeconds"
            yield where, step["shutdownGracePeriodSeconds"], "must be 0 or greater"


@rule("crashLoopBackOff.maxContainerRestartPeriod", "featureGates")
def crash_loop(view: View) -> Iterator[Fault]:
    """Another longest wait than the default needs its gate."""
    name = "crashLoopBackOff.maxContainerRestartPeriod"
    if view[name] != "5m0s" and not view.gate("KubeletCrashLoopBackOffMax"):
        yield name, view[name], "needs feature gate KubeletCrashLoopBackOffMax"


@rule("allowedUnsafeSysctls")
def unsafe_sysctls(view: View) -> Iterator[Fault]:
    """Names, or prefixes with a star."""
    for i, name in enumerate(view["allowedUnsafeSysctls"]):
        if allowed := names.sysctl(name, pattern=True):
            yield f"allowedUnsafeSysctls[{i}]", name, allowed


@rule("defaultPodSysctls", "featureGates")
def default_sysctls(view: View) -> Iterator[Fault]:
    """Names of which no two mean the same."""
    chosen = view["defaultPodSysctls"]
    if chosen and not view.gate("DefaultPodSysctls"):
        yield "defaultPodSysctls", chosen, "needs feature gate DefaultPodSysctls"
    seen: dict[str, str] = {}
    for name, value in chosen.items():
        if allowed := names.sysctl(name):
            yield f"defaultPodSysctls[{name}]", value, allowed
        dotted = names.sysctl_name(name)
        if dotted in seen:
            yield f"defaultPodSysctls[{name}]", value, f"is the same sysctl as {seen[dotted]}"
        seen[dotted] = name


@rule("registerWithTaints")
def taints(view: View) -> Iterator[Fault]:
    """Taint syntax; the time is the API server's to set."""
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(view["registerWithTaints"]):
        where = f"registerWithTaints[{i}]"
        key, effect = taint["key"], taint["effect"]
        if allowed := names.label_key(key):
            yield f"{where}.key", key, allowed
        if allowed := names.label_value(taint.get("value", "")):
            yield f"{where}.value", taint["value"], allowed
        if effect not in names.EFFECTS:
            yield f"{where}.effect", effect, f"must be one of {', '.join(names.EFFECTS)}"
        if "timeAdded" in taint:
            yield f"{where}.timeAdded", taint["timeAdded"], "must not be set"
        if (key, effect) in seen:
            yield where, taint, "must be the only taint with this key and effect"
        seen.add((key, effect))


RULES: Final[tuple[Rule, ...]] = (
    image_gc,
    image_age,
    parallel_pulls,
    image_allowlist,
    image_verification_gate,
    eviction_hard,
    eviction_soft,
    eviction_grace,
    eviction_reclaim,
    shutdown,
    shutdown_steps,
    crash_loop,
    unsafe_sysctls,
    default_sysctls,
    taints,
)
