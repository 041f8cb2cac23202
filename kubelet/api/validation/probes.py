"""Probes and lifecycle hooks: what they do, and how often."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Final

from kubelet.api.container import Container
from kubelet.api.handlers import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from kubelet.api.validation.names import each, header_name, one_of, port_name, port_number
from kubelet.api.validation.texts import NOT_NEGATIVE, forbidden, invalid, required

_SIGNALS: Final = (
    *(one.name for one in signal.Signals),
    *(f"SIGRTMIN+{n}" for n in range(1, 16)),
    *(f"SIGRTMAX-{n}" for n in range(1, 15)),
)


def probes(path: str, container: Container) -> Iterator[str]:
    """Check the three probes of a container."""
    if container.liveness_probe is not None:
        yield from _probe(f"{path}.livenessProbe", container.liveness_probe)
        yield from _once(f"{path}.livenessProbe", container.liveness_probe)
    if container.readiness_probe is not None:
        yield from _probe(f"{path}.readinessProbe", container.readiness_probe)
        grace = container.readiness_probe.termination_grace_period_seconds
        if grace is not None:
            where = f"{path}.readinessProbe.terminationGracePeriodSeconds"
            yield invalid(where, grace, "must not be set for readinessProbes")
    if container.startup_probe is not None:
        yield from _probe(f"{path}.startupProbe", container.startup_probe)
        yield from _once(f"{path}.startupProbe", container.startup_probe)


def _once(path: str, probe: Probe) -> Iterator[str]:
    if probe.success_threshold != 1:
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")


def _probe(path: str, probe: Probe) -> Iterator[str]:
    actions = {
        "exec": probe.exec,
        "httpGet": probe.http_get,
        "tcpSocket": probe.tcp_socket,
        "grpc": probe.grpc,
    }
    yield from _one_action(path, actions, None)
    for key, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if value is not None and value < 0:
            yield invalid(f"{path}.{key}", value, NOT_NEGATIVE)
    grace = probe.termination_grace_period_seconds
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def lifecycle(path: str, found: Lifecycle, grace: int | None, system: str) -> Iterator[str]:
    """Check the hooks of a container and its stop signal."""
    if found.post_start is not None:
        yield from _hook(f"{path}.postStart", found.post_start, grace)
    if found.pre_stop is not None:
        yield from _hook(f"{path}.preStop", found.pre_stop, grace)
    if not found.stop_signal:
        return
    if not system:
        detail = "may not be set for containers with empty `spec.os.name`"
        yield forbidden(f"{path}.stopSignal", detail)
    else:
        known = ("SIGKILL", "SIGTERM") if system == "windows" else _SIGNALS
        yield from one_of(f"{path}.stopSignal", found.stop_signal, known)


def _hook(path: str, hook: LifecycleHandler, grace: int | None) -> Iterator[str]:
    actions = {
        "exec": hook.exec,
        "httpGet": hook.http_get,
        "tcpSocket": hook.tcp_socket,
        "sleep": hook.sleep,
    }
    yield from _one_action(path, actions, grace)


_Action = ExecAction | HTTPGetAction | TCPSocketAction | GRPCAction | SleepAction


def _one_action(
    path: str, actions: Mapping[str, _Action | None], grace: int | None
) -> Iterator[str]:
    given = [(key, action) for key, action in actions.items() if action is not None]
    if not given:
        yield required(path, "must specify a handler type")
        return
    key, action = given[0]
    yield from _action(f"{path}.{key}", action, grace)
    for other, _ in given[1:]:
        yield forbidden(f"{path}.{other}", "may not specify more than 1 handler type")


def _action(path: str, action: _Action, grace: int | None) -> Iterator[str]:
    match action:
        case ExecAction():
            if not action.command:
                yield required(f"{path}.command")
        case HTTPGetAction():
            yield from _http(path, action)
        case TCPSocketAction():
            yield from _port(f"{path}.port", action.port)
        case GRPCAction():
            yield from _port(f"{path}.port", action.port)
        case SleepAction():
            yield from _sleep(path, action.seconds or 0, grace)


def _http(path: str, action: HTTPGetAction) -> Iterator[str]:
    if not action.path:
        yield required(f"{path}.path")
    yield from _port(f"{path}.port", action.port)
    yield from one_of(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for header in action.http_headers:
        yield from each(f"{path}.httpHeaders", header.name, header_name)


def _port(path: str, port: int | str | None) -> Iterator[str]:
    if isinstance(port, str):
        yield from each(path, port, port_name)
    else:
        yield from port_number(path, port or 0)


def _sleep(path: str, seconds: int, grace: int | None) -> Iterator[str]:
    if grace is not None and not 0 <= seconds <= grace:
        yield invalid(
            path,
            seconds,
            f"must be non-negative and less than terminationGracePeriodSeconds ({grace})",
        )
