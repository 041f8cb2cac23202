"""``make install`` and ``make uninstall``, into a staging directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BIN = Path("usr/local/bin")
UNITS = Path("etc/systemd/system")


def make(verb: str, destdir: Path) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    environment.pop("MAKEFLAGS", None)
    wheels = ROOT / ".cache/wheels"
    if wheels.is_dir():  # what 'make setup' fetched; without it pip asks its index
        environment["KUBELET_INSTALL_WHEELS"] = str(wheels)
    command = ["make", "-C", ROOT, verb, f"DESTDIR={destdir}", f"PYTHON={sys.executable}"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env=environment
    )


def contents(directory: Path) -> list[str]:
    """Return the files and links below a directory."""
    found = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path.relative_to(directory)) for path in found)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A staging directory with an installation in it; tests work on copies, as pip takes long."""
    destdir = tmp_path_factory.mktemp("installed")
    result = make("install", destdir)
    assert result.returncode == 0, result.stdout + result.stderr
    yield destdir
    shutil.rmtree(destdir)


@pytest.fixture
def copy(installed: Path, tmp_path: Path) -> Iterator[Path]:
    destdir = tmp_path / "copy"
    shutil.copytree(installed, destdir, symlinks=True, copy_function=os.link)
    yield destdir
    shutil.rmtree(destdir)


def test_install_puts_everything_in_place(installed: Path) -> None:
    """The commands lead to the current release, which runs as the path it will have."""
    release = (installed / "opt/kubelet/current").readlink()
    script = installed / "opt/kubelet" / release / "bin/kubelet"

    for name in ("kubelet", "kubeletctl"):
        assert str((installed / BIN / name).readlink()) == f"/opt/kubelet/current/bin/{name}"
    assert script.read_text().startswith(f"#!/opt/kubelet/{release}/bin/python")
    for path in ("kubelet.service", "kubelet.service.d/10-kubeadm.conf"):
        assert (installed / UNITS / path).read_bytes() == (ROOT / "deploy" / path).read_bytes()
    assert (installed / "etc/sysusers.d/kubelet.conf").is_file()


def test_installed_release_stands_alone(installed: Path) -> None:
    """The release runs without the checkout, and has neither test tools nor an installer."""
    python = installed / "opt/kubelet/current/bin/python"
    program = (
        "import importlib.util as u, supervisor;"
        "print(supervisor.__file__, [u.find_spec(n) for n in ('pytest', 'pip', 'setuptools')])"
    )
    result = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, check=True, cwd="/"
    )

    assert result.stdout.startswith(str(installed.resolve() / "opt/kubelet"))
    assert "[None, None, None]" in result.stdout


def test_uninstall_removes_exactly_that(copy: Path) -> None:
    """What others put beside it, and the node's state, are still there afterwards."""
    others = ["etc/systemd/system/kubelet.service.d/30-mine.conf", "var/lib/kubelet/config.yaml"]
    for path in others:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text("mine\n")

    result = make("uninstall", copy)

    assert result.returncode == 0, result.stderr
    assert contents(copy) == others
    assert not (copy / "opt/kubelet").exists()
    assert "/var/lib/kubelet was left alone" in result.stdout


def test_uninstall_leaves_what_is_not_ours(copy: Path) -> None:
    """A link that leads elsewhere stays; a file that was changed here is kept under a new name."""
    link = copy / BIN / "kubelet"
    link.unlink()
    link.symlink_to("/usr/bin/kubelet")
    drop_in = copy / UNITS / "kubelet.service.d/10-kubeadm.conf"
    drop_in.unlink()
    drop_in.write_text("[Service]\n# changed here\n")

    result = make("uninstall", copy)

    assert result.returncode == 0, result.stderr
    assert contents(copy) == [
        "etc/systemd/system/kubelet.service.d/10-kubeadm.conf.saved",
        "usr/local/bin/kubelet",
    ]


def test_uninstall_of_nothing_says_so(tmp_path: Path) -> None:
    """An uninstall where nothing is installed is no error and touches nothing."""
    result = make("uninstall", tmp_path)

    assert result.returncode == 0
    assert "Nothing is installed" in result.stdout
    assert contents(tmp_path) == []


def test_install_refuses_to_overwrite_what_is_not_ours(tmp_path: Path) -> None:
    """Every path that is taken is named at once, and nothing is changed."""
    taken = [tmp_path / BIN / "kubelet", tmp_path / UNITS / "kubelet.service"]
    for path in taken:
        path.parent.mkdir(parents=True)
        path.write_text("somebody else's\n")

    result = make("install", tmp_path)

    assert result.returncode == 2
    for path in taken:
        assert str(path) in result.stderr
    assert contents(tmp_path) == sorted(str(path.relative_to(tmp_path)) for path in taken)


def test_uninstall_refuses_under_a_running_kubelet(copy: Path) -> None:
    """The files are not taken away from a process that was started from them."""
    release = copy / "opt/kubelet" / (copy / "opt/kubelet/current").readlink()
    command = [release / "bin/python", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        result = make("uninstall", copy)
        process.communicate(b"\n")

    assert result.returncode == 2
    assert f"pid {process.pid} runs from {release}" in result.stderr
    assert (release / "bin/kubelet").exists()
