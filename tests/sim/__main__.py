"""``python -m tests.sim --socket PATH``: the simulated runtime as a command."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys

import grpc

from kubelet.cri import api_pb2 as pb

from .control import SimControl
from .control_server import ControlServer
from .engine import Engine, Settings
from .faults import Fault, Faults
from .image_service import ImageService
from .runtime_service import RuntimeService
from .seeds import Seeds
from .server import Dispatch, make_server
from .stats_service import StatsService
from .streaming import Streaming

_PR_SET_PDEATHSIG = 1


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("python -m tests.sim", description="A simulated CRI runtime.")
    add = parser.add_argument
    add("--socket", required=True, help="unix socket to serve CRI v1 on; directories are made")
    add("--control", default="", help="control socket (default: SOCKET.control)")
    add("--state", default="", help="JSON file that keeps the state over restarts")
    add("--no-events", action="store_true", help="no GetContainerEvents, as containerd 1.6")
    add("--no-runtime-config", action="store_true", help="no RuntimeConfig, as containerd 1.6")
    add("--cgroup-driver", choices=("systemd", "cgroupfs"), default="cgroupfs")
    add("--real-pids", action="store_true", help="a real process stands for each container")
    add("--seed", type=int, default=0, help="what IDs are made from")
    add("--handler", action="append", default=[], help="another runtime handler's name")
    add("--latency", action="append", default=[], metavar="CALL=SECONDS", help="a call's latency")
    add("--pods", type=int, default=0, help="pods with two containers that are there at the start")
    add("--image-fs", default="", help="mount point that ImageFsInfo names (default: the socket's)")
    add("--die-with-parent", action="store_true", help="end when the process that started it ends")
    add("--detach", action="store_true", help="serve in the background; return when it serves")
    add("--log", default="", help="where a simulator in the background writes what it says")
    add("--stop", action="store_true", help="end the simulator that serves the socket")
    add("--ready-fd", type=int, default=-1, help="descriptor that gets a line when it serves")
    return parser.parse_args(argv)


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("sim: the parent is gone")


def control_path(options: argparse.Namespace) -> str:
    """Where the control socket is."""
    return str(options.control or f"{options.socket}.control")


def stop(options: argparse.Namespace) -> None:
    """End the simulator that serves a socket; none is no error."""
    try:
        with SimControl(control_path(options)) as control:
            control.exit()
    except OSError:
        print(f"sim: nobody serves {options.socket}")
    else:
        print(f"sim: ended on {options.socket}")


def detach(options: argparse.Namespace, argv: list[str]) -> None:
    """Start a simulator in the background, and return when it serves."""
    os.makedirs(os.path.dirname(os.path.abspath(options.socket)), mode=0o755, exist_ok=True)
    log = options.log or f"{options.socket}.log"
    reading, writing = os.pipe()
    with open(log, "a", encoding="utf-8") as said:
        command = [sys.executable, "-m", "tests.sim", *(a for a in argv if a != "--detach")]
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writing)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=(writing,),
            start_new_session=True,
        )
    os.close(writing)
    line = os.read(reading, 16)  # empty when it died
    if line != b"ready\n":
        process.wait()
        sys.exit(f"sim: it does not serve, see {log}")
    print(f"sim: ready on unix://{os.path.abspath(options.socket)} (pid {process.pid}, log {log})")


class Simulator:
    """Everything of one simulated runtime, wired."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.control_path = control_path(options)
        directory = os.path.dirname(os.path.abspath(options.socket))
        os.makedirs(directory, mode=0o755, exist_ok=True)
        self.engine = Engine(
            Settings(
                state=options.state,
                seed=options.seed,
                real_pids=options.real_pids,
                handlers=("", "runc", *options.handler),
                mountpoint=options.image_fs or directory,
            )
        )
        self.faults = Faults()
        for text in options.latency:
            call, _, seconds = text.partition("=")
            self.faults.add(Fault("latency", call, seconds=float(seconds)))
        self.streaming = Streaming(self.engine)
        driver = pb.SYSTEMD if options.cgroup_driver == "systemd" else pb.CGROUPFS
        self.service = RuntimeService(self.engine, self.streaming, driver)
        self.control = ControlServer(self.engine, self.faults, self.service)

    async def serve(self) -> None:
        """Serve until a signal says to end."""
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, end.set)
        # Ctrl-C reaches a whole terminal: who ends with its parent lets the parent end first.
        quiet = self._options.die_with_parent
        loop.add_signal_handler(signal.SIGINT, (lambda: None) if quiet else end.set)
        self._claim()
        self.engine.load()
        if self._options.pods:
            await Seeds(self.engine).pods(self._options.pods)
        self._unlink()
        server = make_server(self._handlers(), self._options.socket)
        await self.streaming.start()
        await self.control.start(self.control_path)
        await server.start()
        mine = self._inodes()
        self._ready()
        await end.wait()
        self.faults.release()
        self.engine.events.end_streams()
        await server.stop(0.2)
        await self.control.stop()
        await self.streaming.stop()
        await self.engine.close()
        self._unlink(mine)

    def _handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        dispatch = Dispatch(self.faults, self.engine.store)
        without: tuple[str, ...] = ("GetContainerEvents",) if self._options.no_events else ()
        without += ("RuntimeConfig",) if self._options.no_runtime_config else ()
        parts = (self.service, StatsService(self.engine))
        return (
            dispatch.service("RuntimeService", parts, without),
            dispatch.service("ImageService", (ImageService(self.engine),), ()),
        )

    def _claim(self) -> None:
        """Leave a socket that somebody serves alone."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.control_path)
            except OSError:
                return
        raise ValueError(f"another simulator serves {self._options.socket}")

    def _inodes(self) -> set[int]:
        return {os.stat(path).st_ino for path in (self._options.socket, self.control_path)}

    def _unlink(self, mine: set[int] | None = None) -> None:
        """Remove sockets: any before the start, our own after it and never a successor's."""
        for path in (self._options.socket, self.control_path):
            with contextlib.suppress(FileNotFoundError):
                if mine is None or os.stat(path).st_ino in mine:
                    os.unlink(path)

    def _ready(self) -> None:
        line = f"sim: ready on unix://{os.path.abspath(self._options.socket)}"
        if not self._options.state:
            line += " (state is not kept)"
        print(line, flush=True)
        if self._options.ready_fd >= 0:
            os.write(self._options.ready_fd, b"ready\n")
            os.close(self._options.ready_fd)


def main(argv: list[str] | None = None) -> None:
    """Run it."""
    options = arguments(argv)
    if options.stop:
        stop(options)
        return
    if options.detach:
        detach(options, sys.argv[1:] if argv is None else argv)
        return
    if options.die_with_parent:
        _die_with_parent()

    async def run() -> None:
        await Simulator(options).serve()

    try:
        asyncio.run(run())
    except ValueError as err:
        sys.exit(f"sim: {err}")


if __name__ == "__main__":
    main()
