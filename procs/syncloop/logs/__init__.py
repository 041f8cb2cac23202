"""The logs of running containers are kept from growing without end (7.4)."""

from procs.syncloop.logs.rotation import Rotator

__all__ = ["Rotator"]
