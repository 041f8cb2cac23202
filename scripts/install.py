#!/usr/bin/env python3
"""Installs the kubelet on this host, or removes it: ``make install`` and ``make uninstall``.

Everything that an installation puts outside its prefix is written down in ``manifest.json`` in the
prefix. What is not in there is somebody else's and is neither overwritten nor removed; what the
administrator changed is set aside as ``<name>.saved``.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import release as releases

USER: Final = "kubelet"
UNITS: Final = Path("/etc/systemd/system")
SYSUSERS: Final = Path("/etc/sysusers.d/kubelet.conf")
LINKS: Final = Path("/usr/local/bin")
STATE: Final = Path("/var/lib/kubelet")
PACKAGED_UNIT: Final = Path("/usr/lib/systemd/system/kubelet.service")


class InstallError(Exception):
    """What stood in the way, in words for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where an installation goes: a prefix, seen from below a staging directory ("/": none)."""

    destdir: Path
    prefix: Path

    def at(self, path: Path) -> Path:
        """Return where a path of the running system is now."""
        return self.destdir / path.relative_to("/")

    @property
    def staged(self) -> bool:
        """Whether this is for another system, so that nothing of this one may change."""
        return self.destdir != Path("/")

    @property
    def files(self) -> dict[Path, str]:
        """The files outside the releases: path on the running system to path in the checkout."""
        return {
            UNITS / "kubelet.service": "deploy/kubelet.service",
            UNITS / "kubelet.service.d/10-kubeadm.conf": "deploy/kubelet.service.d/10-kubeadm.conf",
            UNITS / "kubelet.service.d/20-standalone.conf.example": (
                "deploy/kubelet.service.d/20-standalone.conf.example"
            ),
            SYSUSERS: "deploy/sysusers.d/kubelet.conf",
            self.prefix / "standalone.yaml": "deploy/standalone.yaml",
        }

    @property
    def links(self) -> dict[Path, Path]:
        """The links on PATH and what they lead to."""
        source = self.prefix / releases.CURRENT / "bin"
        return {LINKS / name: source / name for name in releases.COMMANDS}


@dataclass(slots=True)
class Manifest:
    """What an installation put in place: files with their SHA-256, links with where they lead."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, target: Target) -> Manifest | None:
        """Read the manifest of an installation, or return None when there is none."""
        try:
            document = json.loads(target.at(target.prefix / "manifest.json").read_text())
        except FileNotFoundError:
            return None
        return cls(files=document["files"], links=document["links"])

    def save(self, target: Target) -> None:
        """Write the manifest, at one instant."""
        path = target.at(target.prefix / "manifest.json")
        beside = path.with_name(".manifest.json.new")
        beside.write_text(json.dumps({"files": self.files, "links": self.links}, indent=2) + "\n")
        beside.replace(path)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def foreign(target: Target, manifest: Manifest) -> list[str]:
    """Return, in words, each path that this installation needs and something else has taken."""
    taken = []
    for path, source in target.files.items():
        place = target.at(path)
        if str(path) in manifest.files or not os.path.lexists(place):
            continue
        if digest(place) != digest(releases.CHECKOUT / source):
            taken.append(f"{place}: there is a file of that name that this did not install")
    for path, leads_to in target.links.items():
        place = target.at(path)
        is_ours = place.is_symlink() and place.readlink() == leads_to
        if os.path.lexists(place) and not is_ours:
            taken.append(f"{place}: there is a file of that name that does not lead to {leads_to}")
    return taken


@contextmanager
def alone(target: Target) -> Iterator[None]:
    """Hold the installation's lock, so that two of them never meet."""
    prefix = target.at(target.prefix)
    prefix.mkdir(parents=True, exist_ok=True)
    with (prefix / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallError(f"another installation is at work in {prefix}") from None
        yield


def install(target: Target, wheels: Path | None) -> None:
    """Install this checkout, or upgrade what is there to it."""
    known = Manifest.load(target) or Manifest()
    if taken := foreign(target, known):
        raise InstallError("\n       ".join(["nothing was changed, these are in the way:", *taken]))
    prefix = target.at(target.prefix)
    with alone(target):
        before = releases.current(prefix)
        release = releases.build(prefix, target.prefix, wheels)
        releases.switch(prefix, release)
        put_files(target, known)
        put_links(target, known)
        releases.prune(prefix, [release, before])
    if not target.staged:
        make_user()
        reload_systemd()
    tell(target)


def put_files(target: Target, manifest: Manifest) -> None:
    """Put the files in place; the manifest is written first, so that a cut leaves no orphan."""
    for path, source in target.files.items():
        place = target.at(path)
        content = (releases.CHECKOUT / source).read_bytes()
        set_aside_if_changed(place, manifest.files.get(str(path)))
        manifest.files[str(path)] = hashlib.sha256(content).hexdigest()
        manifest.save(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.new")
        beside.write_bytes(content)
        beside.chmod(0o644)
        beside.replace(place)


def put_links(target: Target, manifest: Manifest) -> None:
    """Put the two commands on PATH."""
    for path, leads_to in target.links.items():
        manifest.links[str(path)] = str(leads_to)
        manifest.save(target)
        place = target.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(leads_to)


def set_aside_if_changed(place: Path, installed: str | None) -> bool:
    """Keep what the administrator wrote into a file of ours, where nothing reads it."""
    if installed is None or not place.is_file() or digest(place) == installed:
        return False
    saved = place.with_name(place.name + ".saved")
    place.replace(saved)
    print(f"    {place} was changed here: kept as {saved.name}")
    return True


def make_user() -> None:
    """Make the user that the processes without root run as."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        pass
    else:
        return
    print(f"==> Making the user {USER}")
    if shutil.which("systemd-sysusers"):
        subprocess.run(["systemd-sysusers", str(SYSUSERS)], check=True)
        return
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/"]
    subprocess.run(["useradd", *options, "--shell", "/usr/sbin/nologin", USER], check=True)


def reload_systemd() -> None:
    """Let systemd, where it runs, see the units as they are now."""
    if Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "daemon-reload"], check=True)


def tell(target: Target) -> None:
    """Say what is there now and what to do next."""
    release = releases.current(target.at(target.prefix))
    print(f"==> Installed {release}")
    for path in (*target.links, *target.files):
        print(f"    {target.at(path)}")
    if PACKAGED_UNIT.exists():
        print(f"    {PACKAGED_UNIT} stays: the unit in {UNITS} wins over it.")
    if not target.staged:
        print("    Start it:       systemctl enable --now kubelet")
        print("    After upgrades: systemctl restart kubelet (pods go on)")


def uninstall(target: Target) -> None:
    """Remove what was installed, and nothing else."""
    manifest = Manifest.load(target)
    if manifest is None:
        print(f"==> Nothing is installed in {target.at(target.prefix)}")
        return
    prefix = target.at(target.prefix)
    refuse_if_running(prefix)
    with alone(target):
        remove_links(target, manifest)
        remove_files(target, manifest)
        remove_prefix(prefix)
    if not target.staged:
        reload_systemd()
    print(f"==> Removed. {STATE} was left alone, and so was the user {USER}: files may be theirs.")


def refuse_if_running(prefix: Path) -> None:
    """Do not take the files away from under a running kubelet."""
    for release in releases.find_all(prefix):
        if pids := releases.users(release):
            raise InstallError(
                f"pid {pids[0]} runs from {release}: stop it first "
                "(systemctl disable --now kubelet)"
            )


def remove_links(target: Target, manifest: Manifest) -> None:
    """Remove the links that still lead to this installation."""
    for path, leads_to in manifest.links.items():
        place = target.at(Path(path))
        if place.is_symlink() and str(place.readlink()) == leads_to:
            place.unlink()
        elif os.path.lexists(place):
            print(f"    left {place}: it does not lead to {leads_to}")


def remove_files(target: Target, manifest: Manifest) -> None:
    """Remove the installed files, and the drop-in directory when nothing is left in it."""
    for path, installed in manifest.files.items():
        place = target.at(Path(path))
        if not set_aside_if_changed(place, installed):
            place.unlink(missing_ok=True)
    drop_ins = target.at(UNITS / "kubelet.service.d")
    if drop_ins.is_dir() and not any(drop_ins.iterdir()):
        drop_ins.rmdir()


def remove_prefix(prefix: Path) -> None:
    """Remove the releases and the manifest, which comes last: until then it can be done again."""
    (prefix / releases.CURRENT).unlink(missing_ok=True)
    for release in releases.find_all(prefix):
        shutil.rmtree(release)
    for name in ("manifest.json", ".lock"):
        (prefix / name).unlink(missing_ok=True)
    if left := sorted(path.name for path in prefix.iterdir()):
        print(f"    left {prefix}: not of this installation: {', '.join(left)}")
    else:
        prefix.rmdir()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Install the kubelet on this host, or remove it.")
    parser.add_argument("verb", choices=("install", "uninstall"))
    parser.add_argument("--destdir", default="", help="stage below this directory, for packaging")
    parser.add_argument("--prefix", type=Path, default=Path("/opt/kubelet"))
    return parser.parse_args(arguments)


def target_of(options: argparse.Namespace) -> Target:
    """Check the options and return where they lead."""
    destdir = Path(options.destdir or "/").resolve()
    if not options.prefix.is_absolute():
        raise InstallError(f"PREFIX={options.prefix}: must be an absolute path")
    if destdir == Path("/") and os.geteuid() != 0:
        raise InstallError("this needs root; DESTDIR=<directory> stages an installation without it")
    return Target(destdir, Path(os.path.normpath(options.prefix)))


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    os.umask(0o022)  # the processes without root read what root installs
    wheels = os.environ.get("KUBELET_INSTALL_WHEELS")
    try:
        options = parse(arguments)
        target = target_of(options)
        if options.verb == "install":
            install(target, Path(wheels).resolve() if wheels else None)
        else:
            uninstall(target)
    except (InstallError, releases.ReleaseError, OSError, subprocess.CalledProcessError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
