"""Drivers as processes that a test starts and ends: our own, and the published mock driver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.csi.controls import Control, calls
from tests.csi.mounting import detach, unmount
from tests.tools.install import Skip, ensure

TOP = Path(__file__).parent.parent.parent
READY_SECONDS = 30
CALL = "gRPCCall: "  # before each call that the published driver writes down

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


class CsiDriverProcess:
    """Our driver: ``with CsiDriverProcess(directory, registry=...) as driver``.

    All of it is in ``directory``, whose path must be short enough for a socket.
    """

    def __init__(self, directory, *flags, registry="", name="mounts.csi.test"):
        self.name = name
        self.directory = Path(directory)
        self.endpoint = str(self.directory / "csi.sock")
        self.state = str(self.directory / "state")
        self.registry = str(registry)
        self.control = Control(self.state)
        self._flags = list(flags)
        self._child = None

    @property
    def pid(self):
        """The process's id."""
        return self._child.pid

    def start(self):
        """Start it, again too, and return when it listens."""
        os.makedirs(self.state, exist_ok=True)
        places = ["--endpoint", self.endpoint, "--state", self.state, "--name", self.name]
        if self.registry:
            places += ["--registry", self.registry]
        command = [sys.executable, "-m", "tests.csi.driver", *places, *self._flags]
        self._child = subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE, text=True)
        line = self._child.stdout.readline()
        assert line, f"the driver has ended with {self._child.wait()}"
        return self

    def kill(self):
        """Kill it: its sockets stay as they are."""
        self._signalled(signal.SIGKILL)

    def stop(self):
        """Ask it to end: its sockets go."""
        self._signalled(signal.SIGTERM)

    def wait(self, seconds=READY_SECONDS):
        """Wait until it has ended by itself."""
        self._child.wait(seconds)
        self._child.stdout.close()

    def _signalled(self, number):
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)
        if self._child is not None:
            self._child.wait(READY_SECONDS)
            self._child.stdout.close()

    def pause(self):
        """Stop it in its tracks."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        """Let it go on."""
        self._child.send_signal(signal.SIGCONT)

    def calls(self, *methods):
        """Return what it was asked, in order; only these methods if any are named."""
        return [call for call in calls(self.state) if not methods or call["method"] in methods]

    def methods(self, prefix=""):
        """Return the names of the calls, in order."""
        names = [call["method"] for call in calls(self.state)]
        return [name for name in names if name.startswith(prefix)]

    def await_call(self, method, count=1, seconds=READY_SECONDS, *, ended=True):
        """Wait until a method was called so often, and return the calls; the log is what tells."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.calls(method)
            if ended:
                found = [call for call in found if call["code"] is not None]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{method}: {len(found)} calls, not {count}"
            time.sleep(0.02)

    def fault(self, method, do, **more):
        """Let a method go wrong: see ``Control.fault``."""
        os.makedirs(self.state, exist_ok=True)
        self.control.fault(method, do, **more)

    def clear(self, method):
        """Let a method work again."""
        self.control.clear(method)

    def set(self, **values):
        """Set max_volumes or conditions (volume -> message) for the calls to come."""
        os.makedirs(self.state, exist_ok=True)
        with self.control.changed() as content:
            content.update(values)

    def clean(self):
        """Give back what a killed driver has left: mounts of its volumes and loop devices."""
        volumes = os.path.join(self.state, "volumes")
        _unmount_from(volumes, self.directory)
        for image in Path(volumes).glob("*.img"):
            detach(str(image))

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.resume()
        self.kill()
        self.clean()


def _unmount_from(volumes, directory):
    """Unmount what is bound from a directory, wherever it is, and all that is below another."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    for fields in reversed(lines):
        root, point = fields[3], fields[4]
        source = fields[fields.index("-") + 2]
        if root.startswith(volumes) or point.startswith(f"{directory}/") or volumes in source:
            unmount(point)


class MockDriver:
    """The published driver that mounts nothing; ``skip`` says why it cannot be had."""

    def __init__(self, directory, *flags, name="io.kubernetes.storage.mock"):
        self.name = name
        self.endpoint = str(Path(directory) / "mock.sock")
        self._log = Path(directory) / "mock.log"
        self._flags = [*flags, "-name", name]
        self._child = None

    @staticmethod
    def program():
        """Return the program's path, or a Skip."""
        built = ensure("csi-mock")
        return built if isinstance(built, Skip) else str(built / "mock-driver")

    def calls(self, volume):
        """Return the calls about a volume, in order; the driver itself writes them down."""
        lines = self._log.read_text().splitlines(keepends=True)
        told = [line for line in lines if line.startswith(CALL) and line.endswith("\n")]
        calls = [json.loads(line.removeprefix(CALL)) for line in told]
        return [call for call in calls if call["Request"].get("volume_id") == volume]

    def __enter__(self):
        environment = {**os.environ, "CSI_ENDPOINT": f"unix://{self.endpoint}"}
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [self.program(), *self._flags],
                env=environment,
                stdout=log,
                stderr=subprocess.DEVNULL,
            )
        while "mock driver started" not in self._log.read_text():
            assert self._child.poll() is None, f"it has ended with {self._child.returncode}"
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self._child.kill()
        self._child.wait()
