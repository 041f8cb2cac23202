"""The HTTP source: a URL that gives a Pod or a list of pods, asked again and again (P-6).

What was fetched last stays in force for as long as nothing better comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.pods.rows import HTTP
from kubelet.process import Process
from procs.syncloop.sources import fetch, manifest
from procs.syncloop.sources.changes import Deliver, Delivery
from procs.syncloop.sources.document import UnreadableError
from procs.syncloop.sources.fetch import FetchError, Headers, without_secrets
from procs.syncloop.sources.file import LARGE, SHORTEST
from procs.syncloop.sources.keeping import keep
from procs.syncloop.sources.manifest import Parsed

log = klog.get_logger(__name__)

LOUD: Final = (
    3  # failures in a row that are logged as such; more of them only at a higher verbosity
)


class HttpSource:
    """Delivers the pods that a URL gives."""

    name = HTTP

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        *,
        process: Process,
        node: str,
        url: str,
        headers: Headers,
        seconds: float,
        deliver: Deliver,
        good: Mapping[str, Pod],
    ) -> None:
        self._process = process
        self._node = node
        self._url = url
        self._shown = without_secrets(url)
        self._headers = headers
        self._seconds = max(seconds, SHORTEST)
        self._deliver = deliver
        self._good = good
        self._failures = 0
        self._body: bytes | None = None
        self._parsed: tuple[Parsed, ...] = ()
        self._delivered: Delivery | None = None

    def start(self) -> None:
        """Begin to deliver."""
        self._process.spawn(self._run(), name="manifest URL")

    async def _run(self) -> None:
        """Ask from start to start; a server has no way to tell that something is new."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            await self._poll()
            await asyncio.sleep(max(began + self._seconds - clock(), 0.0))

    async def _poll(self) -> None:
        try:
            with self._process.doing("fetch manifests"):
                body = await fetch.get(self._url, self._headers)
            if body != self._body:
                self._parsed = await self._parse(body)
                self._body = body
        except (FetchError, UnreadableError) as err:
            self._failed(f"{self._shown}: {err}")
            return
        if self._failures:
            log.info("Manifest URL works again", url=self._shown, failures=self._failures)
        self._failures = 0
        kept = keep(HTTP, self._parsed, self._good)
        self._good = kept.good
        self._give(Delivery(HTTP, kept.candidates, kept.problems))

    async def _parse(self, body: bytes) -> tuple[Parsed, ...]:
        arguments = (body, self._url, self._node, self._shown)
        if len(body) >= LARGE:
            return await asyncio.to_thread(manifest.from_body, *arguments)
        return manifest.from_body(*arguments)

    def _failed(self, problem: str) -> None:
        """Say that nothing could be had; what was known stays in force."""
        self._failures += 1
        if self._failures <= LOUD:
            log.error("Manifest URL cannot be used", problem=problem, failures=self._failures)
        else:
            log.v(4, "Manifest URL cannot be used", problem=problem, failures=self._failures)
        before = self._delivered
        if before is None or not before.complete:
            self._give(Delivery(HTTP, (), (problem,), complete=False))
        else:
            self._give(Delivery(HTTP, before.candidates, (problem,)))

    def _give(self, delivery: Delivery) -> None:
        if delivery != self._delivered:
            self._delivered = delivery
            self._deliver(delivery)
