"""A kubelet whose syncloop dies by SIGKILL at a named step, whenever it is told to.

Run as a program it is that kubelet. The file ``KUBELET_DIE_AT`` says at which step: the names are
those that syncloop calls ``reached`` with, and ``create:before+20`` is 20 ms later, in the middle
of the call. The file is gone when the death has come: its successor lives.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from kubelet.process import Process
from supervisor.launch import Launch

PROGRAM = (sys.executable, "-m", "tests.node.dying_node")
ORDER = "KUBELET_DIE_AT"


def frame(launch: Launch) -> int:
    """The frame of every process; syncloop's has another entry."""
    from kubelet.process.frame import run

    if launch.kind.name != "syncloop":
        return run(launch)
    return run(replace(launch, kind=replace(launch.kind, entry=f"{__package__}.dying_node:main")))


async def main(process: Process) -> None:
    """Syncloop, until it reaches the step."""
    from procs.syncloop.main import serve

    order = Path(os.environ[ORDER])

    def die() -> None:
        order.unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def reached(name: str, _uid: str) -> None:
        if not order.exists():
            return
        step, _, later = order.read_text().partition("+")
        if step == name and later:
            asyncio.get_running_loop().call_later(int(later) / 1000, die)
        elif step == name:
            die()

    await serve(process, reached)


if __name__ == "__main__":
    from kubelet import main as kubelet_main

    _settings = kubelet_main._settings
    kubelet_main._settings = lambda effective: replace(
        _settings(effective), frame="tests.node.dying_node:frame"
    )
    sys.exit(kubelet_main.main(sys.argv[1:]))
