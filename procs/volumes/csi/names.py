"""The names that a volume of a CSI driver goes by; all nodes and controllers make the same ones."""

from __future__ import annotations

from hashlib import sha256

from procs.volumes import layout


def attachment(handle: str, driver: str, node: str) -> str:
    """Return the name of the VolumeAttachment of a volume and a node (L-44)."""
    return "csi-" + _hash(handle + driver + node)


def inline_handle(uid: str, volume: str) -> str:
    """Return the handle of a volume that a pod brings with it."""
    return "csi-" + _hash(uid + volume)


def staged(handle: str) -> str:
    """Return the name of the directory in which a volume is staged (L-42)."""
    return _hash(handle)


def device(driver: str, handle: str) -> str:
    """Return a volume's name in the node's status (L-13)."""
    return f"{layout.CSI}/{driver}^{handle}"


def _hash(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()
