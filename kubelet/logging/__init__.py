"""Structured logging in the kubelet's own manner: klog-like text, or JSON, one line per write.

Every line carries the process it came from, and the pod it is about. Standard library only: the
supervisor logs through it too.
"""

from kubelet.logging.logger import (
    Logger,
    Throttle,
    configure,
    every,
    flush,
    get_logger,
    lost_lines,
    process_name,
    set_process,
    set_verbosity,
    verbosity,
)
from kubelet.logging.settings import Settings, parse_vmodule

__all__ = [
    "Logger",
    "Settings",
    "Throttle",
    "configure",
    "every",
    "flush",
    "get_logger",
    "lost_lines",
    "parse_vmodule",
    "process_name",
    "set_process",
    "set_verbosity",
    "verbosity",
]
