"""The version: of the Kubernetes behaviour that this kubelet follows, and its own."""

from __future__ import annotations

import os
import sys
from typing import Final

import kubelet
from kubelet.machine.architecture import architecture

VERSION: Final = "v1.37.0"


def version_text(kind: str = "true") -> str:
    """Return what --version prints; "raw" gives every detail."""
    if kind != "raw":
        return f"Kubernetes {VERSION}"
    major, minor, _ = VERSION.removeprefix("v").split(".")
    python = ".".join(map(str, sys.version_info[:3]))
    details = {
        "Major": major,
        "Minor": minor,
        "GitVersion": VERSION,
        "Compiler": f"{sys.implementation.name} {python}",
        "Platform": f"{os.uname().sysname.lower()}/{architecture()}",
        "Distribution": f"kubelet {kubelet.__version__}",
    }
    return "version.Info{" + ", ".join(f'{k}:"{v}"' for k, v in details.items()) + "}"
