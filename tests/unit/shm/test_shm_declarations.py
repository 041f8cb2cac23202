"""The list of tables, against the list of processes."""

from __future__ import annotations

from shm import layout
from shm.tables import BY_NAME, TABLES, tables_read_by, tables_written_by
from supervisor.kinds import NAMES


def test_every_writer_and_reader_is_a_process():
    """A table names only kinds that exist; its writer is not its reader, and names are unique."""
    for table in TABLES:
        assert table.writer in NAMES, table.name
        assert set(table.readers) <= set(NAMES), table.name
        assert table.writer not in table.readers, table.name
        assert len(set(table.readers)) == len(table.readers), table.name
    assert len(BY_NAME) == len(TABLES) == 14


def test_every_declaration_is_complete_and_fits_a_header():
    """Each has a key, a purpose, a schema and a limit that is sane."""
    for table in TABLES:
        assert table.key
        assert table.holds
        assert table.schema >= 1
        assert (1 << 20) <= table.max_bytes < (1 << 31)
        assert 0 < len(table.name.encode()) < layout.NAME_BYTES
        assert table.name.isidentifier()


def test_who_writes_and_reads_what():
    """The two ways to ask agree with the list."""
    assert [t.name for t in tables_written_by("syncloop")] == [
        "pods",
        "status",
        "events",
        "inflight",
    ]
    assert [t.name for t in tables_read_by("prober")] == ["pods", "status"]
    assert sum(len(tables_written_by(kind)) for kind in NAMES) == len(TABLES)
    assert tables_written_by("supervisor") == tables_read_by("nobody") == ()


def test_secrets_are_mapped_by_those_who_need_them_alone():
    """The objects table is for syncloop and volumes; the processes without root never see it."""
    assert set(BY_NAME["objects"].readers) == {"syncloop", "volumes"}
