"""Where volumes of CSI drivers are on disk (L-42, L-34): as every kubelet has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from procs.volumes import layout
from procs.volumes.csi import names
from procs.volumes.layout import Layout

DATA: Final = "vol_data.json"
_DEVICES: Final = "volumeDevices"  # beside the directories of drivers


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a volume is prepared once for all pods of the node."""

    target: str  # what the driver is told
    record: str  # the file that says what it is
    made: tuple[str, ...] = ()  # of a device: the directories that go with it, this one first
    published: str = ""  # of a device: the one of them in which it is published to pods


@dataclass(frozen=True, slots=True)
class Place:
    """Where a volume is of one pod."""

    standing: str  # what is found of it when all else is forgotten
    target: str  # what the driver is told to publish it at
    path: str  # what containers get
    record: str  # the file that says what it is
    state: str  # the file that says how far it is: the same, unless pods share the former
    uid: str  # of the pod
    spec: str
    block: bool = False


@dataclass(frozen=True, slots=True)
class Paths:
    """The places below the kubelet's root directory."""

    layout: Layout

    @property
    def stages(self) -> str:
        """Where volumes are staged: a directory for each driver."""
        return self.layout.shared(layout.CSI)

    @property
    def devices(self) -> str:
        """Where block volumes are, by the name of the persistent volume."""
        return f"{self.stages}/{_DEVICES}"

    def stage(self, driver: str, handle: str, spec: str, *, block: bool) -> Stage:
        """Where a volume is staged."""
        return self.block_stage(spec) if block else self.mount_stage(driver, names.staged(handle))

    def mount_stage(self, driver: str, name: str) -> Stage:
        """Where a file system is staged."""
        directory = f"{self.stages}/{driver}/{name}"
        target = f"{directory}/globalmount"
        return Stage(target, f"{directory}/{DATA}")

    def block_stage(self, spec: str) -> Stage:
        """Where a device is staged; the directory of what is published goes with it."""
        target, own = f"{self.devices}/staging/{spec}", f"{self.devices}/{spec}"
        published = f"{self.devices}/publish/{spec}"
        made = (target, published, f"{own}/dev", f"{own}/data", own)
        return Stage(target, f"{own}/data/{DATA}", made, published)

    def is_driver(self, name: str) -> bool:
        """Tell whether a directory beside the drivers' is one of a driver."""
        return name != _DEVICES

    def place(self, uid: str, spec: str, *, block: bool) -> Place:
        """Where a volume of a pod is."""
        return self.block(uid, spec) if block else self.mount(uid, spec)

    def mount(self, uid: str, spec: str) -> Place:
        """Where a file system of a pod is."""
        directory = self.layout.volume(uid, layout.CSI, spec)
        target, record = f"{directory}/mount", f"{directory}/{DATA}"
        return Place(directory, target, target, record, record, uid, spec)

    def block(self, uid: str, spec: str) -> Place:
        """Where a device of a pod is: containers get the link to what the driver publishes."""
        link = self.layout.device(uid, layout.CSI, spec)
        data = f"{self.devices}/{spec}/data"
        target = f"{self.devices}/publish/{spec}/{uid}"
        record, state = f"{data}/{DATA}", f"{data}/{uid}.json"
        return Place(link, target, link, record, state, uid, spec, block=True)

    def mapped(self, spec: str) -> str:
        """Where a device is bound to for each pod, which keeps it what it is."""
        return f"{self.devices}/{spec}/dev"
