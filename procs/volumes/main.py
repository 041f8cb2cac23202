"""The volumes process: what a pod's containers mount is there before them, and goes after them.

Owns: table ``mounts``, and the directories ``volumes``, ``plugins`` and ``volume-subpaths`` of
each pod. Reads: ``pods``; and ``objects`` for what the API server has of secrets, config maps and
service account tokens. Sends: hints on what it writes.

A pod's row in state sync or terminating is enough to have its volumes mounted; one that is
terminated has them unmounted and removed, and then our row goes away, which is what syncloop waits
for. emptyDir, hostPath, downwardAPI, secret, configMap and projected are known; any other kind
fails with a sentence.

An object that is not in its table yet is waited for: the volume is set up at the hint that it is
there. When it changes, the files are written anew at once, all of them together; when it is gone or
cannot be read any more, what is mounted stays as it was, and the row says why.

When it dies: what is mounted stays mounted. Its successor finds what was begun in its table, on
the disk and in the kernel's list of mounts, and finishes it.
When a mount hangs: it takes one thread of this process, and the pod that wants it waits.
"""

from __future__ import annotations

import os
import re
from typing import Final

from kubelet.machine import capacity
from kubelet.process import Process
from procs.volumes.kinds import Settings
from procs.volumes.layout import Layout
from procs.volumes.manager import Volumes

_NOSWAP_KERNEL: Final = (6, 4)  # the first with the option for tmpfs


async def main(process: Process) -> None:
    """Keep volumes as the table of pods wants them until asked to stop."""
    volumes = make(process)
    volumes.start()
    await process.stopping.wait()
    volumes.close()


def make(process: Process) -> Volumes:
    """Return the process's parts, put together."""
    root = os.path.abspath(process.config.str("--root-dir"))
    return Volumes(process, Layout(root), settings(process, root))


def settings(process: Process, root: str) -> Settings:
    """Return what of the node matters for volumes."""
    return Settings(
        allocatable=capacity.allocatable(capacity.read(root), process.config),
        noswap=knows_noswap(os.uname().release),
        modes=process.config.gate("EmptyDirVolumeMode"),
        api_server=bool(process.config.str("--kubeconfig")),
    )


def knows_noswap(release: str) -> bool:
    """Tell whether a kernel of this release can keep a tmpfs out of swap."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= _NOSWAP_KERNEL
