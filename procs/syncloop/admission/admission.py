"""The handlers in their order; the first that refuses decides (section 13 of the facts)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Final

from kubelet.api.pod import Pod
from kubelet.config import Effective
from kubelet.pods.runtime import RuntimeRecord
from procs.syncloop.admission import apparmor, features, predicates, pressure, sysctls
from procs.syncloop.admission.base import DECLARED, Answer, Facts, Preempt, Refusal, Request
from procs.syncloop.admission.room import OUT_OF
from procs.syncloop.site import Site

STRICT_GROUPS: Final = "supplemental_groups_policy"  # a feature of the runtime

Handler = Callable[[Request], Answer]

HANDLERS: Final[tuple[Handler, ...]] = (
    pressure.check,
    sysctls.check,
    predicates.check,
    apparmor.check,
    features.pod_features,
    features.declared_features,
    features.shutdown,
)

# The values of the label of kubelet_admission_rejections_total.
_COUNTED: Final = frozenset(
    {
        "AppArmor",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "InvalidNodeInfo",
        "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported",
        "UnexpectedAdmissionError",
        "UnknownReason",
        "UnexpectedPredicateFailureType",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "OutOfpods",
        "PodLevelResourcesNotSupported",
        "PodFeatureUnsupported",
        "Evicted",
        "SysctlForbidden",
        "TopologyAffinityError",
        "NodeShutdown",
        "VolumeAttachmentLimitExceeded",
    }
)


class Admission:
    """Asks all handlers; what is true of the node at the moment comes from ``facts``."""

    def __init__(
        self,
        config: Effective,
        runtime: Callable[[], RuntimeRecord | None] = lambda: None,
        facts: Callable[[], Facts] | None = None,
        handlers: tuple[Handler, ...] = HANDLERS,
    ) -> None:
        self._facts = facts or (lambda: host_facts(config, runtime()))
        self._handlers = handlers

    def admit(self, pod: Pod, others: Iterable[Pod], site: Site) -> Answer:
        """Return why a pod is refused, or who must make room for it first, or None: it is in.

        ``others`` are the active pods that were let in before. Nobody is asked to make room for a
        pod that a later handler refuses.
        """
        among = tuple(other for other in others if other.uid != pod.uid)
        request = Request(pod, among, site, self._facts())
        room: Preempt | None = None
        for handler in self._handlers:
            answer = handler(request)
            if isinstance(answer, Refusal):
                return answer
            room = answer or room
        return room


def host_facts(config: Effective, runtime: RuntimeRecord | None) -> Facts:
    """Return what this host is by itself: nothing presses, nothing is tainted."""
    return Facts(
        kernel=kernel_version(os.uname().release),
        apparmor=apparmor.enabled(),
        strict_groups=runtime is not None and STRICT_GROUPS in runtime.features,
        pod_level_resources=config.gate("PodLevelResources"),
        declared=frozenset(name for name in DECLARED if config.gate(name)),
    )


def kernel_version(release: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel's release; (0, 0) for what has none."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def counted_as(reason: str) -> str:
    """Return the label under which a refusal is counted."""
    if reason in _COUNTED:
        return reason
    return "OutOfExtendedResources" if reason.startswith(OUT_OF) else "Other"
