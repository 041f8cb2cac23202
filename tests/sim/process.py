"""One simulated runtime under test, as a child process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from .control import SimControl

REPOSITORY = Path(__file__).resolve().parents[2]


class Sim:
    """Starts, kills, stops and restarts a simulator; its socket stays the same.

    It ends with the thread that started it: start it from one that lasts as long as it is needed.
    """

    def __init__(self, directory: Path, name: str = "sim", *arguments: str) -> None:
        self.directory = directory
        self.socket = str(directory / f"{name}.sock")
        self.endpoint = f"unix://{self.socket}"
        self.state = directory / f"{name}.json"
        self.log = directory / f"{name}.log"
        self.arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._control: SimControl | None = None

    @property
    def command(self) -> list[str]:
        """The command line."""
        python = [sys.executable, "-m", "tests.sim", "--socket", self.socket, "--die-with-parent"]
        return [*python, *self.arguments]

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._process is not None, "the simulator was not started"
        return self._process.pid

    @property
    def control(self) -> SimControl:
        """The connection to its control socket."""
        if self._control is None:
            self._control = SimControl(f"{self.socket}.control")
        return self._control

    def start(self, seconds: float = 30.0) -> Sim:
        """Start it, and return when it serves. What it said is shown when it does not."""
        reading, writing = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*self.command, "--ready-fd", str(writing)],
                    cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(writing,),
                )
            os.close(writing)
            writing = -1
            # Without a line the pipe ends when the process dies: either is an event.
            ready, _, _ = select.select([reading], [], [], seconds)
            line = os.read(reading, 16) if ready else b""
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)
        if line != b"ready\n":
            self.kill()
            raise AssertionError(f"the simulator does not serve: {self.log.read_text()}")
        return self

    def signal(self, number: int) -> None:
        """Send a signal, as SIGSTOP and SIGCONT."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._hang_up()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """SIGTERM, and wait for the end; AssertionError when it does not come."""
        self._hang_up()
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            assert process.wait(20) == 0, self.log.read_text()
        except subprocess.TimeoutExpired as err:
            process.kill()
            process.wait()
            raise AssertionError("the simulator does not end at SIGTERM") from err

    def restart(self, *, kill: bool = True) -> Sim:
        """End it, by SIGKILL unless told otherwise, and start it again on the same socket."""
        (self.kill if kill else self.stop)()
        return self.start()

    def end(self) -> None:
        """Stop it for good, with the processes that would have outlived it."""
        self.stop()
        for pid in self._survivors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _survivors(self) -> list[int]:
        from .processes import start_time

        if "--real-pids" not in self.arguments or not self.state.exists():
            return []
        records: list[dict[str, Any]] = json.loads(self.state.read_text())["records"]
        pids: dict[str, str] = {}
        for record in records:
            pids.update(record.get("processes", {}))
        return [int(pid) for pid, began in pids.items() if began and start_time(int(pid)) == began]

    def _hang_up(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
