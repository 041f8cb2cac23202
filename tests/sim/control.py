"""The client of the control socket: what a test tells the simulated runtime.

One JSON object per line, answered by one JSON line, in order::

    {"do": "latency", "call": "ListContainers", "seconds": 0.5}
    {"ok": true}

``SimControl`` has a method for each; every one is also there as ``do(name, **fields)``.
"""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any, Self


class SimRefused(RuntimeError):  # noqa: N818 - what the simulator did
    """The simulator did not do what it was told, and why."""


class SimControl:
    """Tells a running simulator what to do. It may be used from one thread at a time."""

    def __init__(self, path: str, *, seconds: float = 30.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _err: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def do(self, action: str, **fields: Any) -> dict[str, Any]:
        """Any action, with its fields; what the simulator answers."""
        self._socket.sendall(json.dumps({"do": action, **fields}).encode() + b"\n")
        line = self._file.readline()
        if not line:
            raise SimRefused("the simulator hung up")
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise SimRefused(answer["error"])
        return answer

    # Faults. ``call`` is the name of an RPC or "*"; ``about`` narrows it to an object (an ID or its
    # beginning, an image, or the name in a new object's metadata); ``times`` to so many requests.

    def latency(self, call: str, seconds: float, *, about: str = "") -> None:
        """Each such call takes this much longer; 0 ends it."""
        self.do("latency", call=call, seconds=seconds, about=about)

    def error(
        self,
        call: str,
        code: str = "UNAVAILABLE",
        message: str = "simulated failure",
        *,
        times: int | None = None,
        about: str = "",
        after: bool = False,
    ) -> None:
        """Each such call fails; with ``after`` its work is done and only the answer is lost."""
        fields = {"call": call, "code": code, "message": message, "about": about, "after": after}
        self.do("error", times=times, **fields)

    def hang(
        self, call: str, *, times: int | None = None, about: str = "", after: bool = False
    ) -> None:
        """Each such call is not answered until it is released."""
        self.do("hang", call=call, times=times, about=about, after=after)

    def garbage(self, call: str, *, times: int | None = None, about: str = "") -> None:
        """Each such call is answered with bytes that are no message."""
        self.do("garbage", call=call, times=times, about=about)

    def release(self, call: str = "*") -> int:
        """Lift the faults of a call, or every one; who hangs goes on. How many were lifted."""
        return int(self.do("release", call=call)["lifted"])

    def drop_events(self, count: int | None = None) -> None:
        """Lose the next so many container events; None: all from now on; 0: none."""
        self.do("drop_events", count=count)

    def end_streams(self) -> int:
        """Break every event stream; how many there were."""
        return int(self.do("end_streams")["ended"])

    def condition(self, kind: str, *, status: bool, reason: str = "", message: str = "") -> None:
        """Set a condition of Status: RuntimeReady, NetworkReady or one of your own."""
        self.do("condition", type=kind, status=status, reason=reason, message=message)

    # Things that happen.

    def kill(self, container: str, *, code: int = 137, reason: str = "") -> float:
        """A container ends now (an ID, its beginning, or a name). The wall clock at that moment."""
        return float(self.do("kill", container=container, code=code, reason=reason)["at"])

    def kill_sandbox(self, sandbox: str) -> float:
        """A sandbox dies with all that is in it. The wall clock at that moment."""
        return float(self.do("kill_sandbox", sandbox=sandbox)["at"])

    def create_foreign(self, kind: str, **fields: Any) -> str:
        """Something that no kubelet made, or that should not be; its ID.

        ``sandbox``, ``container`` (with a sandbox of its own), ``orphan`` (a container of no
        sandbox), ``duplicate`` (the same name as ``of``), ``unknown`` (of ``of``'s pod, in
        ``state``, 3 or a number that nobody knows).
        """
        return str(self.do("create_foreign", kind=kind, **fields)["id"])

    def seed_pods(
        self,
        count: int,
        *,
        containers: int = 2,
        program: str = "run",
        dead: int = 0,
        prefix: str = "seed",
        namespace: str = "default",
        log_directory: str = "",
    ) -> dict[str, Any]:
        """Pods as a kubelet makes them, running, each with so many dead containers beside.

        The answer has ``uids`` and ``seconds``. Names go on where an earlier call left off.
        """
        fields = {"containers": containers, "program": program, "dead": dead, "prefix": prefix}
        more = {"namespace": namespace, "log_directory": log_directory}
        return self.do("seed_pods", count=count, **fields, **more)

    def remove_pods(self, prefix: str = "seed") -> int:
        """Take away the pods whose names begin so; how many."""
        return int(self.do("remove_pods", prefix=prefix)["removed"])

    def image(self, pattern: str, **fields: Any) -> None:
        """What the registry has under the names that a pattern matches.

        Fields: size, pull_seconds, error, code, content, uid, username, program, need_auth.
        """
        self.do("image", pattern=pattern, **fields)

    # What is so.

    def stats(self) -> dict[str, Any]:
        """Calls counted by name, calls that hang, events, objects, CPU seconds and memory."""
        return self.do("stats")

    def truth(self) -> dict[str, Any]:
        """Every sandbox and container as the simulator has them: what a cache should equal."""
        return self.do("truth")

    def exit(self) -> None:
        """End the simulator, as SIGTERM does; return when it is gone."""
        self.do("exit")
        self._file.read()

    def reset_stats(self) -> None:
        """Count calls from zero."""
        self.do("reset_stats")
