"""What a kind of volume is to the rest of this process.

A plugin sets one volume of one pod up, and takes down what it finds of it on disk. Each call is an
operation of its own: of one volume of a pod there is never more than one under way, of different
ones there may be any number. A call may wait for as long as it must; it may be cut off at any
instruction by the death of the process, and is then made again from whatever is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

W_contra = TypeVar("W_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Done:
    """A volume that is set up."""

    path: str  # for containers
    changed: bool = False  # it was not, or not like this
    again: float = 0.0  # seconds after which it is to be set up again (L-15); 0: never


@dataclass(frozen=True, slots=True)
class PodInfo:
    """The pod that an operation is for."""

    uid: str
    name: str = ""
    namespace: str = ""
    account: str = ""  # its service account


@dataclass(frozen=True, slots=True)
class Standing:
    """A volume of a pod as it is found on disk."""

    uid: str  # of the pod
    plugin: str  # kubernetes.io/csi, ...
    name: str  # of its directory
    path: str
    block: bool = False  # it is below volumeDevices


Say = Callable[[str], None]  # told what is done now, for ``kubeletctl status``


class Plugin(Protocol, Generic[W_contra]):
    """One kind of volume."""

    async def set_up(self, want: W_contra, pod: PodInfo, say: Say) -> Done:
        """Set a volume up; a VolumeError says why it cannot be."""

    async def tear_down(self, volume: Standing, say: Say) -> None:
        """Take down a volume of which only the disk tells; a VolumeError says what is left.

        Afterwards nothing is at ``volume.path``.
        """
