"""Tables that fit, numbers that read, and text that cannot drive a terminal."""

from __future__ import annotations

import pytest

from kubeletctl.commands import status, top
from kubeletctl.screen import Cell, Column, Screen, Style, shorten, table, wrap
from kubeletctl.words import age, plain, short_age

ROWS = [
    [Cell("syncloop"), Cell("12345"), Cell("a very long operation that goes on"), Cell("9")],
    [Cell("api"), Cell("1"), Cell("-"), Cell("10")],
]
COLUMNS = (
    Column("NAME"),
    Column("PID", keep=5, right=True),
    Column("OPERATION", keep=3, shrinks=True),
    Column("FDS", keep=1, right=True),
)


@pytest.mark.parametrize("width", range(8, 80))
def test_no_line_is_wider_than_the_screen(width: int):
    """Whatever the width, every line fits, and the first column stays."""
    lines = table(Screen(colors=False, width=width), COLUMNS, ROWS)
    assert max(map(len, lines)) <= width
    assert all(line.startswith(name) for line, name in zip(lines, ("NAME", "sync"), strict=False))


def test_the_least_dear_column_goes_first():
    """FDS goes before OPERATION, OPERATION before PID; before that OPERATION is shortened."""
    wide = table(Screen(colors=False, width=50), COLUMNS, ROWS)
    assert "FDS" in wide[0]
    assert "…" in wide[1]
    narrow = table(Screen(colors=False, width=30), COLUMNS, ROWS)[0].split()
    assert narrow == ["NAME", "PID", "OPERATION"]
    assert table(Screen(colors=False, width=18), COLUMNS, ROWS)[0].split() == ["NAME", "PID"]


def test_without_a_terminal_nothing_is_cut():
    """Piped output has all columns in full."""
    lines = table(Screen(colors=False, width=None), COLUMNS, ROWS)
    assert "a very long operation that goes on" in lines[1]


def test_80_columns_keep_what_matters():
    """On a classic terminal name, pid, state, age, restarts, beat, CPU and memory are there."""
    row = [
        Cell(text)
        for text in (
            "supervisor", "4194303", "starting", "12h34m", "999", "killed by SIGKILL 12s ago",
            "4.2s", "1.5ms", "1000.0", "100.0", "100.0", "12", "1000", "relist of all pods (3.1s)",
        )
    ]  # fmt: skip
    lines = table(Screen(colors=False, width=80), status.COLUMNS, [row])
    assert max(map(len, lines)) <= 80
    for title in ("PROCESS", "PID", "STATE", "UP", "RESTARTS", "BEAT", "CPU m", "PSS MiB"):
        assert title in lines[0]
    assert "RSS MiB" not in lines[0]
    assert {column.title for column in top.COLUMNS} >= {"CTX/s", "RUNQ %", "LAG"}


def test_colours_only_where_there_are_colours():
    """A screen without colours gets bare text."""
    assert Screen(colors=False, width=80).paint("x", Style.BAD) == "x"
    assert Screen(colors=True, width=80).paint("x", Style.BAD) == "\x1b[1;31mx\x1b[0m"
    assert Screen(colors=True, width=80).paint("x", Style.NONE) == "x"


def test_colours_do_not_shift_columns():
    """Escape sequences take no room in the layout."""
    bare = table(Screen(colors=False, width=None), COLUMNS, ROWS)
    coloured = table(
        Screen(colors=True, width=None),
        COLUMNS,
        [[Cell(cell.text, Style.BAD) for cell in row] for row in ROWS],
    )
    stripped = [line.replace("\x1b[1;31m", "").replace("\x1b[2m", "") for line in coloured]
    assert [line.replace("\x1b[0m", "").rstrip() for line in stripped] == bare


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"), (0, "0.0s"), (4.24, "4.2s"), (9.96, "10s"), (59.4, "59s"), (59.6, "1m00s"),
        (192, "3m12s"), (3599.9, "1h00m"), (18180, "5h03m"), (86400, "1d0h"), (273600, "3d4h"),
    ],
)  # fmt: skip
def test_age(seconds: float, text: str):
    """Ages have two or three digits, never 60 seconds or 60 minutes."""
    assert age(seconds) == text


def test_short_age():
    """Below a second it is milliseconds; unknown is a dash."""
    assert [short_age(ms) for ms in (None, 0.04, 9.9, 42.4, 4200)] == [
        "-", "0.0ms", "9.9ms", "42ms", "4.2s",
    ]  # fmt: skip


def test_plain_shows_instead_of_obeying():
    """Escape, bell, newline and the like are replaced, letters of any language stay."""
    assert plain("a\x1b[2Jb\nc\x9b") == "a�[2Jb�c�"
    assert plain("größe 容量") == "größe 容量"


def test_wrap_and_shorten():
    """Sentences break at words; texts are cut visibly."""
    lines = wrap(Screen(colors=False, width=20), "one two three four five six", "  * ", "    ")
    assert lines == ["  * one two three", "    four five six"]
    assert wrap(Screen(colors=False, width=None), "a b", "- ", "  ") == ["- a b"]
    assert shorten("abcdef", 4) == "abc…"
