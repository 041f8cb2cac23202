"""A kubelet whose syncloop dies by SIGKILL at a named step, as often as it is told.

Run as a program it is that kubelet. ``KUBELET_DIE_AT`` names the step; the directory of
``KUBELET_DIED`` gets a file for each death, and when it has ``KUBELET_DEATHS`` of them, syncloop
lives on. The steps are the names that syncloop calls ``reached`` with.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from kubelet.process import Process
from supervisor.launch import Launch

PROGRAM = (sys.executable, "-m", "tests.node.dying_node")
STEP, PLACE, TIMES = "KUBELET_DIE_AT", "KUBELET_DIED", "KUBELET_DEATHS"


def frame(launch: Launch) -> int:
    """The frame of every process; syncloop's has another entry."""
    from kubelet.process.frame import run

    if launch.kind.name != "syncloop":
        return run(launch)
    return run(replace(launch, kind=replace(launch.kind, entry=f"{__package__}.dying_node:main")))


async def main(process: Process) -> None:
    """Syncloop, until it reaches the step."""
    from procs.syncloop.main import serve

    step, place = os.environ[STEP], Path(os.environ[PLACE])
    times = int(os.environ.get(TIMES, "1"))

    def reached(name: str, _uid: str) -> None:
        deaths = len(list(place.iterdir()))
        if name == step and deaths < times:
            (place / f"{deaths}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    await serve(process, reached)


if __name__ == "__main__":
    from kubelet import main as kubelet_main

    _settings = kubelet_main._settings
    kubelet_main._settings = lambda effective: replace(
        _settings(effective), frame="tests.node.dying_node:frame"
    )
    sys.exit(kubelet_main.main(sys.argv[1:]))
