"""Tells the events of the node, and remembers in the ledger what was told.

What is about to be told is noted first, as one entry: whoever dies in the middle leaves a successor
that tells the rest, and the recorder knows what it was told already by its moment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kubelet.startup import Cgroups, cgroup_version
from procs.node.apiserver.types import Json
from procs.node.kit import Kit
from procs.node.nodeobject import announce
from supervisor.statereader import State

_TOLD: Final = "nodeobject/told"
_TELLING: Final = "nodeobject/telling"
_STARTED: Final = "nodeobject/started"
_REBOOTED: Final = "nodeobject/rebooted"


class Announcer:
    """The node's events."""

    def __init__(self, kit: Kit, root: str = "/") -> None:
        self._kit = kit
        self._root = root
        self._told = announce.told_of(kit.ledger.get(_TOLD))
        self._creating = False  # in this life

    def started(self, state: State | None) -> bool:
        """Tell that the kubelet starts, once for each start of the whole; whether it is one."""
        if state is None:
            return False
        life = [state.pid, state.started_ns]
        if self._kit.ledger.get(_STARTED) == life:
            return False
        self._emit(announce.starting())
        if cgroup_version(Path(self._root)) is Cgroups.V1:
            self._emit(announce.old_cgroups())
        self._kit.ledger.put(_STARTED, life)
        return True

    def creating(self) -> None:
        """Take that the node is about to be new: whatever it says then is news.

        It is noted before the creation, so that a successor, too, knows who made the node.
        """
        if self._told != {}:
            self._creating = True
            self._remember({})

    def existed(self) -> None:
        """Take that the node was there already, and not by the doing of a predecessor."""
        if self._creating:
            self._told = None
            self._kit.ledger.delete(_TOLD)

    def heard(self, node: Json) -> None:
        """Tell what changed with the object as it is now."""
        self._finish()
        told = announce.heard(self._told, node)
        found = announce.news(told, node)
        if found.events:
            telling = announce.Telling(self._kit.view.uid, self._kit.wall(), found)
            self._kit.ledger.put(_TELLING, telling.to_wire())
            self._tell(telling)
        else:
            self._remember(found.told)

    def looked(self, before: Json, boot_id: str) -> None:
        """Tell that the machine was rebooted, once for each boot (N-15)."""
        if not announce.was_rebooted(before, boot_id):
            return
        if self._kit.ledger.get(_REBOOTED) != boot_id:
            self._emit(announce.rebooted(self._kit.view.name, boot_id))
            self._kit.ledger.put(_REBOOTED, boot_id)

    def _finish(self) -> None:
        """Tell what a predecessor had begun to tell of this very object."""
        left = announce.Telling.from_wire(self._kit.ledger.get(_TELLING))
        if left is not None and left.uid == self._kit.view.uid:
            self._tell(left)

    def _tell(self, telling: announce.Telling) -> None:
        for event in telling.news.events:
            self._emit(event, telling.at_ns)
        self._remember(telling.news.told)
        self._kit.ledger.delete(_TELLING)

    def _remember(self, told: dict[str, str]) -> None:
        if told != self._told:
            self._told = told
            self._kit.ledger.put(_TOLD, told)

    def _emit(self, event: announce.Event, at_ns: int = 0) -> None:
        about = self._kit.view.reference
        self._kit.emit(about, event.type, event.reason, event.message, at_ns)
