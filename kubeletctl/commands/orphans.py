"""List pod directories that no pod owns any more, and why each of them is still there.

They are removed by the kubelet itself, as soon as nothing is in the way: whoever removes one by
hand removes what is mounted below it too. Listed are directories below <root-dir>/pods that table
pods does not know, or knows only as something to be removed; and devices that a CSI driver has
staged and no pod uses. Nothing that is mounted is looked into, so it answers when every file server
is dead. -o wide shows every mount.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from kubeletctl import tables
from kubeletctl.context import Context
from kubeletctl.errors import OK, CtlError, NotThereError
from kubeletctl.fields import flag, obj, objs, text
from kubeletctl.output import Format, emit
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.screen import Screen, Style, wrap
from kubeletctl.words import count, plain

if TYPE_CHECKING:
    from procs.volumes.orphans import Found, Known, Orphan, Reason, Staged

OWN_OUTPUT: Final = True
FORMS: Final = ("text", "wide", "json", "yaml")
SHOWN: Final = 3  # mounts of a directory, before the others are only counted
_NOBODY: Final = ("no source",)  # nobody has said yet which sources there are


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the form of the output."""
    parser.add_argument(
        "-o", "--output", dest="form", choices=FORMS, default="", help="(default text)"
    )


def run(options: argparse.Namespace, context: Context) -> int:
    """Look once, and print what nobody wants."""
    from procs.volumes import orphans

    form = options.form or str(context.output)
    root = root_dir(context.run_dir)
    found = orphans.look(root, known(context.run_dir))
    if form in {"json", "yaml"}:
        emit(document(root, found), Format(form))
    else:
        print("\n".join(render(context.screen, root, found, wide=form == "wide")))
    return OK


def root_dir(run_dir: RunDir) -> str:
    """Return the root directory of the kubelet that runs, or that ran here last."""
    from kubelet.config import Effective

    try:
        load_state(run_dir)
    except NotThereError as problem:
        if not tables.there(run_dir):
            raise
        print(f"kubeletctl: {problem}. Nothing is removed until one does.", file=sys.stderr)
    data, path = run_dir.read("config.json"), run_dir.path("config.json")
    try:
        return Effective.from_json(data).str("--root-dir")
    except (ValueError, KeyError, TypeError) as problem:
        raise CtlError(f"{path}: not a configuration: {problem}") from None


def known(run_dir: RunDir) -> Known:
    """Return what the tables say; without table pods nothing can be told apart."""
    from procs.volumes.orphans import Known

    pods = tables.rows(run_dir, "pods")
    sources = tables.row(run_dir, "events", tables.SOURCES_KEY)
    delivered = obj(sources, "delivered")
    late = tuple(name for name, given in delivered.items() if given is False)
    return Known(
        pods={uid: _full(row) for uid, row in pods.items()},
        adopted=frozenset(uid for uid, row in pods.items() if flag(obj(row, "ending"), "orphan")),
        errors={uid: _errors(row) for uid, row in tables.rows(run_dir, "mounts").items()},
        undelivered=late if isinstance(sources, dict) else _NOBODY,
    )


def _full(row: Any) -> str:
    return "/".join(filter(None, (text(row, "namespace"), text(row, "name"))))


def _errors(row: Any) -> tuple[str, ...]:
    """Return what was said of the volumes of a pod, each sentence once."""
    said = {
        f"{text(one, 'operation')}: {text(one, 'reason')}".removeprefix(": ")
        for one in objs(row, "volumes")
        if text(one, "reason")
    }
    return tuple(sorted(said))


def document(root: str, found: Found) -> dict[str, Any]:
    """Return what programs are told."""
    return {
        "root_dir": root,
        "pods": [_for_programs(asdict(one)) for one in found.pods],
        "staged": [_for_programs(asdict(one)) for one in found.staged],
    }


def _for_programs(value: Any) -> Any:
    """Make plain values of what JSON and YAML have no word for: enums, names that are no text."""
    if isinstance(value, dict):
        return {key: _for_programs(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_for_programs(one) for one in value]
    if isinstance(value, str):
        return str(value).encode(errors="surrogateescape").decode(errors="replace")
    return value


def render(screen: Screen, root: str, found: Found, *, wide: bool) -> list[str]:
    """Lay out the list."""
    if not found.pods and not found.staged:
        return [f"Nothing is orphaned below {plain(root)}."]
    lines = []
    if found.pods:
        amount = count(len(found.pods), "pod directory", "pod directories")
        lines.append(f"{amount} without a pod, below {plain(root)}/pods:")
    for one in found.pods:
        lines += _pod(screen, one, wide=wide)
    if found.staged:
        amount = count(len(found.staged), "staged CSI volume")
        lines.append(f"{amount} that no pod on disk uses:")
    for volume in found.staged:
        lines += _staged(screen, volume)
    return lines


def _pod(screen: Screen, one: Orphan, *, wide: bool) -> list[str]:
    name = f"  ({plain(one.pod)})" if one.pod else ""
    lines = [f"  {screen.paint(plain(one.uid), Style.BOLD)}{name}"]
    for reason in _shown(one, wide=wide):
        lines += wrap(screen, reason, "    * ", "      ")
    return lines


def _shown(one: Orphan, *, wide: bool) -> list[str]:
    """Return the reasons; of many mounts only the first ones, unless all are asked for."""
    held = [reason.text for reason in one.reasons if _is_mount(reason)]
    rest = [reason.text for reason in one.reasons if not _is_mount(reason)]
    if wide or len(held) <= SHOWN:
        return [*held, *rest]
    more = count(len(held) - SHOWN, "more mount")
    return [*held[:SHOWN], f"and {more}: 'kubeletctl orphans -o wide'", *rest]


def _is_mount(reason: Reason) -> bool:
    return reason.cause == "mounted"


def _staged(screen: Screen, one: Staged) -> list[str]:
    what = f"{one.driver} {one.handle or 'with a handle that nothing on disk tells'}"
    how = "mounted" if one.mounted else "not mounted"
    return wrap(screen, f"{what}: {one.path} is {how}", "    * ", "      ")
