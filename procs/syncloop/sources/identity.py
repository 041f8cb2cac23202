"""Who a static pod is: its UID is a hash of what it is, where it runs and where it came from (P-7).

The same file on the same node is the same pod over any restart; another content is another pod.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.pods.rows import FILE, SOURCES_KEY

# The FNV-1a hash of 128 bits: its offset basis and its prime.
_OFFSET: Final = 0x6C62272E07BB014262B821756295C58D
_PRIME: Final = (1 << 88) + 0x13B
_MASK: Final = (1 << 128) - 1

# A UID is a key of tables, a directory's name and a part of a cgroup's name.
_UID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_KEYS: Final = frozenset({SOURCES_KEY, "runtime"})  # entries of tables that are no pods
UID_RULE: Final = (
    "must be 1 to 128 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
)


def fnv128a(data: bytes, value: int = _OFFSET) -> int:
    """Return the FNV-1a hash of 128 bits; ``value`` is that of what came before."""
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def static_uid(pod: Pod, node: str, source: str, where: str) -> str:
    """Return the UID of a pod as it stands in its manifest, before any default is set."""
    document = codec.encode(replace(pod, status=PodStatus()))
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    place = f"file:{where}" if source == FILE else f"url:{where}"
    # A file's name need not be UTF-8.
    whole = f"{text}host:{node}{place}".encode(errors="surrogateescape")
    return f"{fnv128a(whole):032x}"


def uid_problem(uid: str) -> str:
    """Return what is wrong with a UID that somebody chose; "" if nothing is."""
    if _UID.fullmatch(uid) and uid not in _KEYS:
        return ""
    return f"metadata.uid: Invalid value: {uid!r}: {UID_RULE}"
