"""What is written down of a volume of a CSI driver before the driver is asked for anything.

The files are those of every kubelet, so that each can take over from the other. One key is ours
alone, and others pass over it: ``state`` says how far a volume is, so that a successor neither
repeats what is done nor forgets what is half done.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from typing import Any, Final

from procs.volumes import mounts
from procs.volumes.csi import names
from procs.volumes.errors import VolumeError, sentence

RESERVED: Final = "reserved"  # the volume may be staged, but it is not published
PUBLISHING: Final = "publishing"  # whether it is published is not sure
_DONE: Final = "published"
_TEMPORARY: Final = ".tmp"
_MODE: Final = 0o750  # of directories
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Record:
    """What such a file says."""

    driver: str
    handle: str
    spec: str = ""
    node: str = ""  # set: with the name of the attachment
    mode: str = ""  # Persistent or Ephemeral, of file systems
    state: str = ""  # "": another kubelet has written it

    @property
    def published(self) -> bool:
        """Tell whether the volume is published, or may be."""
        return self.state != RESERVED

    @property
    def done(self) -> bool:
        """Tell whether it was published, and nothing was left to do."""
        return self.state.startswith(_DONE)

    def at(self, state: str) -> Record:
        """Return the same, as far as this."""
        return replace(self, state=state)

    def to_json(self) -> dict[str, str]:
        """Return the content of the file."""
        document = {"driverName": self.driver, "volumeHandle": self.handle}
        if self.spec:
            document["specVolID"] = self.spec
        if self.node:
            document["nodeName"] = self.node
            document["attachmentID"] = names.attachment(self.handle, self.driver, self.node)
        if self.mode:
            document["volumeLifecycleMode"] = self.mode
        if self.state:
            document["state"] = self.state
        return document


def load(path: str) -> Record | None:
    """Return what a file says, None if there is none; a VolumeError: it says nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except OSError as err:
        raise VolumeError(sentence(f"could not read {path}", err)) from err
    except ValueError as err:
        raise VolumeError(f"{path} is no JSON: {err}") from err
    return _parsed(path, document)


def _parsed(path: str, document: Any) -> Record:
    if not isinstance(document, dict):
        raise VolumeError(f"{path} holds {type(document).__name__}, not an object")
    texts = {key: value for key, value in document.items() if isinstance(value, str)}
    for key in ("driverName", "volumeHandle"):
        if not texts.get(key):
            raise VolumeError(f"{path}: {key} is {document.get(key)!r}, which is no name")
    return Record(
        texts["driverName"],
        texts["volumeHandle"],
        texts.get("specVolID", ""),
        texts.get("nodeName", ""),
        texts.get("volumeLifecycleMode", ""),
        texts.get("state", ""),
    )


def save(path: str, record: Record) -> None:
    """Write a record down, so that it is there as a whole whatever happens."""
    temporary = path + _TEMPORARY
    try:
        make(os.path.dirname(path))
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(json.dumps(record.to_json()) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
        _sync(os.path.dirname(path))
    except OSError as err:
        raise VolumeError(sentence(f"could not write {path}", err)) from err


def _sync(directory: str) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def make(directory: str) -> None:
    """Make a directory with all above it; what is mounted there is not touched."""
    missing = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, _MODE)


def forget(path: str) -> None:
    """Remove a record."""
    for name in (path + _TEMPORARY, path):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(name)


def remove_directory(path: str) -> None:
    """Remove a directory that is empty, and on which nothing is mounted."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.rmdir(path)


def mounted(path: str) -> bool:
    """Tell whether something is mounted on a path, without touching it."""
    return mounts.real(path) in mounts.points()


def mounted_below(path: str) -> str:
    """Return what is mounted on a path or below; "" for nothing."""
    found = mounts.below(mounts.real(path), mounts.points())
    return found[0] if found else ""


def mark(target: str) -> str:
    """Return the state of a volume that is published now: it is another one after a reboot."""
    with open(_BOOT, encoding="ascii") as file:
        boot = file.read().strip()
    return f"{_DONE} {boot} {'mounted' if mounted(target) else 'plain'}"
