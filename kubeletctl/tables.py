"""The shared memory tables seen from outside: which are readable, and what is in them.

Rows are plain values here. The types of the rows take a tenth of a second to load, so only verbs
that have the time make typed rows of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubeletctl.errors import CtlError, NotThereError
from kubeletctl.rundir import RunDir, denied

if TYPE_CHECKING:
    from shm.reader import Reader
    from shm.tables import Declaration

SOURCES_KEY: Final = "sources"  # in table events: what is wrong with the sources of pods
CONNECTION_KEY: Final = "connection"  # in table cluster: how the node stands with its API server
MOUNTS: Final = "mounts"
_PODS: Final = ("pods", "status", "inflight")  # they have a row for each pod, under its uid


class Tables(NamedTuple):
    """What the tables say, and what is wrong with them."""

    content: dict[str, dict[str, Any]]  # table -> uid -> row, of pods and of their volumes
    problems: list[str]  # a sentence per table that cannot be read
    closed: bool  # they are not for this user to read, which is nobody's fault
    runtime: str = ""  # what the container runtime is
    runtime_problem: str | None = None
    sources: Any = None  # the row about the sources of pods
    connection: Any = None  # the row about the API server


def look(run_dir: RunDir) -> Tables:
    """Attach to every declared table and read the pods."""
    from shm.errors import TableError
    from shm.tables import TABLES

    if not _readable(run_dir.path("tables")):
        return Tables({}, [], closed=True)
    content: dict[str, dict[str, Any]] = {}
    runtime: tuple[str, str | None] = ("", None)
    sources, connection = None, None
    problems = []
    for declaration in TABLES:
        if not _readable(run_dir.path("tables", declaration.name)):
            return Tables({}, [], closed=True)
        try:
            with _attached(run_dir, declaration) as reader:
                if declaration.name in {*_PODS, MOUNTS}:
                    content[declaration.name] = _content(reader)
                elif declaration.name == "runtime":
                    runtime = _runtime(reader)
                elif declaration.name == "events":
                    sources = _value(reader, SOURCES_KEY)
                elif declaration.name == "cluster":
                    connection = _value(reader, CONNECTION_KEY)
        except TableError as problem:
            problems.append(f"table {problem.table} is unavailable: {problem.problem}")
    return Tables(content, problems, False, *runtime, sources, connection)


def pods(run_dir: RunDir) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the rows of the tables about pods (table -> uid -> row), and what is not readable.

    Without table ``pods`` there is nothing to show; without the others there is less.
    """
    first, *others = _PODS
    content, problems = {first: rows(run_dir, first)}, []
    for table in others:
        try:
            content[table] = rows(run_dir, table)
        except NotThereError:
            raise
        except CtlError as problem:
            problems.append(str(problem))
    return content, problems


def there(run_dir: RunDir) -> bool:
    """Whether a kubelet has left tables in the run directory."""
    return os.path.isdir(run_dir.path("tables"))


def rows(run_dir: RunDir, table: str) -> dict[str, Any]:
    """Return every row of a table by its key; one that makes no sense is None."""
    with _opened(run_dir, table) as reader:
        return _content(reader)


def row(run_dir: RunDir, table: str, key: str) -> Any:
    """Return one row of a table; None if there is none, or none that makes sense."""
    with _opened(run_dir, table) as reader:
        return _value(reader, key)


def runtime_problem(run_dir: RunDir) -> str | None:
    """Say what is wrong with the container runtime, or None."""
    with _opened(run_dir, "runtime") as reader:
        return _runtime(reader)[1]


@contextmanager
def _opened(run_dir: RunDir, table: str) -> Iterator[Reader]:
    """Attach to one table; what keeps us from it is an error for the operator."""
    from shm.errors import TableError
    from shm.tables import BY_NAME

    for path in (run_dir.path("tables"), run_dir.path("tables", table)):
        if not _readable(path):
            raise NotThereError(denied(path))
    try:
        with _attached(run_dir, BY_NAME[table]) as reader:
            yield reader
    except TableError as problem:
        raise CtlError(f"Table {problem.table} is unavailable: {problem.problem}") from None


@contextmanager
def _attached(run_dir: RunDir, declaration: Declaration) -> Iterator[Reader]:
    from shm.reader import Reader  # not shm.table: that would load the writer as well

    reader = Reader.attach(Path(run_dir.path("tables")), declaration)
    try:
        yield reader
    finally:
        reader.close()


def _readable(path: str) -> bool:
    """Whether nothing but the absence of a file keeps this user from reading it."""
    try:
        os.stat(path)
    except PermissionError:
        return False
    except OSError:
        return True
    return os.access(path, os.R_OK)


def _content(reader: Reader) -> dict[str, Any]:
    return {entry.key: _unpacked(entry.payload) for entry in reader.items()}


def _value(reader: Reader, key: str) -> Any:
    entry = reader.get(key)
    return None if entry is None else _unpacked(entry.payload)


def _unpacked(payload: bytes) -> Any:
    from shm.codec import unpack  # MessagePack, only where there are rows

    try:
        return unpack(payload)
    except ValueError:
        return None


def _runtime(reader: Reader) -> tuple[str, str | None]:
    """Return what pleg knows of the container runtime, and what is wrong with it."""
    from kubelet.pods.runtime import RUNTIME_KEY, BadRecordError, RuntimeRecord, problem
    from shm.codec import DecodeError, unpack

    entry = reader.get(RUNTIME_KEY)
    if entry is None:
        return "", None
    try:
        record = RuntimeRecord.from_wire(unpack(entry.payload))
    except (BadRecordError, DecodeError) as err:
        return "", f"container runtime: its record cannot be read: {err}"
    pods = len(reader) - 1
    known = " ".join(filter(None, (record.name, record.version))) or "not known yet"
    return f"{known} at {record.endpoint}, {pods} pods", problem(record)
