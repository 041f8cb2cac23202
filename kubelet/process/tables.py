"""A process's side of shared memory: the tables that it writes, and those that it reads.

All are opened before the process gives up its privileges. A table that a reader cannot make sense
of is not its reader's to mend: the reader treats it as empty, says so, and asks the writer to look
at it; a writer that finds its table broken starts anew, which rebuilds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kubelet import logging as klog
from shm.codec import pack, unpack
from shm.errors import CorruptEntry, TableUnavailable
from shm.table import Entry, Reader, Writer
from shm.tables import BY_NAME, Declaration, tables_read_by, tables_written_by

log = klog.get_logger(__name__)


class Tables:
    """The tables of one process."""

    def __init__(self, directory: Path, kind: str) -> None:
        self._directory = directory
        self.writers: dict[str, Writer] = {}
        self._readers: dict[str, Reader] = {}
        self._unavailable: dict[str, str] = {}
        self._generations: dict[str, int] = {}
        self._complain: Callable[[str, str], None] = lambda _table, _reason: None
        for declaration in tables_written_by(kind):
            self.writers[declaration.name] = self._attach_writer(declaration)
        for declaration in tables_read_by(kind):
            if declaration.name not in self.writers:
                self._attach_reader(declaration)

    def on_broken(self, complain: Callable[[str, str], None]) -> None:
        """Call back with table and reason for as long as a table cannot be read."""
        self._complain = complain

    def _attach_writer(self, declaration: Declaration) -> Writer:
        writer = Writer.attach(self._directory, declaration)
        if writer.reason:
            log.warning("Table rebuilt", table=declaration.name, reason=writer.reason)
        elif len(writer):
            log.info("Table taken over", table=declaration.name, entries=len(writer))
        return writer

    def _attach_reader(self, declaration: Declaration) -> None:
        name = declaration.name
        try:
            self._readers[name] = Reader.attach(self._directory, declaration)
        except TableUnavailable as err:
            self._set_unavailable(name, str(err))
            return
        if self._unavailable.pop(name, None):
            log.info("Table is readable again", table=name)

    def _set_unavailable(self, table: str, reason: str) -> None:
        reader = self._readers.pop(table, None)
        if reader is not None:
            reader.close()
        if self._unavailable.get(table) != reason:
            self._unavailable[table] = reason
            log.error("Table cannot be read, taken as empty", table=table, reason=reason)

    @property
    def read(self) -> dict[str, str]:
        """The tables that this process reads, with their writers."""
        names = {*self._readers, *self._unavailable}
        return {name: BY_NAME[name].writer for name in sorted(names)}

    @property
    def can_open(self) -> bool:
        """Whether a table can still be opened: not by a process that gave up root."""
        return os.access(self._directory, os.R_OK | os.X_OK)

    @property
    def unavailable(self) -> dict[str, str]:
        """The tables that cannot be read, and why."""
        return dict(self._unavailable)

    def put(self, table: str, key: str, value: Any, stamp_ns: int = 0) -> int:
        """Write an entry; the table's new generation."""
        return self.writers[table].put(key, pack(value), stamp_ns)

    def get(self, table: str, key: str) -> Entry | None:
        """An entry as bytes; None where it is not there or cannot be read."""
        source = self._source(table)
        if source is None:
            return None
        try:
            return source.get(key)
        except CorruptEntry as err:
            self._broken(table, err)
            return None

    def value(self, table: str, key: str) -> Any:
        """An entry, decoded; None where it is not there."""
        entry = self.get(table, key)
        return None if entry is None else unpack(entry.payload)

    def keys(self, table: str) -> list[str]:
        """The keys of a table; none where it cannot be read."""
        source = self._source(table)
        if source is None:
            return []
        try:
            return list(source.keys())
        except CorruptEntry as err:
            self._broken(table, err)
            return []

    def items(self, table: str) -> Iterator[tuple[str, Any]]:
        """All entries of a table, decoded."""
        for key in self.keys(table):
            entry = self.get(table, key)
            if entry is not None:
                yield key, unpack(entry.payload)

    def _source(self, table: str) -> Reader | Writer | None:
        return self.writers[table] if table in self.writers else self._readers.get(table)

    def _broken(self, table: str, error: CorruptEntry) -> None:
        if table in self.writers:
            raise error  # our own: it is rebuilt by starting anew
        self._set_unavailable(table, str(error))

    def tick(self) -> list[str]:
        """Catch up with tables that were replaced; the names of those that changed since."""
        for name, reason in list(self._unavailable.items()):
            self._complain(name, reason)
            if self.can_open:
                self._attach_reader(BY_NAME[name])
        changed = []
        for name, reader in list(self._readers.items()):
            try:
                reader.refresh()
            except TableUnavailable as err:
                self._set_unavailable(name, str(err))
                continue
            if reader.generation != self._generations.get(name):
                self._generations[name] = reader.generation
                changed.append(name)
        return changed

    def close(self) -> None:
        """Let go of everything."""
        for writer in self.writers.values():
            writer.close()
        for reader in self._readers.values():
            reader.close()
