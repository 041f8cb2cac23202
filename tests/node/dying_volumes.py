"""A kubelet whose process ``volumes`` dies by SIGKILL at any step, whenever it is told to.

A step is whatever changes something that outlives the process: a directory, a file, a link, a
mount, a row of its table. They are counted from the moment at which the file ``KUBELET_DIE_AT``
appears, each by its name; ``2 os.mkdir volumes`` in it is death before the second step of that
name. The file is gone when the death has come. Steps are written to ``<file>.steps`` meanwhile.

Python itself tells of what is done to files, from whatever thread (PEP 578).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kubelet.pods.rows import MOUNTS
from kubelet.process import Process
from supervisor.launch import Launch

PROGRAM: Final = (sys.executable, "-m", "tests.node.dying_volumes")
ORDER: Final = "KUBELET_DIE_AT"

_STAMP: Final = re.compile(r"\.\.\d{4}(_\d\d){5}\.[^/]+")
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Which argument of an event is the path that is changed.
_CHANGES: Final = {
    "os.mkdir": 0,
    "os.rmdir": 0,
    "os.remove": 0,
    "os.chmod": 0,
    "os.chown": 0,
    "os.rename": 1,
    "os.symlink": 1,
    "open": 0,
}


class Steps:
    """Counts steps, and ends the process before the one that was asked for."""

    def __init__(self, order: str, pods: str) -> None:
        self._order = order
        self._pods = pods
        self._lock = threading.RLock()
        self._seen: tuple[int, int] | None = None
        self._counts: Counter[str] = Counter()

    def before(self, what: str) -> None:
        """A step is about to be done."""
        with self._lock:
            wanted = self._wanted()
            if wanted is None:
                return
            self._counts[what] += 1
            step = f"{self._counts[what]} {what}"
            with open(f"{self._order}.steps", "a", encoding="utf-8") as file:
                file.write(f"{step}\n")
            if step == wanted:
                os.unlink(self._order)
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()  # another thread may be the first to hear it

    def _wanted(self) -> str | None:
        try:
            found = os.stat(self._order)
            with open(self._order, encoding="utf-8") as file:
                wanted = file.read()
        except FileNotFoundError:
            return None
        identity = (found.st_ino, found.st_mtime_ns)
        if identity != self._seen:
            self._seen, self._counts = identity, Counter()
        return wanted

    def audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python tells of something; what changes a pod's directory is a step."""
        at = _CHANGES.get(event)
        if at is None or (event == "open" and not (arguments[2] or 0) & _WRITES):
            return
        path = arguments[at]
        if not isinstance(path, str | bytes):
            return
        place = os.fsdecode(path)
        if place.startswith(f"{self._pods}/"):
            self.before(f"{event} {self.named(place)}")
        elif not place.startswith("/"):  # below a descriptor: only what removes trees does that
            self.before(f"{event} *")

    def named(self, place: str) -> str:
        """Return a path as it is in any pod."""
        inside = place.removeprefix(f"{self._pods}/").partition("/")[2]
        return _STAMP.sub("..stamp", inside)

    def around(self, name: str, work: Callable[..., Any], at: int) -> Callable[..., Any]:
        """Return a function that is a step itself; the argument at this place is the path."""

        def stepped(*given: Any, **more: Any) -> Any:
            self.before(f"{name} {self.named(str(given[at]))}")
            return work(*given, **more)

        return stepped


def frame(launch: Launch) -> int:
    """The frame of every process; that of volumes has another entry."""
    from kubelet.process.frame import run

    if launch.kind.name != "volumes":
        return run(launch)
    return run(
        replace(launch, kind=replace(launch.kind, entry=f"{__package__}.dying_volumes:main"))
    )


async def main(process: Process) -> None:
    """Volumes, until it reaches the step."""
    from procs.volumes import binding, main, mounts

    steps = Steps(os.environ[ORDER], f"{process.config.str('--root-dir')}/pods")
    mounts.mount = steps.around("mount", mounts.mount, 1)
    mounts.unmount = steps.around("unmount", mounts.unmount, 0)
    binding._mount = steps.around("bind", binding._mount, 1)
    binding._unmount = steps.around("unbind", binding._unmount, 0)
    _step_at_rows(steps, process)
    sys.addaudithook(steps.audited)
    await main.main(process)


def _step_at_rows(steps: Steps, process: Process) -> None:
    """Have a step before a row is written or taken away, and one before its readers are told."""
    put, publish = process.tables.put, process.channels.publish
    delete = process.delete

    def putting(table: str, *given: Any, **more: Any) -> Any:
        if table == MOUNTS:
            steps.before("row put")
        return put(table, *given, **more)

    def publishing(table: str, *given: Any, **more: Any) -> Any:
        if table == MOUNTS:
            steps.before("row told")
        return publish(table, *given, **more)

    def deleting(table: str, *given: Any, **more: Any) -> Any:
        if table == MOUNTS:
            steps.before("row delete")
        return delete(table, *given, **more)

    for thing, name, step in (
        (process.tables, "put", putting),
        (process.channels, "publish", publishing),
        (process, "delete", deleting),
    ):
        setattr(thing, name, step)


if __name__ == "__main__":
    from kubelet import main as kubelet_main

    _settings = kubelet_main._settings
    kubelet_main._settings = lambda effective: replace(
        _settings(effective), frame="tests.node.dying_volumes:frame"
    )
    sys.exit(kubelet_main.main(sys.argv[1:]))
