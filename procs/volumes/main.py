"""The volumes process: what a pod's containers mount is there before them, and goes after them.

Owns: tables ``mounts`` and ``volumestats``; the directories ``volumes``, ``volumeDevices``,
``plugins`` and ``volume-subpaths`` of each pod, and what plugins share below the kubelet's root.
Reads: ``pods``; ``objects`` and ``cluster`` for what the API server has of secrets, config maps,
tokens, claims, trust anchors, CSI drivers and this node. Sends: hints on what it writes; asks
``node`` to tell the API server of CSI drivers, attachments and claims that have grown.
Answers: where a part of a volume is bound for a container, and what a file of variables says.

A pod's row in state sync or terminating is enough to have its volumes mounted; one that is
terminated has them unmounted and removed, and then our row goes away, which is what syncloop waits
for. An object that is not in its table yet is waited for: the volume is set up at the hint that it
is there. When it changes, files are written anew at once, all of them together; when it is gone or
cannot be read any more, what is mounted stays as it was, and the row says why.

When it dies: what is mounted stays mounted. Its successor finds what was begun in its table, on
the disk and in the kernel's list of mounts, and finishes it; CSI drivers are found by
their sockets.
When a mount hangs: it is an operation in a process of its own (``operations/``), which is left
behind if the kernel does not let it go. The pod that wants it waits, its row says for what and
since when, and nobody else notices.
"""

from __future__ import annotations

import os
import re
from typing import Final

from kubelet.channels.messages import PrepareSubPath, ReadFileKey
from kubelet.machine import capacity
from kubelet.process import Process
from procs.volumes import layout as places
from procs.volumes.csi.drivers import Drivers
from procs.volumes.csi.plugin import CsiPlugin
from procs.volumes.csi.registration import Registration
from procs.volumes.envfile import EnvFiles
from procs.volumes.kinds import Settings
from procs.volumes.kit import Kit
from procs.volumes.layout import Layout
from procs.volumes.local import LocalPlugin
from procs.volumes.manager import Volumes
from procs.volumes.measuring import make_stats
from procs.volumes.nfs import NfsPlugin
from procs.volumes.operations.runner import Operations
from procs.volumes.staged import Sweeper
from procs.volumes.subpath import SubPaths

_NOSWAP_KERNEL: Final = (6, 4)  # the first with the option for tmpfs
_AT_ONCE: Final = 256  # questions under way: those about a volume that hangs keep no other
_OPERATIONS: Final = "operations"  # below the run directory


async def main(process: Process) -> None:
    """Keep volumes as the table of pods wants them until asked to stop."""
    kit = make_kit(process)
    drivers = Drivers()
    csi = CsiPlugin(
        process,
        kit.layout,
        kit.ops,
        drivers,
        node=process.node,
        api_server=kit.settings.api_server,
    )
    kit.plugins = {
        places.LOCAL: LocalPlugin(process, kit.layout, kit.ops),
        places.NFS: NfsPlugin(kit.layout, kit.ops),
        places.CSI: csi,
    }
    volumes = Volumes(kit)
    drivers.on_change(volumes.driver_changed)
    stats = make_stats(kit, volumes, csi)
    answer(kit, volumes)
    registration = Registration(
        process,
        kit.layout.root,
        drivers,
        api_server=kit.settings.api_server,
        mutable_count=process.config.gate("MutableCSINodeAllocatableCount"),
    )
    volumes.start()
    registration.start()
    stats.start()
    Sweeper(kit, volumes, csi).start()
    await process.stopping.wait()
    registration.close()
    stats.close()
    volumes.close()


def make_kit(process: Process) -> Kit:
    """Return what every part needs."""
    root = os.path.abspath(process.config.str("--root-dir"))
    locks = os.path.join(process.config.str("--run-dir"), _OPERATIONS)
    return Kit(process, Layout(root), settings(process, root), Operations(locks))


def answer(kit: Kit, volumes: Volumes) -> None:
    """Answer what syncloop asks for its containers."""
    given = (kit.process, kit.layout, kit.ops, volumes.path_of)
    handle = kit.process.channels.handle
    handle(PrepareSubPath, SubPaths(*given).handle, limit=_AT_ONCE)
    handle(ReadFileKey, EnvFiles(*given).handle, limit=_AT_ONCE)


def settings(process: Process, root: str) -> Settings:
    """Return what of the node matters for volumes."""
    return Settings(
        allocatable=capacity.allocatable(capacity.read(root), process.config),
        noswap=knows_noswap(os.uname().release),
        modes=process.config.gate("EmptyDirVolumeMode"),
        api_server=bool(process.config.str("--kubeconfig")),
        node=process.node,
    )


def knows_noswap(release: str) -> bool:
    """Tell whether a kernel of this release can keep a tmpfs out of swap."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= _NOSWAP_KERNEL
