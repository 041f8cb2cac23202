"""One program of a control plane: started, stopped, killed, frozen, and its last words."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

STOP_SECONDS = 20.0


class Part:
    """One program of the control plane; what it writes is kept over its restarts."""

    def __init__(self, name: str, command: list[str], directory: Path) -> None:
        self.name = name
        self.command = command
        self._directory = directory
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there, be it frozen."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process; it must be running."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    def start(self) -> None:
        """Start it and return at once; call this in the main thread alone (see below)."""
        assert not self.running, f"{self.name} runs already"
        # The kernel sends the signal when the starting thread ends: a session that was killed
        # leaves no process, for everything here is started by the thread that lives longest.
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Ask it to end, as a service manager does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it at once."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """See that it does not run, in whatever state it is."""
        if self._process is not None:
            self.kill()

    def check_alive(self) -> None:
        """Fail with its last words if it has ended."""
        assert self.running, self.complaint("has ended")

    def complaint(self, what: str) -> str:
        """A sentence, and what it wrote last."""
        last = self._log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join((f"{self.name} {what}; the end of its log:", *last))

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} is not running"
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None
