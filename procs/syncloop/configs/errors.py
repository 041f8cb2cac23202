"""What stands against a configuration, in words that a pod's user understands."""

from __future__ import annotations

from typing import Final

CONTAINER: Final = "CreateContainerConfigError"
SANDBOX: Final = "FailedCreatePodSandBox"


class ConfigError(Exception):
    """A pod cannot be configured as it is; the text is the message that its user reads.

    ``reason`` is the waiting reason of the container, or that of the pod's event (P-102).
    """

    def __init__(self, message: str, reason: str = CONTAINER) -> None:
        super().__init__(message)
        self.reason = reason
