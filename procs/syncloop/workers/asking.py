"""What a container needs out of volumes, which only process ``volumes`` looks into (L-32, P-174).

A volume may hang. Then the one pod that needs something out of it waits here, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import PrepareSubPath, ReadFileKey, Request
from kubelet.pods.rows import Wait
from procs.syncloop.configs.container import ContainerContext, wanted_subpaths
from procs.syncloop.configs.context import FileKey
from procs.syncloop.configs.env import wanted_file_keys
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.mounts import SubPath
from procs.syncloop.site import Site
from procs.syncloop.workers.retry import RetryError
from procs.syncloop.workers.worker import Worker

R = TypeVar("R")

SECONDS: Final = 120.0  # for one answer
_TRANSIENT_NS: Final = 10**9  # before another try, while volumes is being replaced


async def with_volumes(
    worker: Worker, pod: Pod, container: Container, context: ContainerContext, site: Site
) -> ContainerContext:
    """Return a container's surroundings with what it needs out of volumes; mostly that is nothing.

    ConfigError says what cannot be had; RetryError: nobody has answered.
    """
    keys = wanted_file_keys(container, context)
    if keys:
        context = replace(context, file_keys=await _variables(worker, pod, container, keys))
    parts = wanted_subpaths(pod, container, context, site)
    if parts:
        context = replace(context, subpaths=await _parts(worker, pod, container, parts))
    return context


async def _variables(
    worker: Worker, pod: Pod, container: Container, keys: Iterable[FileKey]
) -> dict[FileKey, str | None]:
    asked = {key: ReadFileKey(pod.uid, key.volume, key.path, key.key) for key in keys}
    what = f"variables of container {container.name} to be read"
    answers = await _all(worker, what, asked.values())
    found: dict[FileKey, str | None] = {}
    for key, answer in zip(asked, answers, strict=True):
        if answer.error:
            raise ConfigError(answer.error)
        found[key] = answer.value
    return found


async def _parts(
    worker: Worker, pod: Pod, container: Container, parts: Iterable[SubPath]
) -> dict[int, str]:
    asked = {
        part.index: PrepareSubPath(pod.uid, part.container, part.index, part.volume, part.path)
        for part in parts
    }
    what = f"parts of volumes of container {container.name} to be mounted"
    answers = await _all(worker, what, asked.values())
    found = {}
    for index, answer in zip(asked, answers, strict=True):
        if answer.error or not answer.path:
            raise ConfigError(answer.error or f"volumeMount {index} could not be prepared")
        found[index] = answer.path
    return found


async def _all(worker: Worker, what: str, requests: Iterable[Request[R]]) -> list[R]:
    """Ask all at once; the first that gets no answer ends it."""
    then = "the container is created then"
    worker.step("waiting for parts of volumes", worker.waiting(what, then=then))
    ask = worker.kit.process.channels.ask
    asks = [asyncio.ensure_future(ask("volumes", one, timeout=SECONDS)) for one in requests]
    try:
        return list(await asyncio.gather(*asks))
    except ChannelError as err:
        at_ns = worker.kit.wall() + _TRANSIENT_NS
        raise RetryError(str(err), at_ns, wait=Wait(what)) from None
    finally:
        for one in asks:
            one.cancel()
        await asyncio.gather(*asks, return_exceptions=True)
