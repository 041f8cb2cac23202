"""What a CSI driver's refusal means (L-43). Free of gRPC, for those who only catch it."""

from __future__ import annotations

from typing import Final

from kubelet.cri.errors import Code
from procs.volumes.errors import VolumeError

# After these the driver may still be at it, or may have done it without being able to say so. Any
# other answer means that nothing is under way.
UNCERTAIN: Final = frozenset(
    code.value
    for code in (
        Code.CANCELLED,
        Code.DEADLINE_EXCEEDED,
        Code.UNAVAILABLE,
        Code.RESOURCE_EXHAUSTED,
        Code.ABORTED,
    )
)


class CsiError(VolumeError):
    """A driver did not do what it was asked for.

    ``final`` is false where it may do so still: then nobody knows how its volume is, and whoever
    gives up must undo the call nevertheless.
    """

    def __init__(self, driver: str, method: str, code: int, message: str) -> None:
        self.driver = driver
        self.method = method
        self.code = code  # a gRPC status
        self.message = message
        self.final = code not in UNCERTAIN
        super().__init__(f"{method} of CSI driver {driver}: {self.go_text}")

    @property
    def go_text(self) -> str:
        """The status as it stands in events of a Go kubelet."""
        return f"rpc error: code = {_label(self.code)} desc = {self.message}"


class RegistrationError(Exception):
    """A plugin cannot be registered; its text says why.

    ``again`` tells whether trying again may help while its socket stays the same. ``kept``: only
    the API server does not know of the driver yet, and volumes can be mounted with it.
    """

    def __init__(self, text: str, *, again: bool = True, kept: bool = False) -> None:
        super().__init__(text)
        self.again = again
        self.kept = kept


class TakenError(RegistrationError):
    """Another plugin has registered a driver of that name."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def _label(code: int) -> str:
    try:
        return Code(code).label
    except ValueError:
        return f"Code({code})"
