"""What can go wrong with a volume, as a sentence."""

from __future__ import annotations


class VolumeError(Exception):
    """A volume could not be set up or taken down; its text says why."""


class WaitingError(VolumeError):
    """What a volume needs is not there yet; its text says what."""


def sentence(what: str, err: OSError) -> str:
    """Return what failed and the kernel's word for it."""
    return f"{what}: {err.strerror or err}"
