"""What holds for every test, however the tests were started."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Have SIGINT do its work: a shell ignores it for what it starts in the background.

    What is ignored is ignored by all descendants too, and commands under test would not end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
