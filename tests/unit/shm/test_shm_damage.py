"""Table files that were cut, overwritten or made by somebody else.

Whatever happened to the file: an entry that is returned is the one that was put, and everything
else is said. Attaching never dies of a signal.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import zlib
from dataclasses import replace

import pytest

from shm import layout
from shm.table import CorruptEntry, Reader, TableError, TableUnavailable, Writer


@pytest.fixture
def pristine(tables, declaration):
    """Return what a table with a past holds; its file is kept aside."""
    writer = Writer.attach(tables, declaration)
    for i in range(100):
        writer.put(f"pod-{i}", os.urandom(i * 37), i)
    for i in range(0, 100, 3):
        writer.put(f"pod-{i}", os.urandom(500), i + 1000)
    for i in range(0, 100, 7):
        writer.delete(f"pod-{i}")
    content = {key: writer.get(key) for key in writer.keys()}  # noqa: SIM118 - not a dictionary
    writer.close()
    (tables / "example").rename(tables / "pristine")
    return content


def damage(tables, change):
    """Put a changed copy of the file in place."""
    data = bytearray((tables / "pristine").read_bytes())
    change(data)
    (tables / "example").write_bytes(data)


def check_reader(tables, declaration, content):
    """Read everything: right or reported. Return how many reports there were."""
    reports = 0
    try:
        reader = Reader.attach(tables, declaration)
    except TableUnavailable:
        return 1
    for key, entry in content.items():
        try:
            assert reader.get(key) == entry
        except CorruptEntry:
            reports += 1
    try:
        assert sorted(reader.keys()) == sorted(content)
        assert sorted(reader.changed_since(0)[1]) == sorted(content)
    except TableError:
        reports += 1
    reader.close()
    return reports


def check_writer(tables, declaration, content):
    """Attach: everything is there, or it says why nothing is. Return whether it was rebuilt."""
    writer = Writer.attach(tables, declaration)
    if writer.reason is None:
        assert {key: writer.get(key) for key in writer.keys()} == content  # noqa: SIM118
    else:
        assert writer.reason.startswith("table example: ")
        assert writer.reason.endswith("; rebuilt empty")
        assert (len(writer), writer.fresh) == (0, True)
    assert writer.verify() is None
    writer.put("after", b"works")
    writer.close()
    return writer.reason is not None


def test_random_bytes_flipped(tables, declaration, pristine):
    """500 times one byte to eight bytes are changed, half of them where it must hurt."""
    rng = random.Random(20)
    reported = rebuilt = 0
    for turn in range(500):

        def flip(data, turn=turn):
            reach = len(data) if turn % 2 else layout.PAGE * 10
            for _ in range(rng.choice((1, 1, 1, 2, 8))):
                data[rng.randrange(reach)] ^= rng.randrange(1, 256)

        damage(tables, flip)
        reported += bool(check_reader(tables, declaration, pristine))
        rebuilt += check_writer(tables, declaration, pristine)
    assert reported > 50
    assert rebuilt >= reported


def test_every_byte_of_a_slot_and_of_the_header_flipped(tables, declaration, pristine):
    """Each byte of the header's used part and of one live and one deleted slot, in turn."""
    for place in [*range(512), *range(32768, 32768 + 1024)]:

        def flip(data, place=place):
            data[place] ^= 0x41

        damage(tables, flip)
        check_reader(tables, declaration, pristine)
        check_writer(tables, declaration, pristine)


def test_cut_at_every_page_and_anywhere(tables, declaration, pristine):
    """A file that is shorter than it says is refused by a reader and replaced by a writer."""
    rng = random.Random(4)
    size = (tables / "pristine").stat().st_size
    cuts = [*range(0, size, layout.PAGE), *(rng.randrange(size) for _ in range(100)), 1, size - 1]
    for cut in cuts:
        damage(tables, lambda data, cut=cut: data.__delitem__(slice(cut, None)))
        with pytest.raises(TableUnavailable, match="table example: the file has"):
            Reader.attach(tables, declaration)
        assert check_writer(tables, declaration, pristine)


def test_pages_turned_to_zero(tables, declaration, pristine):
    """A page that was lost is noticed wherever it held something."""
    size = (tables / "pristine").stat().st_size
    rebuilt = 0
    for page in range(0, size, layout.PAGE):
        damage(
            tables,
            lambda data, page=page: data.__setitem__(
                slice(page, page + layout.PAGE), bytes(layout.PAGE)
            ),
        )
        rebuilt += check_writer(tables, declaration, pristine)
    assert rebuilt > 20


def test_a_damaged_entry_is_named_and_the_others_are_not_affected(tables, declaration):
    """One flipped bit in a payload: that entry is reported, with its key and place."""
    writer = Writer.attach(tables, declaration)
    writer.put("good", b"g" * 100)
    writer.put("bad", b"needle" * 100)
    path = tables / "example"
    at = path.read_bytes().index(b"needle")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"N")
    reader = Reader.attach(tables, declaration)
    assert reader.get("good").payload == b"g" * 100
    message = r"^table example: entry bad at offset \d+ fails its checksum$"
    with pytest.raises(CorruptEntry, match=message):
        reader.get("bad")
    with pytest.raises(CorruptEntry, match=message):
        writer.get("bad")
    assert writer.verify() == "table example: " + str(reader_error(reader)).partition(": ")[2]
    writer.put("bad", b"healed")  # the other buffer
    assert reader.get("bad").payload == b"healed"
    assert writer.verify() is None
    reader.close()
    writer.close()


def reader_error(reader):
    """Return the error that reading the bad entry gives."""
    try:
        reader.get("bad")
    except CorruptEntry as err:
        return err
    raise AssertionError


def patch_constants(data, **changes):
    """Rewrite the header's constants with a CRC that fits, as another version would."""
    names = ("magic", "order", "version", "schema", "name")
    values = dict(zip(names, layout.CONSTANTS.unpack_from(data), strict=True)) | changes
    constants = layout.CONSTANTS.pack(*values.values())
    data[: len(constants)] = constants
    struct.pack_into("=I", data, len(constants), zlib.crc32(constants))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"magic": b"NOTATABL"}, "does not begin as a table does"),
        ({"order": 0x0807060504030201}, "another byte order"),
        ({"version": 99}, "layout version 99, this is 1"),
        ({"schema": 7}, "schema version 7, this is 1"),
        ({"name": b"pods"}, "it holds the table 'pods'"),
    ],
)
def test_a_table_of_another_making_is_named_as_such(tables, declaration, pristine, changes, said):
    """Version, schema, byte order and name are told apart from damage."""
    assert pristine
    damage(tables, lambda data: patch_constants(data, **changes))
    with pytest.raises(TableUnavailable, match=said):
        Reader.attach(tables, declaration)
    writer = Writer.attach(tables, declaration)
    assert said in writer.reason
    writer.close()


def test_files_that_never_were_tables(tables, declaration):
    """Nothing, noise, a text and a pipe are all replaced by an empty table."""
    path = tables / "example"
    for content in (b"", b"\0" * 4096, os.urandom(100_000), b"hello\n"):
        path.write_bytes(content)
        with pytest.raises(TableUnavailable):
            Reader.attach(tables, declaration)
        assert check_writer(tables, declaration, {})
        path.unlink()
    os.mkfifo(path)
    with pytest.raises(TableUnavailable):
        Reader.attach(tables, declaration)
    assert check_writer(tables, declaration, {})


def test_a_link_and_a_directory_are_refused(tables, declaration):
    """What is not ours to replace is an error that names the table and the path."""
    target = tables / "elsewhere"
    target.write_bytes(b"precious")
    (tables / "example").symlink_to(target)
    with pytest.raises(TableUnavailable, match=r"table example: cannot open .*example"):
        Writer.attach(tables, declaration)
    assert target.read_bytes() == b"precious"
    (tables / "example").unlink()
    (tables / "example").mkdir()
    with pytest.raises(TableUnavailable, match="table example: cannot open"):
        Writer.attach(tables, declaration)


def test_a_table_grown_in_the_file_but_not_in_the_header_is_sound(tables, declaration, pristine):
    """A writer killed while the file grew leaves bytes that nobody uses yet."""
    damage(tables, lambda data: data.extend(bytes(10_000)))
    assert check_reader(tables, declaration, pristine) == 0
    assert not check_writer(tables, declaration, pristine)


def test_a_damaged_live_header_does_not_break_a_reader(tables, declaration):
    """Words that change under a reader are checked too: it reports, it does not fall over."""
    writer = Writer.attach(tables, declaration)
    writer.put("a", b"1")
    reader = Reader.attach(tables, declaration)
    right = writer._words[layout.W_SIZE]
    for wrong in (right + 1, right + (1 << 40), (1 << 64) - 8):
        writer._words[layout.W_SIZE] = wrong
        assert reader.get("a").payload == b"1"
        with pytest.raises(TableUnavailable, match="does not have the"):
            reader.keys()
    writer._words[layout.W_SIZE] = right
    assert reader.keys() == ["a"]
    writer._words[layout.W_GENERATION] += 1 << 40
    ahead, _ = reader.changed_since(0)
    writer.put("b", b"2")
    assert sorted(reader.changed_since(ahead)[1]) == ["a", "b"]
    writer._words[layout.W_GENERATION] += 1 << 40
    writer._words[layout.W_INDEX] += 1
    assert len(reader.keys()) == 2  # it has looked while the header claimed too much
    writer.put("c", b"3")
    assert reader.get("c").payload == b"3"
    reader.close()
    writer.close()


def test_a_new_schema_replaces_a_table_that_somebody_still_reads(tables, declaration):
    """The old file stays mapped and says that it was superseded."""
    writer = Writer.attach(tables, declaration)
    writer.put("a", b"1")
    writer.close()
    shutil.copy(tables / "example", tables / "copy")
    reader = Reader.attach(tables, declaration)
    Writer.attach(tables, replace(declaration, schema=2)).close()
    assert reader._words[layout.W_SUPERSEDED] == layout.SUPERSEDED
    assert reader.get("a").payload == b"1"
    reader.close()


@pytest.mark.parametrize("word", [0, 1])
def test_a_flipped_bit_in_a_sequence_word_is_known_as_such(tables, declaration, pristine, word):
    """The word and its complement must agree; where an entry stood is part of what is said."""
    assert pristine

    def flip(data):
        data[32768 + layout.SLOT_BYTES + word * 8] ^= layout.LIVE

    damage(tables, flip)
    reader = Reader.attach(tables, declaration)
    with pytest.raises(CorruptEntry, match="at offset 33280"):
        reader.get("pod-1")
    reader.close()
    writer = Writer.attach(tables, declaration)
    said = "the sequence word at offset 33280 is not a sound one"
    assert writer.reason == f"table example: {said}; rebuilt empty"
    writer.close()
