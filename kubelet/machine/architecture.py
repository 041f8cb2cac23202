"""What Kubernetes calls the machine's architecture."""

from __future__ import annotations

import os
from typing import Final

_NAMES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
}


def architecture() -> str:
    """Return the name; one that is not known is the kernel's own."""
    machine = os.uname().machine
    return _NAMES.get(machine, machine)
