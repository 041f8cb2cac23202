"""Which kinds of objects were listed once: the row ``listed`` of table ``cluster``."""

from __future__ import annotations

from dataclasses import replace

from kubelet.cluster.rows import CLUSTER, LISTED_KEY, ListedRow
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process


def listed(process: Process) -> ListedRow:
    """Return what was listed, by this process or one before it."""
    value = process.tables.value(CLUSTER, LISTED_KEY)
    try:
        return ListedRow() if value is None else ListedRow.from_wire(value)
    except BadRecordError:
        return ListedRow()


def note_listed(process: Process, **kinds: bool) -> None:
    """Note that kinds of objects were listed."""
    before = listed(process)
    after = replace(before, **kinds)
    if after != before:
        process.put(CLUSTER, LISTED_KEY, after.to_wire())
