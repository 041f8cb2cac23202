"""List and watch of one collection, resumed for as long as anybody wants it.

The Watcher is told everything in order, from the loop. The end of a watch is normal: it is resumed
where it ended. What was missed in a gap comes with the next list, which holds the whole truth.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from kubelet import logging as klog
from kubelet.process import Process
from procs.node.apiserver import progress as step
from procs.node.apiserver.backoff import Backoff
from procs.node.apiserver.client import Client, failure, failure_of_status, target
from procs.node.apiserver.frames import Frames
from procs.node.apiserver.limiter import SECOND_NS
from procs.node.apiserver.progress import ANY, Progress
from procs.node.apiserver.types import (
    ApiError,
    Json,
    Purpose,
    Request,
    Response,
    Stream,
    Transport,
    Watched,
    Watcher,
)

log = klog.get_logger(__name__)

Told = Callable[[ApiError | None], None]

PAGE: Final = 500
SHORTEST: Final = 1.0  # seconds; a watch that ends sooner and brought nothing has failed
_ERROR_BODY: Final = 1 << 20  # bytes of an answer that refuses a watch


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a watch lasts: the server ends it after a time between the first two (seconds)."""

    shortest: int = 300
    longest: int = 600
    overdue: float = 30.0  # after that time: the connection is dead, whatever TCP thinks


class Reflector:
    """Keeps a Watcher up to date."""

    def __init__(  # noqa: PLR0913, PLR0917 - once
        self,
        client: Client,
        transport: Transport,
        watched: Watched,
        watcher: Watcher,
        told: Told | None = None,
        chance: random.Random | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timing: Timing | None = None,
    ) -> None:
        self._client = client
        self._transport = transport
        self._watched = watched
        self._watcher = watcher
        self._told = told
        self._random = chance or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._clock = clock
        self._sleep = sleep
        self._timing = timing or Timing()
        self._backoff = Backoff(self._random)
        self._progress = Progress()
        self._well: bool | None = None  # what was told last
        self._well_ns = 0  # since when the server has answered
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False
        self.synced = asyncio.Event()

    @property
    def name(self) -> str:
        """What is watched, for people."""
        return self._watched.name or self._watched.path

    async def run(self) -> None:
        """List and watch until stopped."""
        if self._stopped:
            return
        self._task = asyncio.current_task()
        while True:
            self._well_ns = 0
            try:
                if self._progress.list_from is not None:
                    await self._list(self._progress.list_from)
                await self._watch()
            except ApiError as err:
                await self._sleep(self._failed(err))

    async def stop(self) -> None:
        """Watch no more; the Watcher hears nothing after this."""
        self._stopped = True
        task = self._task
        if task is not None and task is not asyncio.current_task() and not task.done():
            task.cancel()
            await asyncio.wait({task})

    def _failed(self, error: ApiError) -> float:
        """Note what went wrong; the seconds to wait."""
        lived = self._lived()
        self._progress = step.failed(self._progress, error)
        if step.at_once(error, self._progress):
            log.v(1, "Version is too old, listing again", what=self.name, err=error)
            return 0.0
        wait = self._backoff.failed(
            lived, unreachable=error.unreachable, least=error.retry_after or 0.0
        )
        log.v(2, "List and watch ended", what=self.name, err=error, again=f"{wait:.1f}s")
        self._tell(error)
        return wait

    def _lived(self) -> float:
        return (self._clock() - self._well_ns) / SECOND_NS if self._well_ns else 0.0

    def _works(self) -> None:
        self._well_ns = self._well_ns or self._clock()
        self._tell(None)

    def _tell(self, error: ApiError | None) -> None:
        """Tell each error, but only once that all is well."""
        if self._told is not None and not (error is None and self._well):
            self._told(error)
        self._well = error is None

    # Listing.

    async def _list(self, version: str) -> None:
        try:
            items, found = await self._pages(version, PAGE if version == step.STORE else 0)
        except _ExpiredPageError:
            # It took too long to go through the pages: all of it at once, then.
            items, found = await self._pages(version, 0)
        self._progress = step.listed(self._progress, found)
        self._works()
        self._watcher.listed(items, found)
        self.synced.set()

    async def _pages(self, version: str, limit: int) -> tuple[list[Json], str]:
        found: list[Json] = []
        more = ""
        while True:
            try:
                page = await self._client.get(
                    self._watched.path, query=self._query(version, limit, more)
                )
            except ApiError as err:
                if err.gone and more:
                    raise _ExpiredPageError from None
                raise
            found += self._items(page)
            at, following = _list_metadata(page)
            if following and following == more:
                raise ApiError(
                    f"the list of {self.name} has a page that follows itself", status=502
                )
            more = following
            if not more:
                return found, at

    def _query(self, version: str, limit: int, more: str) -> dict[str, str]:
        query = self._selectors()
        if limit:
            query["limit"] = str(limit)
        if more:
            query["continue"] = more  # it knows the version by itself
        elif version != step.STORE:
            query["resourceVersion"] = version
            if version != ANY:
                query["resourceVersionMatch"] = "NotOlderThan"
        return query

    def _selectors(self) -> dict[str, str]:
        pairs = {"fieldSelector": self._watched.fields, "labelSelector": self._watched.labels}
        return {name: value for name, value in pairs.items() if value}

    def _items(self, page: Json) -> list[Json]:
        """Return the sound objects of a page, with what only the list as a whole says."""
        items = page.get("items") or []
        if not isinstance(items, list):
            raise ApiError(f"the list of {self.name} has no items", status=502)
        api_version, kind = page.get("apiVersion"), str(page.get("kind", ""))
        sound = [item for item in items if self._is_sound(item)]
        for item in sound:
            if api_version and kind.endswith("List"):
                item.setdefault("apiVersion", api_version)
                item.setdefault("kind", kind.removesuffix("List"))
        return sound

    def _is_sound(self, item: Any) -> bool:
        """Whether an object can be told from others; without that nobody can do anything."""
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if not isinstance(metadata, dict):
            metadata = {}
        for field in ("name", "resourceVersion"):
            if not isinstance(metadata.get(field), str) or not metadata[field]:
                name = str(metadata.get("name"))[:256]
                missing = f"metadata.{field}"
                log.warning("Object left out", what=self.name, object=name, missing=missing)
                return False
        return True

    # Watching.

    async def _watch(self) -> None:
        """Watch once, until the server ends it."""
        seconds = self._random.randint(self._timing.shortest, self._timing.longest)
        query = self._selectors() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._progress.version,
            "timeoutSeconds": str(seconds),
        }
        await self._client.turn(Purpose.MAIN)
        request = Request("GET", target(self._watched.path, query))
        before = self._progress.version
        began_ns = self._clock()
        try:
            async with asyncio.timeout(seconds + self._timing.overdue):
                await self._streamed(request, began_ns)
        except TimeoutError:
            log.v(1, "Watch did not end in time and is begun anew", what=self.name)
        lasted = (self._clock() - began_ns) / SECOND_NS
        if lasted < SHORTEST and self._progress.version == before:
            raise ApiError(f"the watch of {self.name} ended at once", status=502)
        self._backoff.healthy(self._lived())

    async def _streamed(self, request: Request, began_ns: int) -> None:
        begun = False
        try:
            async with self._transport.stream(request) as stream:
                begun = True
                self._client.noted("WATCH", stream.status, began_ns, None)
                if stream.status != 200:
                    raise await _refused(request, stream)
                self._works()
                await self._events(stream)
        except ApiError as err:
            if not begun:
                self._client.noted("WATCH", err.status, began_ns, err)
            raise

    async def _events(self, stream: Stream) -> None:
        frames = Frames()
        async for chunk in stream:
            for frame in frames.feed(chunk):
                self._event(frame)
        if frames.pending:
            log.v(1, "Watch ended within a frame", what=self.name, bytes=frames.pending)

    def _event(self, frame: Json) -> None:
        kind: Any = frame.get("type")
        item: Any = frame.get("object")
        if kind == "ERROR":
            raise failure_of_status(item if isinstance(item, dict) else {})
        if kind == "BOOKMARK":
            pass  # says how far we are, and nothing else
        elif kind not in ("ADDED", "MODIFIED", "DELETED"):
            log.warning("Event of an unknown type left out", what=self.name, type=str(kind)[:40])
        elif self._is_sound(item):
            if kind == "DELETED":
                self._watcher.deleted(item)
            else:
                self._watcher.changed(item)
        if version := _version(item):
            self._progress = step.heard(self._progress, version)


class _ExpiredPageError(Exception):
    """The rest of a list cannot be had any more."""


async def _refused(request: Request, stream: Stream) -> ApiError:
    body = b""
    async for chunk in stream:
        body += chunk
        if len(body) > _ERROR_BODY:
            break
    return failure("WATCH", request.path, Response(stream.status, stream.headers, body))


def _version(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    found = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def _list_metadata(page: Json) -> tuple[str, str]:
    """Return the version of a list and how to go on with it."""
    metadata = page.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
        raise ApiError("a list has no metadata.resourceVersion", status=502)
    more = metadata.get("continue")
    return metadata["resourceVersion"], more if isinstance(more, str) else ""


def watching(
    process: Process,
    client: Client,
    chance: random.Random | None = None,
    clock: Callable[[], int] = time.monotonic_ns,
) -> Callable[[Watched, Watcher, Told | None], Reflector]:
    """Return what begins to list and watch: ``kit.Watch``."""

    def watch(watched: Watched, watcher: Watcher, told: Told | None) -> Reflector:
        found = Reflector(client, client.transport, watched, watcher, told, chance, clock)
        process.spawn(found.run(), name=f"watch {found.name}")
        return found

    return watch
