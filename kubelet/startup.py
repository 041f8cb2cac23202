"""Checks of the node before anything is started, and the kernel settings that pods rely on.

Everything is read and written below an injected root, so that tests can be another machine.
``check`` only looks; ``apply`` changes kernel settings. A finding of severity ERROR means that
the kubelet must not start.
"""

from __future__ import annotations

import enum
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubelet.config.effective import Effective
from kubelet.config.names import cpus

# C-16: what the kubelet wants of the kernel.
TUNABLES: Final[dict[str, str]] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_NOSWAP_KERNEL: Final = (6, 4)  # the first with the tmpfs option "noswap"
_ENOUGH: Final = 1 << 16
_WHOLE: Final = ["0", "0", "4294967295"]  # the uid map of the initial user namespace


class Severity(enum.Enum):
    """How bad a finding is; an ERROR stops the start."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found on the node; ``reason`` is the node event that it calls for, if any."""

    severity: Severity
    text: str
    reason: str = ""


class Cgroups(enum.Enum):
    """How the node's cgroups are mounted; a mix of both versions counts as V1."""

    V1 = "v1"
    V2 = "v2"
    NONE = "none"


def check(
    effective: Effective, root: Path = Path("/"), uid: int | None = None
) -> tuple[Finding, ...]:
    """Look at the node and say what speaks against a start, and what should be known."""
    uid = os.geteuid() if uid is None else uid
    version = cgroup_version(root)
    found = _user(uid)
    found += _cgroups(effective, root, version)
    found += _swap(effective, root, version)
    found += _oom_kill(effective, version)
    found += _reserved_cpus(effective, root)
    if effective.bool("protectKernelDefaults"):
        found += _protected(root)
    return tuple(found)


def apply(
    effective: Effective, root: Path = Path("/"), uid: int | None = None
) -> tuple[Finding, ...]:
    """Set the kernel's tunables (C-16); with protectKernelDefaults, only compare them."""
    if effective.bool("protectKernelDefaults"):
        return tuple(_protected(root))
    uid = os.geteuid() if uid is None else uid
    ignored = in_user_namespace(root) and effective.gate("KubeletInUserNamespace")
    # C-17: a kubelet without root may run; it cannot own the kernel's settings then.
    severity = Severity.WARNING if ignored or uid != 0 else Severity.ERROR
    findings = [_tune(root, name, wanted, severity) for name, wanted in TUNABLES.items()]
    return tuple(finding for finding in findings if finding is not None)


# --- reading the node --------------------------------------------------------------------------


def _text(path: Path) -> str:
    """Read a small file of the kernel; an endless one costs no more than that."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_ENOUGH)


def _read(path: Path) -> str | None:
    try:
        return _text(path)
    except OSError:
        return None


def cgroup_version(root: Path = Path("/")) -> Cgroups:
    """Tell which cgroups the node has."""
    mount = root / "sys/fs/cgroup"
    if (mount / "cgroup.controllers").exists():
        return Cgroups.V2
    try:
        return Cgroups.V1 if any(mount.iterdir()) else Cgroups.NONE
    except OSError:
        return Cgroups.NONE


def swap_on(root: Path = Path("/")) -> bool:
    """C-14: swap is on when /proc/swaps holds more than its header."""
    text = _read(root / "proc/swaps")
    return text is not None and len([line for line in text.splitlines() if line.strip()]) > 1


def in_user_namespace(root: Path = Path("/")) -> bool:
    """Tell whether this process lives in a user namespace other than the first."""
    text = _read(root / "proc/self/uid_map")
    return bool(text) and [line.split() for line in str(text).splitlines()] != [_WHOLE]


def _noswap_supported(root: Path) -> bool:
    match = re.match(r"(\d+)\.(\d+)", _read(root / "proc/sys/kernel/osrelease") or "")
    return match is not None and (int(match[1]), int(match[2])) >= _NOSWAP_KERNEL


# --- checks ------------------------------------------------------------------------------------


def _user(uid: int) -> list[Finding]:
    """C-17: without root a start goes on, but says so."""
    if uid == 0:
        return []
    text = f"Running as user {uid}: the kubelet needs root for most of what it does"
    return [Finding(Severity.WARNING, text)]


def _cgroups(effective: Effective, root: Path, version: Cgroups) -> list[Finding]:
    """C-15: cgroup v1 only when it is asked for."""
    if version is Cgroups.V2:
        if (root / "sys/fs/cgroup/cpu.stat").exists():
            return []
        text = "The root cgroup has no cpu.stat: kernel 5.8 or newer is needed for its statistics"
        return [Finding(Severity.WARNING, text)]
    what = "uses cgroup v1" if version is Cgroups.V1 else "has no cgroups under /sys/fs/cgroup"
    if effective.bool("failCgroupV1"):
        text = f"The node {what}: use cgroup v2, or set failCgroupV1 to false"
        return [Finding(Severity.ERROR, text)]
    text = f"The node {what}: cgroup v1 is in maintenance mode, use cgroup v2"
    return [Finding(Severity.WARNING, text, "CgroupV1" if version is Cgroups.V1 else "")]


def _swap(effective: Effective, root: Path, version: Cgroups) -> list[Finding]:
    """C-13: swap only when it is asked for, and limited swap only with cgroup v2."""
    found = []
    limited = effective.str("memorySwap.swapBehavior") == "LimitedSwap"
    if limited and version is not Cgroups.V2:
        text = "memorySwap.swapBehavior LimitedSwap needs cgroup v2: set NoSwap, or use cgroup v2"
        found.append(Finding(Severity.ERROR, text))
    if not swap_on(root):
        return found
    if effective.bool("failSwapOn"):
        text = "Swap is on (/proc/swaps): turn it off, or set failSwapOn to false"
        found.append(Finding(Severity.ERROR, text))
    elif not _noswap_supported(root):
        text = "Swap is on and tmpfs has no noswap option: memory-backed volumes may reach the disk"
        found.append(Finding(Severity.WARNING, text, "PossibleMemoryBackedVolumesOnDisk"))
    return found


def _oom_kill(effective: Effective, version: Cgroups) -> list[Finding]:
    """Killing a container as a whole is a feature of cgroup v2."""
    if effective.get("singleProcessOOMKill") is not False or version is Cgroups.V2:
        return []
    text = "singleProcessOOMKill false needs cgroup v2: set it to true, or use cgroup v2"
    return [Finding(Severity.ERROR, text)]


def _reserved_cpus(effective: Effective, root: Path) -> list[Finding]:
    """CPUs that are kept for the system must be there."""
    wanted = cpus(effective.str("reservedSystemCPUs"))
    online = _read(root / "sys/devices/system/cpu/online")
    if not wanted or online is None:
        return []
    try:
        missing = sorted(wanted - cpus(online.strip()))
    except ValueError:
        return []
    if not missing:
        return []
    listed = ",".join(map(str, missing))
    text = f"reservedSystemCPUs names CPUs that are not online: {listed}; online: {online.strip()}"
    return [Finding(Severity.ERROR, text)]


# --- kernel tunables ---------------------------------------------------------------------------


def _path(root: Path, name: str) -> Path:
    return root / "proc/sys" / name


def _protected(root: Path) -> list[Finding]:
    """Compare every tunable and report those that differ."""
    found = []
    for name, wanted in TUNABLES.items():
        actual = (_read(_path(root, name)) or "unreadable").strip()
        if actual != wanted:
            text = (
                f"protectKernelDefaults: /proc/sys/{name} is {actual}, must be {wanted}: "
                f"run sysctl -w {name.replace('/', '.')}={wanted}"
            )
            found.append(Finding(Severity.ERROR, text))
    return found


def _tune(root: Path, name: str, wanted: str, severity: Severity) -> Finding | None:
    """Set one tunable where it differs; the finding says what was done or what stood against it."""
    path = _path(root, name)
    try:
        actual = _text(path).strip()
        if actual == wanted:
            return None
        path.write_text(wanted, encoding="ascii")
    except OSError as err:
        text = (
            f"Cannot set /proc/sys/{name} to {wanted}: {err.strerror}; "
            f"set it outside: sysctl -w {name.replace('/', '.')}={wanted}"
        )
        return Finding(severity, text)
    return Finding(Severity.INFO, f"Changed /proc/sys/{name} from {actual} to {wanted}")
