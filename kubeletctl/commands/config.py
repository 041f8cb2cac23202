"""Show the configuration that the running kubelet acts on.

Without a flag: the effective configuration, defaults included, as YAML (or JSON), with secrets
masked. --changed lists only what was set, and by what: a flag, the configuration file, a drop-in.
--unimplemented lists what is accepted but not acted on by this version yet; a * marks what was set.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kubeletctl.context import Context
from kubeletctl.errors import OK, CtlError
from kubeletctl.output import Format, emit, render
from kubeletctl.rundir import load_state
from kubeletctl.screen import Cell, Column, Style, table

if TYPE_CHECKING:
    from kubelet.config import Effective

DEFAULT = "default"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the two lists."""
    lists = parser.add_mutually_exclusive_group()
    lists.add_argument("--unimplemented", action="store_true", help="what is not acted on yet")
    lists.add_argument("--changed", action="store_true", help="what was set, and by what")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the configuration or one of the lists."""
    effective = load(context)
    if options.unimplemented:
        _show_list(unimplemented(effective), context, "Everything that is accepted is acted on.")
    elif options.changed:
        _show_list(changed(effective), context, "Nothing was set: all values are defaults.")
    else:
        form = Format.YAML if context.output is Format.TEXT else context.output
        emit(effective.masked(), form)
    return OK


def load(context: Context) -> Effective:
    """Read what the supervisor wrote for its processes."""
    load_state(context.run_dir)  # what a kubelet that is gone left behind is in force nowhere
    data = context.run_dir.read("config.json")
    from kubelet.config import Effective  # the tables of all fields: slow to import

    try:
        return Effective.from_json(data)
    except (ValueError, KeyError, TypeError) as problem:
        path = context.run_dir.path("config.json")
        raise CtlError(f"{path}: not a configuration: {problem}") from None


def unimplemented(effective: Effective) -> list[dict[str, Any]]:
    """Return the fields and flags that nothing acts on, those that were set first."""
    found = [
        {"name": one.name, "value": one.value, "set_by": one.set_by}
        for one in effective.unimplemented()
    ]
    return sorted(found, key=lambda one: one["set_by"] == DEFAULT)


def changed(effective: Effective) -> list[dict[str, Any]]:
    """Return what was set, and by what."""
    masked = effective.masked()
    return [
        {"name": name, "value": _value(effective, masked, name), "set_by": effective.origin(name)}
        for name in effective.changed
    ]


def _value(effective: Effective, masked: dict[str, Any], name: str) -> Any:
    """Return a value as it may be shown: a field's is taken from the masked document."""
    if name.startswith("--"):
        return effective.get(name)
    place: Any = masked
    for part in name.split("."):
        place = place.get(part) if isinstance(place, dict) else None
    return place


def _show_list(items: list[dict[str, Any]], context: Context, nothing: str) -> None:
    if context.output is not Format.TEXT:
        emit(items, context.output)
        return
    if not items:
        print(nothing)
        return
    columns = (
        Column(" "),
        Column("NAME"),
        Column("SET BY", keep=8),
        Column("VALUE", keep=7, shrinks=True),
    )
    print("\n".join(table(context.screen, columns, [_row(item) for item in items])))


def _row(item: dict[str, Any]) -> list[Cell]:
    was_set = item["set_by"] != DEFAULT
    return [
        Cell("*" if was_set else " ", Style.WARN),
        Cell(item["name"], Style.BOLD if was_set else Style.NONE),
        Cell(item["set_by"]),
        Cell(_one_line(item["value"])),
    ]


def _one_line(value: Any) -> str:
    return " ".join(render(value, Format.JSON).split())
