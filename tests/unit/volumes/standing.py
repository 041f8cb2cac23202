"""What the volumes process stands on in unit tests: real tables, real tasks, no channels."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections import Counter

import pytest

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.channels.wire import Hint
from kubelet.cluster.rows import OBJECTS, ObjectRow, TokenRow, object_key, token_key
from kubelet.machine.capacity import Capacity
from kubelet.pods.rows import MOUNTS, PODS, MountsRow, PodRow, WorkerState, document_of
from kubelet.process.tables import Tables
from procs.volumes.kinds import Settings
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME

UID = "0b5c1d5e-6a0e-4d0f-9f43-8d0a5f3e2b11"
GIB = 1 << 30
CLUSTER = Settings(Capacity(memory=8 * GIB), api_server=True)
SETTINGS = Settings(Capacity(cpu_milli=4000, memory=8 * GIB, storage=100 * GIB))


def pod(*volumes, uid=UID, labels=None, mounts=(), fs_group=None, **spec):
    """A pod with these volumes, from the documents of their sources."""
    container = {"name": "c", "image": "i", "volumeMounts": list(mounts)}
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": uid, "labels": labels or {}},
        "spec": {"containers": [container], "volumes": list(volumes), **spec},
    }
    if fs_group is not None:
        document["spec"]["securityContext"] = {"fsGroup": fs_group}
    return codec.read(Pod, document)


def _can_mount() -> bool:
    if os.geteuid() != 0:
        return False
    with open("/proc/self/status", encoding="ascii") as file:
        effective = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff"))
    return bool(effective >> 21 & 1)  # CAP_SYS_ADMIN


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="mounting needs root's CAP_SYS_ADMIN")


def unmount_below(path):
    """Give back whatever a test has left mounted."""
    libc = ctypes.CDLL(None)
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4] for line in file]
    for point in sorted(points, reverse=True):
        if point.startswith(str(path) + "/"):
            libc.umount2(point.encode(), 2)  # MNT_DETACH


def touch(path):
    """Make an empty file."""
    with open(path, "w", encoding="ascii"):
        pass


def there(path):
    """Tell whether there is something at a path."""
    return os.path.lexists(path)


def content(path):
    """What a file holds."""
    with open(path, encoding="ascii") as file:
        return file.read()


def blob(path):
    """What a file holds, as bytes."""
    with open(path, "rb") as file:
        return file.read()


class Row:
    """The board's row."""

    def __init__(self):
        self.counters = Counter()

    def count(self, name, n=1):
        self.counters[name] += n


class Standing:
    """A process with its own tables, and the hands that write the tables of pods and objects."""

    def __init__(self, directory):
        self._directory = directory
        self.syncloop = Writer.attach(directory, BY_NAME[PODS])
        self.node = Writer.attach(directory, BY_NAME[OBJECTS])
        self.tables = Tables(directory, "volumes")
        self.row = Row()
        self.quarantined = frozenset()
        self.records = []
        self.puts = []
        self.tasks = set()
        self.deaf = False  # hints are lost
        self._hints = []

    def restart(self):
        """Be the successor of a killed process: only tables and disk are left."""
        self.tables.close()
        self.tables = Tables(self._directory, "volumes")
        self._hints, self.records, self.puts = [], [], []
        for task in list(self.tasks):
            task.cancel()

    def close(self):
        self.tables.close()
        self.syncloop.close()
        self.node.close()

    # What the process is asked for.

    def put(self, table, key, value, stamp_ns=0):
        self.tables.put(table, key, value, stamp_ns)
        if table == MOUNTS:
            self.puts.append(MountsRow.from_wire(value))

    def delete(self, table, key):
        self.tables.writers[table].delete(key)

    def record(self, what, text="", pod=""):
        self.records.append((what, text, pod))

    def doing(self, _operation, _pod="", **_more):
        return contextlib.nullcontext()

    def on_hint(self, callback):
        self._hints.append(callback)

    def spawn(self, work, name):
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # What syncloop does.

    def hint(self, key, table=PODS):
        for callback in () if self.deaf else self._hints:
            callback(Hint(table, key, 0))

    def pod(self, wanted, state=WorkerState.SYNC, version=1, **more):
        document = document_of(wanted)
        row = PodRow(wanted.uid, wanted.name, wanted.namespace, "file", state, version, document)
        self.syncloop.put(wanted.uid, pack({**row.to_wire(), **more}))
        self.hint(wanted.uid)

    def gone(self, uid=UID):
        self.syncloop.delete(uid)
        self.hint(uid)

    # What the node process does.

    def object(self, kind, name, data=None, **more):
        """Write an object down; without data there is none in the cluster."""
        row = ObjectRow(kind, "ns", name, data is not None, data=data or {}, **more)
        self._write(object_key(kind, "ns", name), row)

    def token(self, token="", audience="", seconds=3600, uid=UID, **more):
        """Write a service account token down."""
        row = TokenRow(uid, "ns", "default", audience, seconds, token, **more)
        self._write(token_key(uid, audience, seconds), row)

    def _write(self, key, row):
        self.node.put(key, pack(row.to_wire()))
        self.hint(key, OBJECTS)

    def no_row(self, key):
        """Take an object's row away."""
        self.node.delete(key)
        self.hint(key, OBJECTS)

    # What comes of it.

    def mounts(self, uid=UID):
        value = self.tables.value(MOUNTS, uid)
        return MountsRow.from_wire(value) if value is not None else None

    def volume(self, uid=UID):
        """The row of a pod's only volume."""
        (row,) = self.mounts(uid).volumes
        return row

    async def settled(self, seconds=5.0):
        """Let the loop run until no task is left."""
        deadline = time.monotonic() + seconds
        while self.tasks:
            assert time.monotonic() < deadline, self.tasks
            done, _ = await asyncio.wait(set(self.tasks), timeout=1)
            for task in done:
                if not task.cancelled():
                    task.result()
