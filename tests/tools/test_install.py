"""The installer builds once, reuses, waits its turn, and says why where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import install
from tests.tools.install import GROUPS, Skip, ensure, ensure_packages

# Stands for the Go command: notes each run, lets a second builder arrive, makes the binaries.
FAKE_GO = """#!/bin/sh
echo run >>"$GO_RUNS"
sleep 0.5
for command in containerd containerd-shim-runc-v2 ctr crictl; do
    printf '#!/bin/sh\\n' >"$GOBIN/$command" && chmod 755 "$GOBIN/$command"
done
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and our own Go command; nothing is remembered."""
    for name in ("bin", "home"):
        (tmp_path / name).mkdir()
    go = tmp_path / "bin" / "go"
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(install, "_tools", {})
    monkeypatch.setattr(install, "_packages", {})
    return tmp_path


def runs(machine: Path) -> int:
    return (machine / "runs").read_text().count("run")


@pytest.mark.parametrize("name", GROUPS)
def test_every_group_is_pinned(name: str) -> None:
    """Each group's go.mod names one exact version and every command as a tool."""
    group = GROUPS[name]
    assert group.version[0].isdigit()
    text = (group.directory / "go.mod").read_text()
    assert all(f"{group.module}/cmd/{command}\n" in text for command in group.commands)


def test_build_once_and_reuse(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built is found again by another session, without a build and in silence."""
    said: list[str] = []
    built = ensure("cri-tools", said.append)
    assert isinstance(built, Path)
    assert built.parent == machine / "home" / "kubelet-tests" / "bin"
    assert built.name == f"cri-tools-{GROUPS['cri-tools'].version}"
    assert (built / "crictl").exists()
    assert said
    said.clear()
    monkeypatch.setattr(install, "_tools", {})
    assert ensure("cri-tools", said.append) == built
    assert (runs(machine), said) == (1, [])


def test_other_flags_mean_another_build(machine: Path) -> None:
    """A build from other pins or flags is replaced, as is one that was cut off."""
    built = ensure("cri-tools", print)
    assert isinstance(built, Path)
    (built / ".built-from").write_text("something else")
    install._tools.clear()
    assert ensure("cri-tools", print) == built
    (built / "crictl").unlink()
    install._tools.clear()
    assert ensure("cri-tools", print) == built
    assert runs(machine) == 3
    assert sorted(p.name for p in built.parent.iterdir()) == [built.name, "cri-tools.lock"]


def test_two_builders_build_once(machine: Path) -> None:
    """Of two sessions that want the same tools, one builds and the other waits for it."""
    command = "from tests.tools.install import ensure; print(ensure('containerd'))"
    builders = [
        subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {builder.communicate(timeout=30)[0] for builder in builders}
    assert len(answers) == 1
    assert "containerd-" in answers.pop()
    assert runs(machine) == 1


def test_without_go(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Go gets a reason."""
    monkeypatch.setenv("PATH", str(machine / "home"))
    answer = ensure("containerd", print)
    assert isinstance(answer, Skip)
    assert answer.reason.startswith("Go is not installed: cannot build containerd ")


def test_without_proxy(machine: Path) -> None:
    """Where the proxy does not answer, the reason has the last words of the Go command."""
    (machine / "bin" / "go").write_text("#!/bin/sh\necho dial tcp: no such host >&2\nexit 1\n")
    answer = ensure("containerd", print)
    assert isinstance(answer, Skip)
    assert "go install ended with status 1" in answer.reason
    assert answer.reason.endswith("dial tcp: no such host")
    assert ensure("containerd", pytest.fail) is answer
    assert list((machine / "home/kubelet-tests/bin").iterdir()) == [
        machine / "home/kubelet-tests/bin/containerd.lock"
    ]


def test_packages_that_are_there(machine: Path) -> None:
    """Installed packages need nothing, and nothing is said."""
    assert machine.is_dir()
    if not Path("/usr/bin/dpkg-query").exists():
        pytest.skip("this is no Debian")
    assert ensure_packages("base-files", "dpkg", say=pytest.fail) is None


def test_packages_that_cannot_be_had(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root or without apt-get the reason names the packages that are missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (machine / "bin" / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    (machine / "bin" / "apt-get").chmod(0o755)
    answer = ensure_packages("no-such-package-a", "no-such-package-b", say=pytest.fail)
    assert answer == Skip(
        "only root can install these Debian packages: no-such-package-a, no-such-package-b"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(machine / "home"))
    answer = ensure_packages("no-such-package-c", say=pytest.fail)
    assert answer is not None
    assert answer.reason.startswith("no apt-get on this machine")
    assert answer.reason.endswith("no-such-package-c")


def test_packages_failing_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that fails is tried again with new package lists, then explained."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install, "POLICY", machine / "policy-rc.d")
    apt = machine / "bin" / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$1" >>{machine}/asked\ncat {machine}/policy-rc.d\nexit 100\n')
    apt.chmod(0o755)
    answer = ensure_packages("no-such-package-d", say=print)
    assert answer is not None
    assert "apt-get install ended with status 100" in answer.reason
    assert "exit 101" in answer.reason  # no service was allowed to start meanwhile
    assert (machine / "asked").read_text().split() == ["install", "update", "install"]
    assert not (machine / "policy-rc.d").exists()
