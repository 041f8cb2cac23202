"""``scripts/release.py``: switching and pruning, with directories that only look like releases."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture(scope="module")
def releases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", SCRIPTS / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_release(prefix: Path, name: str) -> Path:
    path = prefix / name
    (path / "bin").mkdir(parents=True)
    (path / "pyvenv.cfg").touch()
    return path


def test_releases_are_ordered_by_number(releases: ModuleType, tmp_path: Path) -> None:
    """The tenth release comes after the ninth, whatever its version; other things are not seen."""
    for name in ("0.1.0-10", "0.2.0-9", "0.1.0-1"):
        make_release(tmp_path, name)
    (tmp_path / "0.3.0-11").mkdir()  # no virtualenv
    (tmp_path / "notes-12").mkdir()
    (tmp_path / "current").symlink_to("0.1.0-10")

    assert [path.name for path in releases.find_all(tmp_path)] == ["0.1.0-1", "0.2.0-9", "0.1.0-10"]


def test_switch_replaces_the_link(releases: ModuleType, tmp_path: Path) -> None:
    """``current`` stands for the new release, also after a switch that was cut off."""
    old, new = (make_release(tmp_path, name) for name in ("0.1.0-1", "0.1.0-2"))
    releases.switch(tmp_path, old)
    (tmp_path / ".current.new").symlink_to("0.1.0-1")

    releases.switch(tmp_path, new)

    assert releases.current(tmp_path) == new
    assert not (tmp_path / ".current.new").is_symlink()


def test_prune_keeps_one_old_release_and_those_in_use(releases: ModuleType, tmp_path: Path) -> None:
    """Of four releases the new one, the one before and the one that something runs from stay."""
    used, unused, before, new = (make_release(tmp_path, f"0.1.0-{n}") for n in range(1, 5))
    (used / "bin/python").symlink_to(sys.executable)
    command = [used / "bin/python", "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        releases.prune(tmp_path, [new, before])
        process.communicate(b"\n")

    assert not unused.exists()
    assert releases.find_all(tmp_path) == [used, before, new]


def test_failed_build_leaves_the_old_release(
    releases: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build that cannot find its packages says why and removes what it had begun."""
    old = make_release(tmp_path, "0.1.0-1")
    releases.switch(tmp_path, old)
    empty = tmp_path / "wheels"
    empty.mkdir()

    with pytest.raises(releases.ReleaseError, match="setuptools"):
        releases.build(tmp_path, tmp_path, empty)

    assert releases.find_all(tmp_path) == [old]
    assert releases.current(tmp_path) == old
    assert "Building" in capsys.readouterr().out
