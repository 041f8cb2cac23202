"""Flame graphs: from collapsed stacks to one SVG file that needs nothing else. Pure.

The root stands at the bottom, each frame on top of its caller, as wide as its share of the weight.
Opened in a browser, a click zooms in, a search paints what it matches, and a frame under the
pointer says what it is; opened in anything else it is still a picture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubeletctl.flame_script import SCRIPT, STYLE

WIDTH: Final = 1200.0
MARGIN: Final = 10.0
ROW: Final = 17.0
TOP: Final = 78.0
BOTTOM: Final = 34.0
SMALLEST: Final = 0.0004  # share of the whole below which a frame is not drawn
_LETTER: Final = 6.6  # width of a letter of the font below
_FRAME: Final = re.compile(r"(?P<function>.*) \((?P<place>[^()]*:\d+)\)")
# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

OURS: Final = ("procs/", "kubelet/", "shm/", "supervisor/", "kubeletctl/")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a stack taken apart: ``run (asyncio/runners.py:118)``."""

    function: str
    place: str  # file and line, "" where there is none

    @property
    def file(self) -> str:
        """Return the file without the line."""
        return self.place.rpartition(":")[0]


def split(frame: str) -> Frame:
    """Take one frame's text apart."""
    found = _FRAME.fullmatch(frame)
    return Frame(found["function"], found["place"]) if found else Frame(frame, "")


@dataclass(slots=True)
class Node:
    """One box of the graph: a frame, called by its parent."""

    name: str
    weight: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def tree(stacks: Mapping[str, int]) -> Node:
    """Merge the stacks into one tree."""
    root = Node("all")
    for stack, weight in stacks.items():
        if weight <= 0:
            continue
        node = root
        node.weight += weight
        for name in stack.split(";"):
            node = node.children.setdefault(name, Node(name))
            node.weight += weight
    return root


def self_weights(stacks: Mapping[str, int]) -> list[tuple[Frame, int]]:
    """Return each function's own weight, without its callees', the heaviest first.

    A function counts once, whichever of its lines it was seen at; the place is its heaviest line.
    """
    lines: dict[tuple[str, str], dict[str, int]] = {}
    for stack, weight in stacks.items():
        frame = split(stack.rpartition(";")[2])
        places = lines.setdefault((frame.function, frame.file), {})
        places[frame.place] = places.get(frame.place, 0) + weight
    found = [
        (Frame(function, max(places, key=lambda place: places[place])), sum(places.values()))
        for (function, _), places in lines.items()
    ]
    return sorted(found, key=lambda one: -one[1])


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is drawn: a share of the width, and how deep."""

    node: Node
    start: int  # weight to the left of it
    depth: int


def boxes(root: Node) -> Iterator[Box]:
    """Lay out the tree; children are in the order of their names, so that two graphs compare."""
    pending = [Box(root, 0, 0)]
    while pending:
        box = pending.pop()
        yield box
        start = box.start
        for name in sorted(box.node.children):
            child = box.node.children[name]
            if child.weight >= SMALLEST * root.weight:
                pending.append(Box(child, start, box.depth + 1))
            start += child.weight


def render(stacks: Mapping[str, int], *, title: str, subtitle: str = "", unit: str = "") -> str:
    """Return the flame graph as the text of an SVG file."""
    root = tree(stacks)
    drawn = list(boxes(root)) if root.weight else []
    height = TOP + BOTTOM + ROW * (1 + max((box.depth for box in drawn), default=0))
    body = "\n".join(_box(box, root.weight, height, unit) for box in drawn)
    if not drawn:
        body = f'<text x="{WIDTH / 2}" y="{TOP}" class="middle">no samples: it was idle</text>'
    return _DOCUMENT.format(
        width=f"{WIDTH:g}",
        height=f"{height:g}",
        middle=f"{WIDTH / 2:g}",
        right=f"{WIDTH - MARGIN:g}",
        detail=f"{height - 12:g}",
        title=escape(title),
        subtitle=escape(subtitle),
        total=root.weight,
        unit=escape(unit),
        body=body,
        style=STYLE,
        script=SCRIPT,
    )


def _box(box: Box, total: int, height: float, unit: str) -> str:
    inner = WIDTH - 2 * MARGIN
    x = MARGIN + inner * box.start / total
    width = inner * box.node.weight / total
    y = height - BOTTOM - ROW * (box.depth + 1)
    frame = split(box.node.name)
    share = f"{box.node.weight:,} {unit}, {100 * box.node.weight / total:.2f}%".replace("  ", " ")
    about = (
        f"{frame.function} ({frame.place}): {share}"
        if frame.place
        else f"{frame.function}: {share}"
    )
    label = escape(fit(frame.function, width))
    return (
        f'<g class="frame {group(frame)}" data-start="{box.start}" data-weight="{box.node.weight}" '
        f'data-depth="{box.depth}" data-name="{escape(frame.function)}">'
        f"<title>{escape(about)}</title>"
        f'<rect x="{x:.2f}" y="{y:g}" width="{max(width - 0.5, 0.3):.2f}" height="{ROW - 1:g}" '
        f'rx="2"/><text x="{x + 3:.2f}" y="{y + 12:g}">{label}</text></g>'
    )


def fit(text: str, width: float) -> str:
    """Shorten a text to what a box of that width can show; the script does the same."""
    letters = int((width - 6) / _LETTER)
    if letters < 3:
        return ""
    return text if len(text) <= letters else text[: letters - 2] + ".."


def group(frame: Frame) -> str:
    """Return whose code a frame is, which gives its colour."""
    if not frame.place:
        return "thread"
    if frame.file.startswith(OURS):
        return "ours"
    return "python" if _standard(frame.file) else "library"


def _standard(file: str) -> bool:
    """Whether a file is part of Python itself."""
    import sys  # one name of it

    top = file.partition("/")[0].removesuffix(".py")
    return file.startswith("<frozen") or top in sys.stdlib_module_names


def escape(text: str) -> str:
    """Make any text safe within an element or an attribute."""
    clean = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        clean = clean.replace(char, entity)
    return clean.replace("'", "&#39;")


_DOCUMENT: Final = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" data-total="{total}" data-unit="{unit}">
<title>{title}</title>
<style>{style}</style>
<rect width="100%" height="100%" class="paper"/>
<text x="{middle}" y="24" class="middle head">{title}</text>
<text x="{middle}" y="42" class="middle small">{subtitle}</text>
<g class="legend small">
<rect x="10" y="54" width="11" height="11" class="ours"/><text x="25" y="64">kubelet</text>
<rect x="85" y="54" width="11" height="11" class="python"/><text x="100" y="64">Python</text>
<rect x="155" y="54" width="11" height="11" class="library"/><text x="170" y="64">libraries</text>
<rect x="237" y="54" width="11" height="11" class="thread"/><text x="252" y="64">threads</text>
</g>
<text id="reset" x="{right}" y="46" class="end button" visibility="hidden">reset zoom</text>
<text id="search" x="{right}" y="64" class="end button" visibility="hidden">search</text>
<g id="frames">
{body}
</g>
<text id="detail" x="10" y="{detail}" class="small"> </text>
<text id="matched" x="{right}" y="{detail}" class="end small"> </text>
<script type="text/javascript"><![CDATA[{script}]]></script>
</svg>
"""
