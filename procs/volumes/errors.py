"""What can go wrong with a volume, as a sentence."""

from __future__ import annotations


class VolumeError(Exception):
    """A volume could not be set up or taken down; its text says why."""


class WaitingError(VolumeError):
    """What a volume needs is not there yet; its text says what."""


class HangingError(VolumeError):
    """An operation does not come back, and another one cannot be begun until it does."""

    def __init__(self, message: str, key: str = "") -> None:
        """``key``: what it is known under to those who run operations."""
        super().__init__(message)
        self.key = key


class FatalError(VolumeError):
    """The pod cannot have its volume on this node, and is to fail with this reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def sentence(what: str, err: OSError) -> str:
    """Return what failed and the kernel's word for it."""
    return f"{what}: {err.strerror or err}"
