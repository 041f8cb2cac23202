"""The syntax of names: labels, taints, sysctls, images, CPU lists."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?")
_DNS: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_KEY: Final = (
    'must be a label key such as "example.com/zone": at most 63 letters, digits, -, _ or .'
)
_VALUE: Final = "must be at most 63 letters, digits, -, _ or ., with a letter or digit at each end"

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# N-7: labels of Kubernetes' own domains that a kubelet may set on its node.
_OWN_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED: Final = ("kubernetes.io", "k8s.io")


def label_key(key: str) -> str | None:
    """Return what is allowed if the text is no label key."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS.fullmatch(prefix)):
        return _KEY
    return None if len(name) <= 63 and _PART.fullmatch(name) else _KEY


def label_value(value: str) -> str | None:
    """Return what is allowed if the text is no label value."""
    if not value:
        return None
    return None if len(value) <= 63 and _PART.fullmatch(value) else _VALUE


def _within(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == one or domain.endswith("." + one) for one in domains)


def node_label(key: str) -> str | None:
    """Return what is allowed if a kubelet may not put this label on its node (N-7)."""
    domain = key.partition("/")[0] if "/" in key else ""
    if not _within(domain, _RESERVED) or key in _OWN_LABELS or _within(domain, _OWN_DOMAINS):
        return None
    known = ", ".join(sorted(_OWN_LABELS))
    return f"in kubernetes.io and k8s.io only *.{', *.'.join(_OWN_DOMAINS)} and {known} are allowed"


# --- sysctls ---------------------------------------------------------------------------------

_SYSCTL: Final = re.compile(
    r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:[./][a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*"
)
_SYSCTL_PATTERN: Final = re.compile(r"(?:[a-z0-9][-_a-z0-9]*[./])*(?:[a-z0-9][-_a-z0-9]*)?\*")
_NAMESPACED: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.", "net.")


def sysctl_name(name: str) -> str:
    """Return the dotted form of a sysctl, which may be written with slashes."""
    first = min((name.find(mark) for mark in "./" if mark in name), default=-1)
    if first < 0 or name[first] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def sysctl(name: str, pattern: bool = False) -> str | None:
    """Return what is allowed if the text is no namespaced sysctl (or prefix of such, with *)."""
    prefix = pattern and name.endswith("*")
    shape = _SYSCTL_PATTERN if prefix else _SYSCTL
    if len(name) > 253 or not shape.fullmatch(name):
        return 'must be a sysctl such as "net.core.somaxconn"' + (
            ', or a prefix such as "net.ipv4.*"' if pattern else ""
        )
    dotted = sysctl_name(name.removesuffix("*") if prefix else name)
    if dotted == "kernel.sem" or dotted.startswith(_NAMESPACED):
        return None
    return "must be a namespaced sysctl: kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.*, net.*"


# --- images and CPUs -------------------------------------------------------------------------

_HOST: Final = r"[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?(?::[0-9]+)?"
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*")
_IMAGES: Final = re.compile(rf"{_HOST}(?:/{_COMPONENT})*/\*")


def image_pattern(text: str) -> str | None:
    """Return what is allowed if the text names no image and no host/path/*."""
    good = len(text) <= 512 and (_IMAGE.fullmatch(text) or _IMAGES.fullmatch(text))
    return None if good else 'must be an image name without tag or digest, or "host/path/*"'


def cpus(text: str) -> frozenset[int]:
    """Read a list of CPUs such as "0-3,8", or raise ValueError."""
    out: set[int] = set()
    for part in text.split(",") if text else []:
        low, dash, high = part.partition("-")
        ends = [low, high] if dash else [low]
        if not all(end.isascii() and end.isdigit() and len(end) <= 6 for end in ends):
            raise ValueError('must be a list of CPUs such as "0-3,8"')
        first, last = int(ends[0]), int(ends[-1])
        if last < first:
            raise ValueError("must have ranges from a smaller to a larger number")
        out |= set(range(first, last + 1))
    return frozenset(out)
