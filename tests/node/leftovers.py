"""What a runtime makes on a machine, found and removed from outside, in whatever state it is.

Everything is recognised by the instance's own marks: its directory, its bridge, its network's name,
and the IDs of its containers. Nothing else is ever touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.node.settings import Place

CGROUPS = Path("/sys/fs/cgroup")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
CNI_RESULTS = Path("/var/lib/cni/results")
TOOLS = ("containerd", "containerd-shim-runc-v2", "runc", "ctr", "crictl")
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
# The port mapper's chains for one container; those of all containers stay, as it leaves them.
OWN_CHAIN = re.compile(r"CNI-(DN-)?[0-9a-f]+")


class Leftovers:
    """Finds and removes one instance's traces; it remembers the IDs of containers it has seen."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._ids: set[str] = set()
        self._shim_sockets: set[Path] = set()

    def remember(self) -> None:
        """Take note of every container there is, and of where its shim listens."""
        for bundles in self._place.state.glob("io.containerd.runtime.v2.task/*"):
            for bundle in bundles.iterdir():
                self._ids.add(bundle.name)
                self._shim_sockets |= _shim_sockets(bundle)
        for directory in self._place.root.glob("io.containerd.grpc.v1.cri/*"):
            self._ids |= {p.name for p in directory.iterdir() if CONTAINER_ID.fullmatch(p.name)}

    def find(self) -> list[str]:
        """What is there now, a line for each thing."""
        finders = (
            ("process", (f"{pid} {_command(pid)}" for pid in self.processes())),
            ("mount", self.mounts()),
            ("cgroup", map(str, self.cgroups())),
            ("link", self._links()),
            ("iptables rule", (rule for rule, _ in self._rules())),
            ("CNI result", map(str, self._results())),
            ("shim socket", (str(s) for s in self._shim_sockets if s.exists())),
            ("directory", (str(d) for d in [self._place.directory] if d.exists())),
        )
        return [f"{kind}: {thing}" for kind, things in finders for thing in things]

    def remove(self) -> None:
        """Remove everything, in an order that lets nothing come back."""
        self.remember()
        self.remove_containers()
        for link in self._links():
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
        for path in (*self._results(), *self._shim_sockets):
            path.unlink(missing_ok=True)
        # What is still mounted may be somebody's files, seen through our directory.
        assert not self.mounts(), f"cannot be unmounted: {self.mounts()}"
        shutil.rmtree(self._place.directory)

    def remove_containers(self) -> None:
        """End every process, then take down what held it."""
        self._thaw()
        # A shim first, or it would report and clean up beside us; once more for what it had begun.
        for _ in range(3):
            processes = self.processes()
            if not processes:
                break
            _kill(processes)
        for mount in reversed(self.mounts()):
            subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
        self.remove_cgroups()
        for rule, chain in self._rules():
            _delete_rule(rule, chain)

    def remove_cgroups(self) -> None:
        """Remove the groups; those that still hold a process stay and are found."""
        for group in self.cgroups():
            for path, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)

    def processes(self) -> list[int]:
        """The runtime, its shims and everything in its containers."""
        return [
            pid
            for pid in _all_processes()
            if not _is_zombie(pid)
            and (self._is_our_tool(pid) or self._is_ours(_read(f"/proc/{pid}/cgroup")))
        ]

    def _is_our_tool(self, pid: int) -> bool:
        """Whether it is the runtime or a helper of it; not whoever else names our directory."""
        words = _read(f"/proc/{pid}/cmdline").split(b"\0")
        named = f"{self._place.directory}/".encode() in b" ".join(words)
        return named and os.path.basename(words[0]).decode(errors="replace") in TOOLS

    def mounts(self) -> list[str]:
        """Everything mounted in the instance's directory, oldest first."""
        prefix = f"{self._place.directory}/"
        table = Path("/proc/self/mountinfo").read_text()
        return [m for line in table.splitlines() if (m := line.split()[4]).startswith(prefix)]

    def cgroups(self) -> list[Path]:
        """The outermost groups that bear the instance's name or a container's ID."""
        return list(self._groups_below(CGROUPS))

    def _groups_below(self, directory: Path) -> Iterator[Path]:
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if self._is_ours(entry.name.encode()):
                    yield Path(entry.path)
                else:
                    yield from self._groups_below(Path(entry.path))

    def _is_ours(self, text: bytes) -> bool:
        if self._place.name.encode() in text:
            return True
        return any(
            match in self._ids for match in CONTAINER_ID.findall(text.decode(errors="replace"))
        )

    def _thaw(self) -> None:
        """Let paused containers go on: a process in a frozen group cannot even die."""
        for group in self.cgroups():
            for state in group.rglob("freezer.state"):
                with contextlib.suppress(OSError):
                    state.write_text("THAWED")
            for state in group.rglob("cgroup.freeze"):
                with contextlib.suppress(OSError):
                    state.write_text("0")

    def _links(self) -> list[str]:
        bridge = self._place.bridge
        if _read(f"/sys/class/net/{bridge}/ifindex").strip() != b"%d" % self._place.bridge_index:
            return []
        ports = sorted(p.name for p in Path(f"/sys/class/net/{bridge}/brif").iterdir())
        return [*ports, bridge]

    def _rules(self) -> list[tuple[str, str | None]]:
        """Rules that name our network, each with the chain that it alone leads to."""
        rules = [rule for rule in _saved_rules() if self._is_our_rule(rule)]
        return [(rule, _own_chain(rule)) for rule in rules]

    def _is_our_rule(self, rule: str) -> bool:
        name = re.escape(self._place.name)
        return re.search(rf'\bname: \\?"{name}\\?"', rule) is not None

    def _results(self) -> list[Path]:
        if not CNI_RESULTS.is_dir():
            return []
        return [
            path
            for path in CNI_RESULTS.iterdir()
            if self._is_ours(path.name.encode())
            or f"{self._place.directory}/".encode() in _read(str(path))
        ]


def remove_shared(forwarding: str) -> None:
    """Remove what containers of any instance share, as far as nothing uses it any more.

    The port mapper's top chains, the CNI library's cache, the directory of 1.6's shim sockets and
    the group of containers without a parent group are made at need and left by their makers;
    forwarding is turned on and stays on.
    """
    directories = ("/run/containerd/s", "/run/containerd", "/var/lib/cni/results", "/var/lib/cni")
    for path in (*directories, *CGROUPS.glob("*/k8s.io"), CGROUPS / "k8s.io"):
        with contextlib.suppress(OSError):  # used, or not there
            os.rmdir(path)
    if FORWARDING.read_text() != forwarding:
        FORWARDING.write_text(forwarding)
    rules = _saved_rules()
    if any(rule.startswith("-A CNI-HOSTPORT-DNAT ") for rule in rules):
        return
    for rule in rules:
        if "CNI-HOSTPORT-" in rule:
            _delete_rule(rule, None)
    for chain in ("DNAT", "MASQ", "SETMARK"):
        if any(f"CNI-HOSTPORT-{chain}" in rule for rule in rules):
            _iptables("-X", f"CNI-HOSTPORT-{chain}")


def _saved_rules() -> list[str]:
    """The rules of the nat table, in the words that made them."""
    if shutil.which("iptables-save") is None:
        return []
    save = ["iptables-save", "-t", "nat"]
    saved = subprocess.run(save, capture_output=True, text=True, check=False)
    return [line for line in saved.stdout.splitlines() if line.startswith("-A ")]


def _shim_sockets(bundle: Path) -> set[Path]:
    """Where a shim listens, from what it left for the runtime: 1.6 `address`, 2.x JSON."""
    addresses = [_read(str(bundle / "address")).decode()]
    with contextlib.suppress(ValueError):
        addresses.append(json.loads(_read(str(bundle / "bootstrap.json")))["address"])
    return {Path(a.removeprefix("unix://")) for a in addresses if a.startswith("unix://")}


def _own_chain(rule: str) -> str | None:
    target = shlex.split(rule)[-1]
    return target if OWN_CHAIN.fullmatch(target) else None


def _delete_rule(rule: str, chain: str | None) -> None:
    _iptables("-D", *shlex.split(rule)[1:])
    if chain:
        _iptables("-F", chain)
        _iptables("-X", chain)


def _iptables(*arguments: str) -> None:
    command = ["iptables", "-w", "-t", "nat", *arguments]
    subprocess.run(command, capture_output=True, check=False)


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_zombie(pid: int) -> bool:
    """Whether a process is over and only waits for its parent, which may be this machine's init."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]


def _read(path: str) -> bytes:
    """A file's contents; nothing for one that is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def _kill(pids: list[int]) -> None:
    """Kill, and wait until each is gone."""
    handles = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            handles.append(handle)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in handles:
        select.select([handle], [], [], 5.0)
        os.close(handle)
