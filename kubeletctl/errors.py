"""What kubeletctl says when it cannot do what it was asked, and the exit codes."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1  # not healthy; or what was asked for was refused or did not work
NOT_THERE: Final = 2  # no kubelet there, or a command line that makes no sense
INTERRUPTED: Final = 130


class CtlError(Exception):
    """One sentence for the operator, and the exit code."""

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        super().__init__(sentence)
        self.code = code


class NotThereError(CtlError):
    """There is no kubelet to look at, or it may not be looked at."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, NOT_THERE)
