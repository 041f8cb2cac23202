"""The connection to the runtime: who it is, how it is set up, and whether it answers (N-12, C-10).

The runtime may be missing, wrong, hanging or talking nonsense for any time: that is said when it
begins and when it changes, and trying goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kubelet import logging as klog
from kubelet.cri.client import RuntimeClient
from kubelet.cri.driver import Driver, cgroup_driver
from kubelet.cri.errors import CriError, Unavailable, Unreachable
from kubelet.pods.runtime import RuntimeRecord
from kubelet.process import Process
from procs.pleg import convert
from procs.pleg.health import STATUS_SECONDS

log = klog.get_logger(__name__)

FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 3.0  # as long as the channel itself waits between two attempts
VERSION_NS: Final = 60 * 10**9


class Link:
    """What is known of the runtime itself."""

    def __init__(
        self,
        process: Process,
        client: RuntimeClient,
        before: RuntimeRecord,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._process = process
        self._client = client
        self._clock = clock
        self._driver: Driver = "systemd" if _systemd(process) else "cgroupfs"
        # What was known outlives us; whether it answers must be seen anew.
        self.record = replace(before, endpoint=client.endpoint)
        self.connected = asyncio.Event()
        self.restarted = asyncio.Event()
        self.status_ns = 0
        self._errors: dict[str, str] = {}  # what failed -> how
        self._met_ns = 0
        self._lost = False
        self.told: Callable[[], None] = _nobody  # called when it has said how it is

    @property
    def trouble(self) -> str:
        """What goes wrong at the moment, in words; "" if nothing does."""
        return "; ".join(dict.fromkeys(self._errors.values()))

    async def run(self) -> None:
        """Meet the runtime, then ask it for its status each five seconds."""
        pause = FIRST_PAUSE
        while not await self._meet():
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE, pause * 2)
        while True:
            began_ns = self._clock()
            await self._ask()
            passed = (self._clock() - began_ns) / 1e9
            await asyncio.sleep(max(0.1, STATUS_SECONDS - passed))

    async def _ask(self) -> None:
        """Ask how it is, and now and then who it is."""
        if self._clock() - self._met_ns > VERSION_NS and not await self._meet():
            return
        try:
            with self._process.doing("Status"):
                status = await self._client.status()
        except CriError as err:
            self.fails("status", err)
            return
        self.status_ns = self._clock()
        self.record = replace(
            self.record,
            conditions=convert.conditions(status),
            handlers=convert.handlers(status),
            features=convert.features(status),
        )
        self.works("status")
        self.told()

    async def _meet(self) -> bool:
        """Ask who it is and how it is set up."""
        try:
            with self._process.doing("Version"):
                version = await self._client.version(fresh=True)
        except CriError as err:
            self.fails("version", err)
            return False
        self._met_ns = self._clock()
        met = replace(
            self.record,
            connected=True,
            name=version.runtime_name,
            version=version.runtime_version,
            api_version=version.runtime_api_version,
        )
        if met != self.record:
            self.restarted.set()
        if met != self.record or not self.connected.is_set():
            log.info("Container runtime is there", name=met.name, version=met.version)
            self._process.record("runtime", f"{met.name} {met.version}")
        self.record = met
        self.connected.set()
        self.works("version")
        await self._configure()
        return True

    async def _configure(self) -> None:
        try:
            with self._process.doing("RuntimeConfig"):
                driver, source = await cgroup_driver(self._client, self._driver)
        except CriError as err:
            self.fails("config", err)
            return
        self.works("config")
        self.record = replace(self.record, cgroup_driver=driver, cgroup_driver_source=source.value)

    async def _meet_again(self) -> None:
        """After an outage: it may be another runtime that came back."""
        if await self._meet():
            self.restarted.set()
            await self._ask()

    # What the calls of others say about it.

    def fails(self, what: str, err: Exception) -> None:
        """Take that something failed; it is said when it begins and when it changes."""
        if isinstance(err, Unavailable):
            self._lost = True
        # Whichever call comes first finds that nobody is there: its name is no news.
        text = err.message if isinstance(err, Unreachable) else str(err)
        known = self._errors.values()
        if text not in known:
            log.error("Container runtime is in trouble", reason=text)
            self._process.record("runtime-trouble", text)
        self._errors[what] = text

    def works(self, what: str) -> None:
        """Take that something worked; after an outage the runtime is met anew, at once."""
        was = self._errors.pop(what, "")
        if was and not self._errors:
            log.info("Container runtime works again", was=was)
            self._process.record("runtime-works", was)
        if self._lost and self.connected.is_set():
            self._lost = False
            self._process.spawn(self._meet_again(), name="meet the runtime again")


def _nobody() -> None:
    """Tell nobody."""


def _systemd(process: Process) -> bool:
    return process.config.str("cgroupDriver") == "systemd"
