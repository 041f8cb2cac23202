"""How getting an image can fail, as the pod's status names it (P-102)."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The waiting reasons of a container whose image cannot be had (P-102)."""

    PULL = "ErrImagePull"
    BACKOFF = "ImagePullBackOff"
    INSPECT = "ImageInspectError"
    NEVER = "ErrImageNeverPull"
    INVALID_NAME = "InvalidImageName"
    REGISTRY = "RegistryUnavailable"
    SIGNATURE = "SignatureValidationFailed"


class ImageError(Exception):
    """An image cannot be had now; ``until_ns`` (wall clock) says when it is worth another try."""

    def __init__(self, reason: Reason, message: str, until_ns: int = 0) -> None:
        super().__init__(reason, message, until_ns)
        self.reason = reason
        self.message = message
        self.until_ns = until_ns

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"
