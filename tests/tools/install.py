"""Get the programs that tests run: Go tools from the module proxy, packages from Debian.

Each group of Go tools is a module beside this file, whose go.mod names the tools and pins every
version. Binaries go to one cache directory outside the repository and are built once. Nothing here
raises for a machine that lacks something: the answer is then a `Skip` that says what is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

# A cold build of the largest group takes minutes on a small machine; beyond this it is stuck.
BUILD_SECONDS = 1800
PACKAGE_SECONDS = 900
# How often a build that is under way says so.
PROGRESS_SECONDS = 15.0

# Asked by Debian's packages before they start or stop a service.
POLICY = Path("/usr/sbin/policy-rc.d")

Say = Callable[[str], None]


def say_on_stderr(line: str) -> None:
    """The default teller of progress."""
    print(f"==> {line}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Skip:
    """Why something cannot be had on this machine, in words for a test's skip line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """One Go module of tools: where its version stands and how it is built."""

    name: str
    module: str  # the required module whose version is the group's
    commands: tuple[str, ...]
    takes: str  # how long a cold build takes, for the progress line
    tags: tuple[str, ...] = ()
    # Linker variables that give a binary its version; {version} has no leading "v".
    variables: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The pinned version, as go.mod has it but without the leading v."""
        pattern = rf"^\s*(?:require )?{re.escape(self.module)} v(\S+)"
        pin = re.search(pattern, self._mod(), re.MULTILINE)
        assert pin, f"{self.directory}/go.mod does not require {self.module}"
        return pin[1]

    @property
    def directory(self) -> Path:
        """Where go.mod and go.sum are."""
        return HERE / self.name

    def _mod(self) -> str:
        return (self.directory / "go.mod").read_text()

    def ldflags(self) -> str:
        """The linker's flags: no symbol tables, and the version."""
        values = (v.format(version=self.version) for v in self.variables)
        return " ".join(("-s -w", *(f"-X {value}" for value in values)))

    def fingerprint(self) -> str:
        """What the binaries depend on; other contents mean another build."""
        parts = (
            self._mod(),
            (self.directory / "go.sum").read_text(),
            " ".join(self.tags),
            self.ldflags(),
            platform.machine(),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


GROUPS = {
    group.name: group
    for group in (
        Group(
            "containerd",
            "github.com/containerd/containerd/v2",
            ("containerd", "containerd-shim-runc-v2", "ctr"),
            "1 to 3 minutes",
            tags=("no_btrfs", "no_devmapper", "no_zfs"),
            variables=("github.com/containerd/containerd/v2/version.Version={version}",),
        ),
        Group(
            "cri-tools",
            "sigs.k8s.io/cri-tools",
            ("crictl",),
            "1 to 2 minutes",
            variables=("sigs.k8s.io/cri-tools/pkg/version.Version=v{version}",),
        ),
        Group(
            "csi",
            "github.com/kubernetes-csi/csi-test/v5",
            ("csi-sanity",),
            "about a minute",
            variables=("main.VERSION=v{version}",),
        ),
        Group(
            "csi-mock",
            "github.com/kubernetes-csi/csi-test/v3",
            ("mock-driver",),
            "under a minute",
        ),
        Group(
            "kubernetes",
            "k8s.io/kubernetes",
            ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"),
            "7 to 13 minutes",
            variables=(
                "k8s.io/component-base/version.gitVersion=v{version}",
                "k8s.io/component-base/version.gitMajor=1",
                "k8s.io/component-base/version.gitMinor=36",
            ),
        ),
    )
}


# A machine without the proxy is asked once in a session, not by each test.
_tools: dict[str, Path | Skip] = {}
_packages: dict[tuple[str, ...], Skip | None] = {}


def cache_directory() -> Path:
    """Where everything built is kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "kubelet-tests"


def ensure(group: str, say: Say = say_on_stderr) -> Path | Skip:
    """The directory with the group's commands, built now if they are not there yet."""
    if group not in _tools:
        _tools[group] = _find_or_build(GROUPS[group], say)
    return _tools[group]


def _find_or_build(group: Group, say: Say) -> Path | Skip:
    root = cache_directory() / "bin"
    target = root / f"{group.name}-{group.version}"
    if _is_built(group, target):
        return target
    if shutil.which("go") is None:
        return Skip(f"Go is not installed: cannot build {group.name} {group.version}")
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{group.name}.lock", f"another build of {group.name}", say):
        if _is_built(group, target):
            return target
        return _build(group, target, say)


def _is_built(group: Group, target: Path) -> bool:
    stamp = target / ".built-from"
    return (
        stamp.is_file()
        and stamp.read_text() == group.fingerprint()
        and all(os.access(target / command, os.X_OK) for command in group.commands)
    )


def _build(group: Group, target: Path, say: Say) -> Path | Skip:
    fresh = Path(tempfile.mkdtemp(prefix=f".{group.name}-", dir=target.parent))
    try:
        flags = ["-trimpath", "-tags", ",".join(group.tags), "-ldflags", group.ldflags()]
        # "tool" is every command of go.mod's tool directive.
        command = ["go", "install", "-mod=readonly", "-buildvcs=false", *flags, "tool"]
        env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(fresh), "GOWORK": "off"}
        title = f"building {group.name} {group.version} ({', '.join(group.commands)})"
        failed = _run(command, title, group.takes, say, BUILD_SECONDS, env=env, cwd=group.directory)
        if failed:
            return Skip(f"{group.name} {group.version} could not be built: {failed}")
        (fresh / ".built-from").write_text(group.fingerprint())
        fresh.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)  # of another fingerprint, or cut off
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def ensure_packages(*names: str, say: Say = say_on_stderr) -> Skip | None:
    """See that these Debian packages are installed; None when they are."""
    if names not in _packages:
        _packages[names] = _find_or_install(names, say)
    return _packages[names]


def _find_or_install(names: tuple[str, ...], say: Say) -> Skip | None:
    missing = _missing_packages(names)
    if not missing:
        return None
    listed = ", ".join(missing)
    if shutil.which("apt-get") is None:
        return Skip(f"no apt-get on this machine, and these Debian packages are missing: {listed}")
    if os.geteuid() != 0:
        return Skip(f"only root can install these Debian packages: {listed}")
    root = cache_directory()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "apt.lock", "another installation of packages", say):
        missing = _missing_packages(names)
        return _install(missing, say) if missing else None


def _missing_packages(names: tuple[str, ...]) -> list[str]:
    if shutil.which("dpkg-query") is None:
        return list(names)
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *names]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    there = {line.split()[0] for line in answer.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in there]


def _install(names: list[str], say: Say) -> Skip | None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *names]
    title = f"installing Debian packages: {', '.join(names)}"
    with _no_services():
        failed = _run(install, title, "under a minute", say, PACKAGE_SECONDS, env=env)
        if failed:  # a fresh machine has no package lists, an old one has stale ones
            update = ["apt-get", "update", "-q"]
            _run(update, "updating the package lists", "under a minute", say, PACKAGE_SECONDS)
            failed = _run(install, title, "under a minute", say, PACKAGE_SECONDS, env=env)
    return Skip(f"Debian packages {', '.join(names)} cannot be had: {failed}") if failed else None


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """Let no package start its daemon: tests run private instances only."""
    if POLICY.exists():  # the machine has a policy of its own, which stays
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")  # 101: the action is forbidden
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path, holder: str, say: Say) -> Iterator[None]:
    """Hold a lock file; the kernel frees it when its holder dies."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {holder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(
    command: list[str],
    title: str,
    takes: str,
    say: Say,
    seconds: float,
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> str | None:
    """Run a long command with progress lines; what went wrong, or None."""
    say(f"{title}: {takes}")
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            status = _wait(child, began, title, say, seconds)
        finally:
            child.kill()  # nothing to kill unless the wait was interrupted
            child.wait()
        took = time.monotonic() - began
        if status == 0:
            say(f"{title}: done in {took:.0f} s")
            return None
        output.seek(0)
        last = [line.strip() for line in output.read().splitlines() if line.strip()][-3:]
    words = " / ".join(last) or "it said nothing"
    return f"{' '.join(command[:2])} {_ending(status)} after {took:.0f} s: {words}"


def _wait(
    child: subprocess.Popen[str], began: float, title: str, say: Say, seconds: float
) -> int | None:
    while True:
        try:
            return child.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            took = time.monotonic() - began
            if took > seconds:
                return None
            say(f"{title}: {took:.0f} s so far")


def _ending(status: int | None) -> str:
    if status is None:
        return "was given up"
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
