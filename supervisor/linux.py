"""The few kernel calls that the standard library does not wrap."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_NAME: Final = 15
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITY_VERSION_3: Final = 0x20080522

# By the numbers of the kernel's interface, which never change.
CAPABILITIES: Final[dict[str, int]] = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_RESOURCE": 24,
    "CAP_MKNOD": 27,
    "CAP_LEASE": 28,
    "CAP_SYSLOG": 34,
}

_libc = ctypes.CDLL(None, use_errno=True)


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def prctl(option: int, value: int = 0) -> None:
    """``prctl(2)`` with one number."""
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def set_parent_death_signal(number: signal.Signals) -> None:
    """Have the kernel send this signal when the parent dies (a change of user clears it)."""
    prctl(PR_SET_PDEATHSIG, number)


def set_no_new_privileges() -> None:
    """No program started from here can gain what this process has not."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def permitted_capabilities() -> int:
    """The permitted set, as a bit mask."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapPrm:"):
                return int(line.split()[1], 16)
    return 0


def drop_bounding_set(keep: int) -> None:
    """Take every capability but these out of the bounding set."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as last:
        count = int(last.read()) + 1
    for number in range(count):
        if not keep >> number & 1:
            prctl(PR_CAPBSET_DROP, number)


def set_capabilities(mask: int) -> None:
    """Have exactly these, permitted and effective; none inheritable."""
    header = _CapHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapData * 2)()
    for half in range(2):
        bits = mask >> (32 * half) & 0xFFFFFFFF
        data[half] = _CapData(bits, bits, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def capability_mask(names: frozenset[str]) -> int:
    """Names to a bit mask."""
    mask = 0
    for name in names:
        mask |= 1 << CAPABILITIES[name]
    return mask


def set_title(title: str) -> None:
    """Show ``title`` in ps, top and pgrep, in place of the command line."""
    name = title.removeprefix("kubelet: ").encode()[:15]
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)
    with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end
    if end - start > 1:
        text = title.encode()[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))


def inotify_watch(path: str, mask: int) -> int:
    """A descriptor that becomes readable when one of these events happens to the file."""
    fd = int(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if fd < 0:
        _check(-1, "inotify_init1")
    if _libc.inotify_add_watch(fd, os.fsencode(path), mask) < 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, f"inotify_add_watch {path}: {os.strerror(number)}")
    return fd
