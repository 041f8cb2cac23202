"""What a probe or a lifecycle hook does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecAction:
    """``ExecAction`` of core/v1."""

    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HTTPHeader:
    """``HTTPHeader`` of core/v1."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class HTTPGetAction:
    """``HTTPGetAction`` of core/v1."""

    host: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()
    path: str = ""
    port: int | str | None = None
    protocol: str = ""
    scheme: str = ""


@dataclass(frozen=True, slots=True)
class TCPSocketAction:
    """``TCPSocketAction`` of core/v1."""

    host: str = ""
    port: int | str | None = None


@dataclass(frozen=True, slots=True)
class SleepAction:
    """``SleepAction`` of core/v1."""

    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class GRPCAction:
    """``GRPCAction`` of core/v1."""

    mode: str = ""
    port: int | None = None
    service: str = ""


@dataclass(frozen=True, slots=True)
class LifecycleHandler:
    """``LifecycleHandler`` of core/v1."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """``Lifecycle`` of core/v1."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """``Probe`` of core/v1."""

    exec: ExecAction | None = None
    failure_threshold: int | None = None
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int | None = None
