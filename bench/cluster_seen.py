"""What a benchmark sees from outside: pods through a watch, cost through /proc."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from tests.cluster.admin import Admin, Json, Refused, Unreachable
from tests.node.pod_node import is_ready

TICKS = os.sysconf("SC_CLK_TCK")
FOREVER = 1e9  # seconds


class Diary(threading.Thread):
    """Notes when each pod of a namespace was first seen running, ready and gone."""

    def __init__(self, admin: Admin, pods: str) -> None:
        super().__init__(daemon=True)
        self._admin = admin
        self._pods = pods
        self._changed = threading.Condition()
        self._seen: dict[tuple[str, str], float] = {}
        self._ended = False
        self.start()

    def close(self) -> None:
        """Note no more; the watch ends with the process."""
        self._ended = True

    def run(self) -> None:
        """Follow the pods."""
        while not self._ended:
            try:
                listed = self._admin.get(self._pods)
                version = listed["metadata"]["resourceVersion"]
                for event in self._admin.watch(self._pods, version, time.monotonic() + FOREVER):
                    self._note(event)
            except (Unreachable, Refused):
                time.sleep(0.1)

    def await_all(self, names: list[str], what: str, seconds: float = 120.0) -> list[float]:
        """Wait until each pod was seen so; the moments."""
        wanted = [(name, what) for name in names]
        with self._changed:
            done = self._changed.wait_for(lambda: all(w in self._seen for w in wanted), seconds)
            missing = [name for name, _ in wanted if (name, what) not in self._seen]
            assert done, f"not {what} within {seconds:g}s: {', '.join(missing)}"
            return [self._seen[w] for w in wanted]

    def await_one(self, name: str, what: str, seconds: float = 120.0) -> float:
        """Wait until a pod was seen so; the moment."""
        return self.await_all([name], what, seconds)[0]

    def _note(self, event: Json) -> None:
        now, pod = time.monotonic(), event["object"]
        name = pod.get("metadata", {}).get("name", "")
        status = pod.get("status", {})
        facts = {
            "gone": event["type"] == "DELETED",
            "running": status.get("phase") == "Running",
            "ready": is_ready(status),
        }
        with self._changed:
            for what, true in facts.items():
                if true:
                    self._seen.setdefault((name, what), now)
            self._changed.notify_all()


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """What a tree has used, with the children that it has seen end."""
    used = (_stat(pid) for pid in tree(root))
    return sum(sum(map(int, fields[11:15])) for fields in used if fields) / TICKS


def memory_mib(root: int) -> float:
    """The tree's proportional share of memory, in MiB.

    What this process has of the same files' pages is counted as the tree's, too: nobody measures on
    a node, and without this process the whole page would be the tree's. Pages that it has alone
    are its own.
    """
    pids = tree(root)
    files: dict[str, int] = {}
    for pid in pids:
        for file, size in _file_pss(pid).items():
            files[file] = files.get(file, 0) + size
    own = _file_pss(os.getpid(), shared_only=True)
    lent = sum(min(size, files.get(file, 0)) for file, size in own.items())
    return (sum(_pss(pid) for pid in pids) + lent) / 1024


def _stat(pid: int) -> list[str]:
    """The fields after the name; nothing for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _pss(pid: int) -> int:
    lines = _lines(f"/proc/{pid}/smaps_rollup")
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _file_pss(pid: int, *, shared_only: bool = False) -> dict[str, int]:
    """The share that a process has in each file, in KiB; without the pages that it has alone."""
    found: dict[str, int] = {}
    sign = {"Pss:": 1} | ({"Private_Clean:": -1, "Private_Dirty:": -1} if shared_only else {})
    file = ""
    for line in _lines(f"/proc/{pid}/smaps"):
        words = line.split()
        if not words[0].endswith(":"):
            file = words[5] if len(words) > 5 and words[5].startswith("/") else ""
        elif words[0] in sign and file:
            found[file] = found.get(file, 0) + sign[words[0]] * int(words[1])
    return found


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
