"""Before the first fork: the run directory, its lock, the tables' files, the operator's lock."""

from __future__ import annotations

import os
from pathlib import Path

from kubelet import logging as klog
from shm.table import Writer
from shm.tables import TABLES
from supervisor import locks, reload
from supervisor.kinds import KINDS, NAMES
from supervisor.rundir import (
    RunDir,
    RunDirError,
    check_paths,
    check_reachable,
    prepare,
    replace_file,
)
from supervisor.settings import Settings

log = klog.get_logger(__name__)

_RUN_LOCK = "run"
_OPERATOR_LOCK = "operator"
_PREDECESSOR_PATIENCE = 2.0  # seconds for a killed predecessor's children to be gone


def claim(settings: Settings, legacy: reload.Legacy | None) -> dict[str, int]:
    """Make the run directory ours; the locks that say so. RunDirError says why it cannot be."""
    run_dir = RunDir(settings.run_dir)
    check_paths(run_dir, NAMES)
    owners = {kind.name: 0 if kind.root else settings.identity.uid for kind in KINDS}
    prepare(run_dir, owners, settings.identity.gid)
    if os.geteuid() == 0:
        check_reachable(run_dir, settings.identity.uid, settings.identity.gid)
    held = dict(legacy.locks) if legacy is not None else _take_locks(settings, run_dir)
    for fd in held.values():
        os.set_inheritable(fd, False)
    _warn_if_on_disk(run_dir.root)
    replace_file(run_dir.config, settings.config_json, mode=0o600)  # may hold secret headers
    _make_tables(run_dir, fresh=legacy is None)
    return held


def _take_locks(settings: Settings, run_dir: RunDir) -> dict[str, int]:
    try:
        held = {_RUN_LOCK: locks.take(run_dir.lock, _PREDECESSOR_PATIENCE)}
    except locks.LockHeldError as err:
        who = f" (pid {err})" if str(err) else ""
        raise RunDirError(
            f"--run-dir: {run_dir.root}: another kubelet{who} is using it; "
            "stop that one, or give this one a run directory of its own"
        ) from None
    if settings.lock_file:
        log.info("Acquiring the lock file", path=settings.lock_file)
        try:
            held[_OPERATOR_LOCK] = locks.wait_for(settings.lock_file)
        except OSError as err:
            raise RunDirError(f"--lock-file: {settings.lock_file}: {err.strerror}") from err
    return held


def _make_tables(run_dir: RunDir, *, fresh: bool) -> None:
    """Make the files that are missing, so that a reader may start before the writer."""
    found = 0
    for declaration in TABLES:
        if os.path.exists(os.path.join(run_dir.tables, declaration.name)):
            found += 1
        else:
            Writer.attach(Path(run_dir.tables), declaration).close()
    if fresh and found:
        log.info("Found the tables of an earlier kubelet", tables=found, directory=run_dir.tables)


def _warn_if_on_disk(root: str) -> None:
    """Tables on a disk work, but each change is written out some time: it belongs on a tmpfs."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        best, kind = "", ""
        for line in mounts:
            left, _, right = line.partition(" - ")
            point = left.split()[4]
            inside = root == point or root.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, right.split()[0]
    if kind not in ("tmpfs", "ramfs"):
        log.warning("The run directory is not on a tmpfs", directory=root, filesystem=kind)
