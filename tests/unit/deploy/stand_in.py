"""A stand-in for the kubelet: takes the run directory's lock, says READY=1, ends on SIGTERM.

Usage: stand_in.py RUN_DIR [ready|silent|fails|deaf]
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
from pathlib import Path


def notify(message: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.sendto(message.encode(), os.environ["NOTIFY_SOCKET"])


def main(run_dir: Path, manner: str) -> int:
    run_dir.mkdir(exist_ok=True)
    lock = (run_dir / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print(f"stand-in at work, {manner}", flush=True)
    stopping = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    if manner == "fails":
        notify("STATUS=About to fail")
        return 3
    if manner != "silent":
        notify("STATUS=Starting 7 processes")
        notify("READY=1\nSTATUS=All processes are up")
    signal.sigwait(stopping)
    if manner == "deaf":
        signal.sigwait({signal.SIGUSR1})
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
