"""A web server on loopback that says yes to everybody and writes down when who has come.

It is a process of its own, so that neither the test nor the kubelet make it late. A path tells who
asks. ``python -m tests.node.stamping_server <file>`` prints its port and serves until its end.
"""

from __future__ import annotations

import array
import asyncio
import bisect
import contextlib
import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
SLOW_FLUSH: Final = 0.2  # seconds until what came is in the file
BACKLOG: Final = 4096


class Visit(asyncio.Protocol):
    """One who has come."""

    def __init__(self, stamps: list[str]) -> None:
        self._stamps = stamps
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the moment of the visit, which the request is still to say whose it is."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._at = time.monotonic()

    def data_received(self, data: bytes) -> None:
        """Answer when the whole head is there."""
        self._head += data
        if b"\r\n\r\n" in self._head:
            path = self._head.split(b" ", 2)[1].decode(errors="replace")
            self._stamps.append(f"{self._at:.6f} {path}\n")
            self._transport.write(ANSWER)
            self._transport.close()


async def serve(file: Path) -> None:
    """Serve until SIGTERM."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    stamps: list[str] = []
    server = await loop.create_server(lambda: Visit(stamps), "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    with file.open("a") as written:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), SLOW_FLUSH)
            batch, stamps[:] = stamps[:], []
            written.writelines(batch)
            written.flush()
    server.close()


class StampingServer:
    """The server as a test has it."""

    def __init__(self, file: Path) -> None:
        file.touch()
        self._file = file.open()
        self._line = ""  # the last one, as far as it is written
        self._found: list[tuple[float, str]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.node.stamping_server", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def visits(self, since: float = 0.0) -> Visits:
        """Who has come since a moment of the monotonic clock, as far as it is written."""
        *lines, self._line = (self._line + self._file.read()).split("\n")
        self._found += [(float(at), who) for at, who in (line.split() for line in lines)]
        return Visits(sorted(visit for visit in self._found if visit[0] >= since))

    def close(self) -> None:
        """End."""
        self._process.terminate()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Visits:
    """When who has come."""

    def __init__(self, found: list[tuple[float, str]]) -> None:
        self.moments = array.array("d", (moment for moment, _ in found))
        self.of: dict[str, list[float]] = {}
        for moment, who in found:
            self.of.setdefault(who, []).append(moment)

    def __len__(self) -> int:
        return len(self.moments)

    def busiest(self, seconds: float = 1.0) -> int:
        """How many came within so many seconds, at most."""
        ends = (bisect.bisect_left(self.moments, begin + seconds) for begin in self.moments)
        return max((end - at for at, end in enumerate(ends)), default=0)

    def longest_gap(self) -> float:
        """The longest time for which one who comes each second did not."""
        pairs = (pair for came in self.of.values() for pair in itertools.pairwise(came))
        return max((after - before for before, after in pairs), default=0.0)

    def lateness(self, period: float = 1.0) -> list[float]:
        """How much later than ever each one came, seen from his own best moment, in seconds."""
        found: list[float] = []
        for came in self.of.values():
            off = [(m - came[0] + period / 2) % period - period / 2 for m in came]
            best = min(off)
            found += [moment - best for moment in off]
        return found


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
