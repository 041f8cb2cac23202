"""Releases: virtualenvs side by side under the prefix, one of them ``current``.

A release is built where it will live, beside the one in use, and ``current`` is switched by one
rename when it works. A running kubelet goes on in the release it was started from: that path is in
its command line and in its memory map, and a release is removed only when no process shows it.
"""
# ruff: noqa: INP001  # scripts are run from here, not imported as a package

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
COMMANDS: Final = ("kubelet", "kubeletctl")
CURRENT: Final = "current"
_NAME: Final = re.compile(r"\d[\w.+!]*-(\d+)")
_OUTPUT_LINES: Final = 25


class ReleaseError(Exception):
    """Why a release could not be built, in words for the person at the terminal."""


def find_all(prefix: Path) -> list[Path]:
    """Return every release under the prefix, finished or not, the oldest first."""
    if not prefix.is_dir():
        return []
    found = [path for path in prefix.iterdir() if not path.is_symlink() and _number(path)]
    return sorted((path for path in found if (path / "pyvenv.cfg").exists()), key=_number)


def current(prefix: Path) -> Path | None:
    """Return the release that ``current`` stands for."""
    link = prefix / CURRENT
    return prefix / link.readlink() if link.is_symlink() else None


def users(release: Path) -> list[int]:
    """Return the pids of the processes that were started from a release, or have parts of it."""
    wanted = os.fsencode(release) + b"/"
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            mapped = (process / "maps").read_bytes()
        except OSError:  # it ended, or is not ours to look at
            continue
        if wanted in mapped or any(each.startswith(wanted) for each in arguments[:2]):
            found.append(int(process.name))
    return sorted(found)


def build(prefix: Path, final_prefix: Path, wheels: Path | None) -> Path:
    """Build a release of this checkout under the prefix and return its path.

    ``final_prefix`` is where the prefix will be when the kubelet runs (it differs when the
    installation is staged in a directory for packaging). What is half built is removed.
    """
    number = max((_number(path) for path in find_all(prefix)), default=0) + 1
    release = prefix / f"{_version()}-{number}"
    release.mkdir(parents=True)
    try:
        _fill(release, wheels)
        _try(release)
        _relocate(release, final_prefix / release.name)
    except BaseException:
        shutil.rmtree(release)
        raise
    return release


def switch(prefix: Path, release: Path) -> None:
    """Let ``current`` stand for the release, at one instant."""
    beside = prefix / f".{CURRENT}.new"
    beside.unlink(missing_ok=True)
    beside.symlink_to(release.name)
    beside.replace(prefix / CURRENT)


def prune(prefix: Path, keep: Sequence[Path | None]) -> None:
    """Remove every release but those to keep and those that something still runs from."""
    for release in find_all(prefix):
        if release in keep:
            continue
        if pids := users(release):
            print(f"    kept {release}: pid {pids[0]} was started from it")
        else:
            shutil.rmtree(release)
            print(f"    removed the old {release}")


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def _version() -> str:
    document = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    return str(document["project"]["version"])


def _fill(release: Path, wheels: Path | None) -> None:
    print(f"==> Building {release} with {sys.executable} (about half a minute)", flush=True)
    _run(sys.executable, "-m", "venv", str(release))
    pip = (str(release / "bin/python"), "-m", "pip", "--quiet", "--no-input")
    pinned = ["--constraint", str(CHECKOUT / "constraints.txt"), *_index(wheels)]
    _run(*pip, "install", *pinned, "setuptools")
    with tempfile.TemporaryDirectory(prefix="kubelet-build-") as scratch:
        # Built from a copy: setuptools leaves a build directory behind, and packs what it finds in
        # one that is there.
        source = _copy_sources(Path(scratch, "source"))
        _run(*pip, "install", *pinned, "--no-build-isolation", "--use-pep517", str(source))
    _run(*pip, "check")
    _run(*pip, "uninstall", "--yes", "setuptools", "pip")  # a node needs no installer


def _index(wheels: Path | None) -> list[str]:
    """Return pip's options for where packages come from."""
    if wheels is not None:
        return ["--no-index", "--find-links", str(wheels)]
    fetched = CHECKOUT / ".cache/wheels"
    return ["--find-links", str(fetched)] if fetched.is_dir() else []


def _copy_sources(target: Path) -> Path:
    document = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    packages = document["tool"]["setuptools"]["packages"]["find"]["include"]
    for name in packages:
        package = name.rstrip("*")
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / package, target / package, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (CHECKOUT / name).exists():
            shutil.copy(CHECKOUT / name, target)
    return target


def _try(release: Path) -> None:
    """Run what was built once before anything depends on it."""
    _run(str(release / "bin/kubelet"), "--version")
    _run(str(release / "bin/kubeletctl"), "--help")


def _relocate(release: Path, final: Path) -> None:
    """Write the path of the day it runs into the scripts, which name their interpreter in full."""
    if release == final:
        return
    for script in (release / "bin").iterdir():
        if script.is_symlink() or not script.read_bytes().startswith(b"#!"):
            continue
        content = script.read_bytes()
        script.write_bytes(content.replace(os.fsencode(release), os.fsencode(final)))


def _run(*command: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",  # the release must not find this checkout's packages
        env=environment,
    )
    if result.returncode:
        tail = result.stdout.decode(errors="replace").splitlines()[-_OUTPUT_LINES:]
        shown = "\n".join(tail)
        raise ReleaseError(f"{' '.join(command)}: exit status {result.returncode}\n{shown}")
