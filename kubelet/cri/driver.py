"""Which cgroup driver to use: the runtime is asked, the configuration is second best (C-10)."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

from kubelet import logging as klog
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import BadReply, CriError, Unimplemented

log = klog.get_logger(__name__)

Driver: TypeAlias = Literal["systemd", "cgroupfs"]

ATTEMPTS: Final = 3
PAUSE: Final = 2.0  # seconds between two attempts


class Source(enum.Enum):
    """Who decided on the driver."""

    RUNTIME = "runtime"
    CONFIG = "config"  # the runtime answered, and said nothing about it
    FALLBACK = "fallback"  # the runtime cannot be asked: kubelet_cri_losing_support


async def cgroup_driver(
    client: RuntimeClient,
    configured: Driver,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[Driver, Source]:
    """Ask up to three times; raises the last CriError when the runtime does not answer."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return decide(await client.runtime_config(), configured)
        except Unimplemented:
            log.info(
                "The runtime cannot tell its cgroup driver, the configured one is used",
                cgroupDriver=configured,
            )
            return configured, Source.FALLBACK
        except CriError as error:
            if attempt == ATTEMPTS or isinstance(error, BadReply):
                raise
        await sleep(PAUSE)
    raise AssertionError  # the last attempt returns or raises


def decide(answer: pb.RuntimeConfigResponse, configured: Driver) -> tuple[Driver, Source]:
    """Read the runtime's answer; BadReply for a driver that nobody knows."""
    if not answer.HasField("linux"):
        return configured, Source.CONFIG
    driver = answer.linux.cgroup_driver
    if driver == pb.SYSTEMD:
        return "systemd", Source.RUNTIME
    if driver == pb.CGROUPFS:
        return "cgroupfs", Source.RUNTIME
    raise BadReply(f"cgroup driver {driver} is unknown", "RuntimeConfig")
