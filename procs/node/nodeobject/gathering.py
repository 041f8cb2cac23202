"""Puts the facts together, and wakes whoever reports them when one changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kubelet import logging as klog
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import ListImages, NodeImage
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.cache import RuntimeCache
from kubelet.pods.runtime import RUNTIME_KEY, TABLE, RuntimeRecord
from procs.node.kit import Kit
from procs.node.nodeobject import conditions, lookup, odd, readiness
from procs.node.nodeobject.facts import Facts, Kept, pressures_in, read_machine
from procs.node.nodeobject.inuse import InUse, settles_ns
from procs.node.nodeobject.settings import Settings
from procs.node.nodeobject.tree import Judge, Tree

log = klog.get_logger(__name__)

STATS: Final = "stats"
STATS_KEY: Final = "node"
_WELLS: Final = "nodeobject/wells"
_RESOLVED: Final = "nodeobject/resolved"
_IMAGES_SECONDS: Final = 30.0  # T-7
_LOOKUP_SECONDS: Final = 60.0
_FIRST_LOOKUP: Final = 0.5  # seconds that the first start waits for a name server


@dataclass(frozen=True, slots=True)
class Taken:
    """The facts, and when one may be another, should nobody say so before (0: never)."""

    facts: Facts
    again_ns: int


def no_problem() -> str:
    """Say that nothing is wrong."""
    return ""


class Gathering:
    """Where the facts come from."""

    def __init__(
        self,
        kit: Kit,
        settings: Settings,
        wake: Callable[[], None],
        root: str = "/",
        storage: Callable[[], str] = no_problem,
    ) -> None:
        """``storage`` says why volumes do not work here yet."""
        self._kit = kit
        self._settings = settings
        self._wake = wake
        self._root = root
        self._storage = storage
        self._in_use = InUse(kit.process)
        self._config = kit.process.config
        self._cache = RuntimeCache(kit.process)
        self._record: RuntimeRecord | None = None
        self._unknown_ns = kit.clock()  # since when nothing is known of the runtime
        self._images: tuple[NodeImage, ...] | None = None
        self._images_age = Kept(_IMAGES_SECONDS, kit.clock)
        self._lookup_age = Kept(_LOOKUP_SECONDS, kit.clock)
        self._resolved = _texts(kit.ledger.get(_RESOLVED))
        self.tree = Tree(settings.run_dir)
        self._judge = Judge(_moments(kit.ledger.get(_WELLS)), self._keep_wells, kit.process.kind)

    def start(self) -> None:
        """Listen for what changes."""
        self._kit.process.on_hint(self._hinted)
        self._kit.process.heartbeat.on_tick(lambda: self._judge.alive(self._kit.clock()))

    async def prepare(self) -> None:
        """Give a name server a moment, so that a new node does not begin with another address."""
        if self._resolved or not lookup.needed(self._settings, self._root):
            return
        try:
            async with asyncio.timeout(_FIRST_LOOKUP):
                await self._look_up()
        except TimeoutError:
            log.info("No name server answers for the node's name", node=self._settings.node)

    def take(self) -> Taken:
        """Return the facts as they are now; nothing is waited for."""
        self._refresh()
        now_ns, wall_ns = self._kit.clock(), self._kit.wall()
        machine = read_machine(self._config, self._settings, self._resolved, self._root)
        self._kit.troubles.tell("node address", machine.address_problem or None)
        self._record = record = self._cache.runtime()
        was_ready = self._was_ready()
        errors = readiness.runtime_errors(record, now_ns, self._unknown_ns, was_ready)
        moments = [] if errors else [readiness.grace_ends_ns(record, self._unknown_ns)]
        if record is not None and record.healthy:
            moments.clear()
        isolated = self._config.bool("localStorageCapacityIsolation")
        errors += readiness.capacity_errors(machine.capacity, storage=isolated)
        problem = self._storage()
        if problem and not was_ready:  # a node that is ready stays so: pods run on it
            errors.append(problem)
        look = self.tree.look()
        if look is not None:
            silent, again_ns = self._judge.judge(look, now_ns, wall_ns)
            errors += silent
            moments.append(again_ns)
        settles = settles_ns(look)
        moments.append(settles)
        facts = Facts(
            wall_ns=wall_ns,
            machine=machine,
            runtime=record,
            images=self._images,
            pressures=pressures_in(self._kit.process.tables.value(STATS, STATS_KEY)),
            errors=tuple(errors),
            in_use=self._in_use.devices(),
            in_use_settled=self._in_use.readable and 0 < settles <= now_ns,
        )
        return Taken(facts, min((m for m in moments if m > now_ns), default=0))

    def _was_ready(self) -> bool:
        found = odd.condition(self._kit.view.document, conditions.READY)
        return found.get("status") == conditions.TRUE

    def _keep_wells(self, wells: dict[str, int]) -> None:
        self._kit.ledger.put(_WELLS, wells)

    # What changes.

    def _hinted(self, hint: Hint) -> None:
        if self._is_news(hint):
            self._wake()

    def _is_news(self, hint: Hint) -> bool:
        """Whether the status may say something else after a hint."""
        if hint.table == TABLE:  # mostly only its stamp moved
            ours = hint.key in (RUNTIME_KEY, ANY_KEY)
            return ours and self._cache.runtime() is not self._record
        if hint.table == STATS:
            return hint.key in (STATS_KEY, ANY_KEY)
        return self._in_use.hinted(hint)

    def _refresh(self) -> None:
        """Ask others again for what they may know anew."""
        spawn = self._kit.process.spawn
        if self._settings.max_images and self._images_age.due():
            spawn(self._list_images(), name="list of images")
        if lookup.needed(self._settings, self._root) and self._lookup_age.due():
            spawn(self._look_up(), name="lookup of the node's name")

    async def _list_images(self) -> None:
        try:
            request = ListImages(self._settings.max_images)
            found = await self._kit.process.channels.ask("syncloop", request, timeout=20.0)
        except ChannelError as err:
            log.v(1, "Images are not known, what was known stays", err=err)
            self._images_age.forget()
            return
        if found.images != self._images:
            self._images = found.images
            self._wake()

    async def _look_up(self) -> None:
        found = await lookup.resolve(self._settings.node)
        if found and found != self._resolved:  # one that does not answer takes nothing back
            self._resolved = found
            self._kit.ledger.put(_RESOLVED, list(found))
            self._wake()


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for text in value if isinstance(text, str))


def _moments(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {str(kind): ns for kind, ns in value.items() if isinstance(ns, int)}
