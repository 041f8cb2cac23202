"""Directories of pods that nobody knows any more (P-42)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from procs.syncloop.leftovers import Left, left_on_disk


def site(top: Path) -> Any:
    """A node with its directories below one."""
    return SimpleNamespace(root_dir=str(top / "root"), logs_dir=str(top / "logs"))


def test_pods_with_a_directory_that_are_not_known(tmp_path: Path) -> None:
    """Each is found with the name that its logs give it; files, links and known ones are not."""
    pods = tmp_path / "root" / "pods"
    for uid in ("known", "named", "nameless"):
        (pods / uid).mkdir(parents=True)
    (pods / "file").write_text("")
    (pods / "link").symlink_to(tmp_path)
    for name in ("ns_p_named", "ns_q_known", "odd"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    found = list(left_on_disk(site(tmp_path), {"known"}))
    assert found == [Left("named", "p", "ns"), Left("nameless", "nameless", "")]


def test_a_node_without_directories(tmp_path: Path) -> None:
    """Where no pod ever was, nothing is left."""
    assert list(left_on_disk(site(tmp_path), set())) == []
