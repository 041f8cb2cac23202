"""The eviction process: what pods may use, and what they do use.

Owns: table ``stats``, and the cgroups of pods and those above them. Reads: ``pods``, ``runtime``.
Answers: ``ensure-pod-cgroup``, ``remove-pod-cgroup``. Sends: hints on what it writes.

When it dies: the limits in force stay with the kernel. Its successor reads from the groups what
the pods in them were given, and measures again.
"""

from __future__ import annotations

import os

from kubelet.machine import capacity
from kubelet.process import Process
from procs.eviction import cgrouptree
from procs.eviction.podcgroups import PodCgroups


async def main(process: Process) -> None:
    """Answer requests until asked to stop."""
    pod_cgroups(process).start()
    await process.stopping.wait()


def pod_cgroups(process: Process) -> PodCgroups:
    """Return what looks after the cgroups of pods on this node."""
    root = os.path.abspath(process.config.str("--root-dir"))
    limits = capacity.enforced(capacity.read(root), process.config)
    return PodCgroups(process, cgrouptree.Tree(cgrouptree.find()), lambda: limits)
