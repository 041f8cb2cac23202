"""Parts of an object of which nobody vouches for the shape: what is odd is taken as not there."""

from __future__ import annotations

from typing import Any

from procs.node.apiserver.types import Json


def part(of: object, *path: str) -> Json:
    """Return the map at a path; an empty one if there is none."""
    for name in path:
        of = of.get(name) if isinstance(of, dict) else None
    return of if isinstance(of, dict) else {}


def maps(of: object, *path: str) -> list[Json]:
    """Return the maps in the list at a path."""
    *above, last = path
    found = part(of, *above).get(last)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def text(of: object, *path: str) -> str:
    """Return the text at a path; "" if there is none."""
    *above, last = path
    found: Any = part(of, *above).get(last)
    return found if isinstance(found, str) else ""


def condition(node: object, kind: str) -> Json:
    """Return a condition of a node by its type; an empty one if there is none."""
    found = maps(node, "status", "conditions")
    return next((one for one in found if one.get("type") == kind), {})
