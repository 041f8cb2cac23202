"""The hash by which a change of a container's definition is known (P-78).

It covers name and image alone: whatever else of a container changes does not restart it. A
container carries the hash of its definition in an annotation; when the definition has another one
now, the container is replaced.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final

from kubelet.api.container import Container
from kubelet.pods.runtime import ContainerRecord

HASH_ANNOTATION: Final = "io.kubernetes.container.hash"

_OFFSET: Final = 0x811C9DC5  # FNV-1a, 32 bits
_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF
# What Go's JSON encoder escapes beyond what JSON demands.
_ESCAPED: Final = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)


def fnv32a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of some bytes."""
    found = _OFFSET
    for byte in data:
        found = ((found ^ byte) * _PRIME) & _MASK
    return found


def go_json(value: object) -> bytes:
    """Return a document as Go's encoder writes it: compact, and safe inside HTML."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_ESCAPED).encode(errors="replace")


def container_hash(container: Container) -> str:
    """Return the hash that a container carries in its annotation, in hexadecimal digits."""
    return _hashes(container.name, container.image)[0]


def matches(container: Container, record: ContainerRecord) -> bool | None:
    """Tell whether a container was made of this definition; None: it does not say of which.

    The hash of a Go kubelet is as good as ours: a node that changes over keeps its containers.
    """
    carried = record.annotations.get(HASH_ANNOTATION, "")
    if not carried:
        return None
    return carried in _hashes(container.name, container.image)


@lru_cache(maxsize=4096)
def _hashes(name: str, image: str) -> tuple[str, str]:
    """Return the hash that we write, and the one that a Go kubelet writes."""
    ours = fnv32a(go_json({"name": name, "image": image}))
    # There, the JSON's keys are sorted, and what is hashed is the printed form of its bytes.
    printed = " ".join(str(byte) for byte in go_json({"image": image, "name": name}))
    theirs = fnv32a(f"([]uint8)[{printed}]".encode())
    return f"{ours:x}", f"{theirs:x}"
