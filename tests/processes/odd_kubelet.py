"""A kubelet whose children run in a frame of ``frames.py``: real processes with real faults."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from kubelet import main

_settings = main._settings


def _odd_settings(effective):
    return replace(_settings(effective), frame=f"tests.processes.frames:{os.environ['ODD_FRAME']}")


main._settings = _odd_settings

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
