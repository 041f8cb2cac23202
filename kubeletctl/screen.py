"""Where the output goes: colours or none, how wide, and tables that fit. Knows no kubelet."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from kubeletctl.words import plain

GAP: Final = "  "
NARROWEST: Final = 4  # a shortened column keeps at least this much


class Style(StrEnum):
    """How a piece of text is shown on a terminal that has colours."""

    NONE = ""
    BOLD = "1"
    DIM = "2"
    GOOD = "32"
    WARN = "33"
    BAD = "1;31"
    INFO = "36"


class Screen(NamedTuple):
    """What the output may look like."""

    colors: bool
    width: int | None  # None: not a terminal, nothing needs to fit
    height: int | None = None

    def paint(self, text: str, style: Style) -> str:
        """Return the text in a style, or as it is where there are no colours."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.colors and style else text


def detect(no_color: bool) -> Screen:
    """Look at standard output and at the environment (NO_COLOR, TERM)."""
    if not sys.stdout.isatty():
        return Screen(colors=False, width=None)
    plainly = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return Screen(colors=not plainly, width=80, height=24)
    return Screen(colors=not plainly, width=size.columns or 80, height=size.lines or 24)


class Cell(NamedTuple):
    """One field of a table."""

    text: str
    style: Style = Style.NONE


class Column(NamedTuple):
    """One column: ``keep`` is how dear it is; the least dear is left out first."""

    title: str
    keep: int = 9
    right: bool = False
    shrinks: bool = False  # may be shortened before anything is left out


def table(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Lay out a table that fits the screen: shorten what may be, then leave columns out."""
    shown = list(range(len(columns)))
    widths = [
        max(len(columns[i].title), *(len(plain(row[i].text)) for row in rows), 0) for i in shown
    ]
    while (excess := _excess(screen, widths, shown)) > 0:
        room = sum(max(0, widths[i] - NARROWEST) for i in shown if columns[i].shrinks)
        if room >= excess and all(widths[i] - excess >= 12 for i in shown if columns[i].shrinks):
            _shrink(columns, widths, shown, excess)
        elif len(shown) > 1:
            shown.remove(min(shown, key=lambda i: (columns[i].keep, -i)))
        else:
            widths[shown[0]] -= excess
    head = [Cell(column.title, Style.DIM) for column in columns]
    return [_line(screen, columns, widths, shown, row) for row in (head, *rows)]


def _excess(screen: Screen, widths: list[int], shown: list[int]) -> int:
    if screen.width is None:
        return 0
    return sum(widths[i] for i in shown) + len(GAP) * (len(shown) - 1) - screen.width


def _shrink(columns: Sequence[Column], widths: list[int], shown: list[int], excess: int) -> None:
    for i in shown:
        if columns[i].shrinks and excess > 0:
            less = min(excess, widths[i] - NARROWEST)
            widths[i] -= less
            excess -= less


def _line(
    screen: Screen,
    columns: Sequence[Column],
    widths: list[int],
    shown: list[int],
    row: Sequence[Cell],
) -> str:
    parts = []
    for i in shown:
        text = shorten(plain(row[i].text), widths[i])
        pad = " " * (widths[i] - len(text))
        painted = screen.paint(text, row[i].style)
        parts.append(pad + painted if columns[i].right else painted + pad)
    return GAP.join(parts).rstrip()


def shorten(text: str, width: int) -> str:
    """Cut a text that is too long, visibly."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def wrap(screen: Screen, text: str, first: str, rest: str) -> list[str]:
    """Break a sentence into lines that fit; ``first`` and ``rest`` begin them."""
    lines, line = [], first
    for word in plain(text).split():
        if screen.width and len(line) + len(word) >= screen.width and line.strip(" *"):
            lines.append(line.rstrip())
            line = rest
        line += word + " "
    return [*lines, line.rstrip()]
