"""Pods of which only directories are left: nobody wants them, and no row tells of their end (P-42).

That is so when the tables were lost in the middle of a pod's end, after its containers went.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import NamedTuple

from procs.syncloop.site import Site


class Left(NamedTuple):
    """A pod as its directories tell of it; where it has no logs, its name is not known."""

    uid: str
    name: str
    namespace: str


def left_on_disk(site: Site, known: Container[str]) -> Iterator[Left]:
    """Yield the pods that have a directory and are not known."""
    unknown = [uid for uid in _directories(f"{site.root_dir}/pods") if uid not in known]
    if not unknown:
        return
    logs = [name.split("_") for name in _directories(site.logs_dir)]
    names = {parts[2]: parts for parts in logs if len(parts) == 3}
    for uid in unknown:
        namespace, name, _ = names.get(uid, ("", uid, uid))
        yield Left(uid, name, namespace)


def _directories(path: str) -> list[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
        return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    return []
