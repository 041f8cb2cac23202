"""Logs of containers, as the runtime writes them to files: read, found, followed (2.5)."""

from kubelet.logs.errors import LogError, NoLogError
from kubelet.logs.instance import choose_container, container_names, instance
from kubelet.logs.options import LogOptions, problems, since
from kubelet.logs.reader import LogReader, follow, read, stream
from kubelet.logs.records import Stream
from kubelet.logs.rendering import Piece

__all__ = [
    "LogError",
    "LogOptions",
    "LogReader",
    "NoLogError",
    "Piece",
    "Stream",
    "choose_container",
    "container_names",
    "follow",
    "instance",
    "problems",
    "read",
    "since",
    "stream",
]
