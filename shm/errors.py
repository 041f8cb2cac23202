"""What can be wrong with a table. Every error names the table."""

from __future__ import annotations


class TableError(Exception):
    """Something is wrong with a table."""

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(f"table {table}: {problem}")
        self.table = table
        self.problem = problem


class TableUnavailable(TableError):  # noqa: N818 - the state of a table, not a mishap of ours
    """There is no sound table to attach to, now; its writer may make one at any time."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(table, reason)
        self.reason = reason


class TableFull(TableError):  # noqa: N818
    """The table may not, or cannot, grow to hold what is put into it."""

    def __init__(self, table: str, *, wanted: int, used: int, limit: int, why: str) -> None:
        super().__init__(
            table, f"full: no room for {wanted} bytes more ({used} of {limit} bytes used; {why})"
        )
        self.wanted = wanted
        self.used = used
        self.limit = limit


class TableLocked(TableError):  # noqa: N818
    """Another process is writing the table."""

    def __init__(self, table: str, pid: int) -> None:
        super().__init__(table, f"process {pid} is writing it; a table has one writer")
        self.pid = pid


class CorruptEntry(TableError):  # noqa: N818
    """An entry does not match its checksum, and is not being written."""

    def __init__(self, table: str, key: str, offset: int) -> None:
        super().__init__(table, f"entry {short(key)} at offset {offset} fails its checksum")
        self.key = key
        self.offset = offset


class EntryBusy(TableError):  # noqa: N818
    """An entry was rewritten faster than it could be read, for as long as it is sane to try."""

    def __init__(self, table: str, key: str, attempts: int) -> None:
        super().__init__(table, f"entry {short(key)} changed during each of {attempts} reads")
        self.key = key


class BadKey(TableError, ValueError):  # noqa: N818
    """A key that the table cannot hold."""

    def __init__(self, table: str, key: str, why: str) -> None:
        super().__init__(table, f"key {short(key)!r} {why}")
        self.key = key


def short(key: str) -> str:
    """Return the key as an error shows it: the beginning is enough to know it by."""
    return key if len(key) <= 64 else key[:63] + "…"
