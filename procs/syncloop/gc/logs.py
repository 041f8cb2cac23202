"""Which logs belong to what, and which of them go (I-4, I-41). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubelet.pods.runtime import ContainerRecord, ContainerState, PodRecord
from procs.syncloop.gc.policy import Owners
from procs.syncloop.site import Site

_SUFFIX: Final = ".log"
_NAME_LIMIT: Final = 255  # bytes of a file's name


def log_directory(site: Site, pod: PodRecord, container: ContainerRecord) -> str | None:
    """Return where a container's logs are; None if its names are none that we would give."""
    if not all(map(is_plain, (pod.namespace, pod.name, pod.uid, container.name))):
        return None
    return f"{site.pod_logs_dir(pod.namespace, pod.name, pod.uid)}/{container.name}"


def is_log_of(file: str, container: ContainerRecord) -> bool:
    """Tell whether a file in that directory is this instance's log, rotated ones included."""
    current = f"{container.attempt}{_SUFFIX}"
    return file == current or file.startswith(f"{current}.")


def link_name(pod: PodRecord, container: ContainerRecord) -> str | None:
    """Return the file name of a container's legacy link (P-154); None as above."""
    if not all(map(is_plain, (pod.namespace, pod.name, container.name, container.id))):
        return None
    name = f"{pod.name}_{pod.namespace}_{container.name}-{container.id}"
    room = _NAME_LIMIT - len(_SUFFIX)
    return name.encode()[:room].decode(errors="ignore") + _SUFFIX


def select_log_directories(
    directories: Iterable[str], owners: Owners, held: frozenset[str]
) -> tuple[str, ...]:
    """Return the pods' log directories that are to be removed now (I-4).

    ``held`` are the pods of which the runtime still has containers: their logs stay with them.
    What is not named as a pod's directory is not ours.
    """
    found = []
    for directory in directories:
        parts = directory.split("_")
        if len(parts) != 3 or not all(parts):
            continue
        uid = parts[2]
        if uid not in held and owners.removable(uid):
            found.append(directory)
    return tuple(found)


def select_links(dangling: Iterable[str], pods: Iterable[PodRecord]) -> tuple[str, ...]:
    """Return the links to nothing that are to be removed now (I-4).

    Not those of a container that has not ended: its log may be moved away just now.
    """
    lasting = [c.id for pod in pods for c in pod.containers if c.state is not ContainerState.EXITED]
    found = []
    for name in dangling:
        if not name.endswith(_SUFFIX) or name.count("_") < 2 or "-" not in name:
            continue  # not ours
        id_ = name.removesuffix(_SUFFIX).rpartition("-")[2]  # cut off in a very long name
        if not any(c.startswith(id_) for c in lasting):
            found.append(name)
    return tuple(found)


def is_plain(part: str) -> bool:
    """Tell whether a name is one step of a path, and not one that leads elsewhere."""
    return bool(part) and "/" not in part and "\0" not in part and part not in {".", ".."}
