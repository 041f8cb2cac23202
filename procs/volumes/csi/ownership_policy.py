"""Whether the files of a volume of a CSI driver are given to the pod's group (L-33)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kubelet.cluster.rows import CsiDriverRow

NONE: Final = "None"
FILE: Final = "File"
ONCE_WITH_FS_TYPE: Final = "ReadWriteOnceWithFSType"
_ONCE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def gives(  # noqa: PLR0913 - all of it matters
    info: CsiDriverRow | None,
    *,
    fs_group: int | None,
    read_only: bool,
    fs_type: str,
    access_modes: Collection[str],
    inline: bool,
) -> bool:
    """Tell whether they are, by the driver's fsGroupPolicy; a pod's own volume is used by one."""
    policy = info.fs_group_policy if info is not None else ONCE_WITH_FS_TYPE
    if fs_group is None or read_only or policy == NONE:
        return False
    if policy == FILE:
        return True
    return bool(fs_type) and (inline or not _ONCE.isdisjoint(access_modes))
