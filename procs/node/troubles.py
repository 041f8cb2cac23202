"""What does not work between the node and its API server, for ``kubeletctl status``.

Written to table ``cluster`` under ``connection`` when it changes, and logged once each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kubelet import logging as klog
from kubelet.cluster.rows import CLUSTER, CONNECTION_KEY, ConnectionRow, Trouble
from kubelet.config.errors import one_line
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process

log = klog.get_logger(__name__)

_FLAPPING_NS: Final = 60 * 10**9
_LOGGED: Final = 6  # times in that


class Troubles:
    """How the node stands with its API server."""

    def __init__(self, process: Process, wall: Callable[[], int] = time.time_ns) -> None:
        self._process = process
        self._wall = wall
        self.row = ConnectionRow()
        self._changes: list[int] = []  # wall clock: when it was logged that it comes or goes

    def load(self) -> None:
        """Go on from what a predecessor said; its troubles are looked at anew."""
        value = self._process.tables.value(CLUSTER, CONNECTION_KEY)
        try:
            self.row = ConnectionRow() if value is None else ConnectionRow.from_wire(value)
        except BadRecordError:
            self.row = ConnectionRow()
        self.note(troubles=())

    def forget(self) -> None:
        """Take back what an earlier life in a cluster said: there is no API server now."""
        self._process.delete(CLUSTER, CONNECTION_KEY)

    def note(self, **changes: Any) -> None:
        """Note what is true now of fields of the row."""
        row = replace(self.row, **changes)
        if row != self.row:
            self.row = row
            self._process.put(CLUSTER, CONNECTION_KEY, row.to_wire())

    def connected(self, error: str | None) -> None:
        """Note that the server answered (None), or why it could not be reached."""
        well = error is None
        text = "" if error is None else one_line(error)
        if well != self.row.connected or not self.row.since_ns:
            self.note(connected=well, since_ns=self._wall(), error=text)
            self._log(text)
        else:
            self.note(error=text)

    def _log(self, error: str) -> None:
        """Log that it is there or away now; one that comes and goes, only so often."""
        now_ns = self._wall()
        self._changes = [at_ns for at_ns in self._changes if 0 <= now_ns - at_ns < _FLAPPING_NS]
        if len(self._changes) >= _LOGGED:
            return
        self._changes.append(now_ns)
        if error:
            log.warning("API server cannot be reached", server=self.row.server, err=error)
        else:
            log.info("API server answers", server=self.row.server)
        if len(self._changes) == _LOGGED:
            log.warning("API server comes and goes, which is not logged for a while")

    def tell(self, what: str, error: object | None) -> None:
        """Note what is wrong with something; None: nothing any more."""
        before = {trouble.what: trouble for trouble in self.row.troubles}
        old = before.pop(what, None)
        if error is None:
            if old is not None:
                log.info("Works again", what=what)
        else:
            text = one_line(str(error))
            if old is None or old.error != text:
                log.warning("Does not work", what=what, err=text)
            since = old.since_ns if old is not None else self._wall()
            before[what] = Trouble(what, text, since)
        self.note(troubles=tuple(before[name] for name in sorted(before)))
