"""Whether a container that has ended is started again: policies and rules (P-76, P-77, P-80)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kubelet.api.container import Container, ContainerRestartRule, EphemeralContainer
from kubelet.api.pod import Pod
from kubelet.pods.runtime import ContainerRecord, ContainerState

ALWAYS: Final = "Always"
ON_FAILURE: Final = "OnFailure"
NEVER: Final = "Never"

_OOM_KILLED: Final = "OOMKilled"


class Verdict(StrEnum):
    """What follows from a container's end."""

    STAY = "stay"
    RESTART = "restart"
    RESTART_ALL = "restart-all"  # of the pod (P-81)


_ACTIONS: Final = {"Restart": Verdict.RESTART, "RestartAllContainers": Verdict.RESTART_ALL}


def policy(pod: Pod, container: Container) -> str:
    """Return the restart policy of a container: its own, or else the pod's (P-80)."""
    if isinstance(container, EphemeralContainer):
        return NEVER  # P-74
    return container.restart_policy or pod.spec.restart_policy or ALWAYS


def has_rules(container: Container) -> bool:
    """Tell whether rules have a say; without an own policy of the container they have none."""
    return bool(container.restart_policy and container.restart_policy_rules)


def verdict(pod: Pod, container: Container, exit_code: int) -> Verdict:
    """Return what follows from an exit code: the first rule that matches, or else the policy."""
    by_rule = _by_rules(container, exit_code)
    if by_rule is not None:
        return by_rule
    own = policy(pod, container)
    if own == NEVER or (own == ON_FAILURE and exit_code == 0):
        return Verdict.STAY
    return Verdict.RESTART


def should_restart(pod: Pod, container: Container, record: ContainerRecord) -> bool:
    """Tell whether a regular container, of which this is the last instance, is started again."""
    if pod.metadata.deletion_timestamp:
        return False  # P-83
    if record.state is ContainerState.RUNNING:
        return False
    if record.state is ContainerState.CREATED:
        return True  # it never ran
    if record.state is ContainerState.UNKNOWN:
        return restarts_when_killed(pod, container)
    return verdict(pod, container, record.exit_code) is not Verdict.STAY


def restarts_when_killed(pod: Pod, container: Container) -> bool:
    """Tell whether a container that we kill is started again, whatever its exit code will be."""
    return policy(pod, container) != NEVER


def init_failed(record: ContainerRecord) -> bool:
    """Tell whether an ended init container has failed (P-77)."""
    return record.exit_code != 0 or record.reason == _OOM_KILLED


def init_restarts(pod: Pod, container: Container, record: ContainerRecord) -> bool:
    """Tell whether an ended init container that is no sidecar is started again."""
    if not init_failed(record):
        return False
    by_rule = _by_rules(container, record.exit_code)
    return by_rule is not None or restarts_when_killed(pod, container)


def restarts_all(container: Container, record: ContainerRecord) -> bool:
    """Tell whether the end of a container restarts all containers of its pod (P-81)."""
    return _by_rules(container, record.exit_code) is Verdict.RESTART_ALL


def _by_rules(container: Container, exit_code: int) -> Verdict | None:
    if not has_rules(container):
        return None
    for rule in container.restart_policy_rules:
        if _applies(rule, exit_code) and rule.action in _ACTIONS:
            return _ACTIONS[rule.action]
    return None


def _applies(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    if codes.operator == "In":
        return exit_code in codes.values
    return codes.operator == "NotIn" and exit_code not in codes.values
