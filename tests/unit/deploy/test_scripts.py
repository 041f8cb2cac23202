"""The shell side: interpreters that will not do, failing commands, and the Makefile's own list."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def bash(program: str, path: str) -> subprocess.CompletedProcess[str]:
    script = f"set -euo pipefail; . {ROOT}/scripts/lib.sh; {program}"
    command = ["/bin/bash", "-c", script]
    environment = os.environ | {"PATH": path}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_an_old_python_is_passed_over(tmp_path: Path) -> None:
    """The search takes the first interpreter that is new enough, not the first of that name."""
    write_program(tmp_path / "python3", "exit 1")
    write_program(tmp_path / "python3.12", "exit 0")

    assert bash("find_python ''", str(tmp_path)).stdout.strip() == str(tmp_path / "python3.12")


def test_the_lightest_python_that_runs_is_taken(tmp_path: Path) -> None:
    """One that shares more goes before the default one; a shim that does not run is passed over."""
    write_program(tmp_path / "python3", "exit 0")
    write_program(tmp_path / "python3.13", "exit 127")
    write_program(tmp_path / "python3.12", "exit 0")

    assert bash("find_python ''", str(tmp_path)).stdout.strip() == str(tmp_path / "python3.12")


def test_no_python_says_what_to_do(tmp_path: Path) -> None:
    """With no interpreter that is new enough, the error names what was tried and the remedy."""
    write_program(tmp_path / "python3", "exit 1")

    result = bash("find_python ''", str(tmp_path))

    assert result.returncode == 1
    assert (
        "no Python 3.11 or newer found (looked at: python3.13 python3.12 python3 " in result.stderr
    )
    assert "apt-get install python3 python3-venv" in result.stderr


def test_a_named_python_is_the_only_one_tried(tmp_path: Path) -> None:
    """Who names an interpreter gets that one or an error, never another in silence."""
    write_program(tmp_path / "python3", "exit 0")

    result = bash("find_python /nowhere/python3 /usr/bin/python3", str(tmp_path))

    assert result.returncode == 1
    assert "looked at: /nowhere/python3)" in result.stderr


def test_a_python_without_venv_names_the_package(tmp_path: Path) -> None:
    """Who is not root is told the package to install; nothing is installed for them."""
    write_program(tmp_path / "python3", 'case "$2" in *ensurepip*) exit 1;; *) echo 3.11;; esac')
    write_program(tmp_path / "id", "echo 1000")
    write_program(tmp_path / "apt-get", "exit 99")
    write_program(tmp_path / "readlink", 'echo "$2"')

    result = bash("ensure_venv_module python3 /dev/null", str(tmp_path))

    assert result.returncode == 1
    assert "Run as root: apt-get install python3.11-venv" in result.stderr


def test_a_failing_command_shows_its_output(tmp_path: Path) -> None:
    """What a quiet command had to say appears when it fails, and is kept in its log."""
    log = tmp_path / "log"

    result = bash(f"run_logged {log} sh -c 'echo the reason; exit 7'", os.environ["PATH"])

    assert result.returncode == 1
    assert "the reason" in result.stderr
    assert "failed with status 7" in result.stderr
    assert "the reason" in log.read_text()


def test_help_lists_every_target() -> None:
    """``make`` alone names every target of the Makefile with a sentence."""
    targets = re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    result = subprocess.run(["make", "-C", ROOT], capture_output=True, text=True, check=True)

    assert len(targets) >= 14
    for target in targets:
        assert re.search(rf"^  make {target} +\S", result.stdout, re.MULTILINE), target


def test_every_dependency_is_pinned() -> None:
    """Every package of pyproject.toml, and what builds it, has one exact version."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    wanted = [*document["build-system"]["requires"], *project["dependencies"]]
    for group in project["optional-dependencies"].values():
        wanted += group
    text = (ROOT / "constraints.txt").read_text()
    pinned = re.findall(r"^([\w.-]+)==[\w.!+]+$", text, re.MULTILINE)
    known = {package.lower() for package in pinned}

    assert {re.split(r"[<>=!~\[; ]", each)[0].lower() for each in wanted} <= known
