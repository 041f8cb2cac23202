"""Garbage of the runtime: dead containers, old sandboxes and their logs (7.1)."""

from procs.syncloop.gc.collector import ContainerGc
from procs.syncloop.gc.policy import GcPolicy, KnownPod

__all__ = ["ContainerGc", "GcPolicy", "KnownPod"]
