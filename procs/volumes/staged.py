"""CSI volumes that are staged for nobody: left by a death between two calls to their driver.

They are found at the start, once it is certain which pods there are.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kubelet import logging as klog
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import PodsKnown
from procs.volumes.kit import Kit
from procs.volumes.manager import Volumes
from procs.volumes.wants import CsiWant

log = klog.get_logger(__name__)

_ASK_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 10.0  # nothing waits for it: it only frees what nobody uses


class Unstaging(Protocol):
    """What is asked of the plugin."""

    async def unstage_unused(self, wanted: frozenset[tuple[str, str]]) -> None:
        """Have drivers unstage what no pod uses and nobody wants, by driver and handle.

        It returns when nothing is left to do, which may be when a driver has registered.
        """


class Sweeper:
    """Has them unstaged."""

    def __init__(self, kit: Kit, volumes: Volumes, csi: Unstaging) -> None:
        self._kit = kit
        self._volumes = volumes
        self._csi = csi

    def start(self) -> None:
        """Begin to look."""
        self._kit.process.spawn(self._run(), name="staged volumes")

    async def _run(self) -> None:
        while not await self._known():  # noqa: ASYNC110 - syncloop tells nobody
            await asyncio.sleep(_AGAIN_SECONDS)
        await self._csi.unstage_unused(self._wanted())

    async def _known(self) -> bool:
        """Tell whether the table of pods holds all of them."""
        try:
            ask = self._kit.process.channels.ask
            return (await ask("syncloop", PodsKnown(), timeout=_ASK_SECONDS)).known
        except ChannelError as err:
            log.v(2, "Could not ask whether all pods are known", err=err)
            return False

    def _wanted(self) -> frozenset[tuple[str, str]]:
        wants = (want for pod in self._volumes.pods() for want in pod.wants)
        return frozenset((w.driver, w.handle) for w in wants if isinstance(w, CsiWant))
