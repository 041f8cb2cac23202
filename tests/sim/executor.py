"""Exec: a program in real time, with its output kept or handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .script import of_argv
from .shell import Exit, Read, Shell, Steps, Wait, Write, execute

Input = Callable[[], Awaitable[bytes]]
Output = Callable[[str, bytes], Awaitable[None]]


@dataclass(slots=True)
class Result:
    """What came of a command."""

    code: int = 0
    out: dict[str, bytearray] = field(
        default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()}
    )

    @property
    def stdout(self) -> bytes:
        """What it printed."""
        return bytes(self.out["stdout"])

    @property
    def stderr(self) -> bytes:
        """What it complained of."""
        return bytes(self.out["stderr"])


async def run(shell: Shell, argv: tuple[str, ...], read: Input, write: Output) -> int:
    """Run a command to its end; its exit code."""
    pid = max(shell.pids, default=1) + 1
    shell.pids[pid] = " ".join(argv)
    try:
        return await _drive(execute(of_argv(argv), shell), read, write)
    except Exit as end:
        return end.code
    except (ValueError, OSError, TypeError) as err:
        await write("stderr", f"sh: {err}\n".encode())
        return 2
    finally:
        shell.pids.pop(pid, None)


async def _drive(steps: Steps, read: Input, write: Output) -> int:
    answer: bytes | None = None
    while True:
        try:
            operation = steps.send(answer)
        except StopIteration as end:
            return int(end.value or 0)
        answer = None
        if isinstance(operation, Write):
            await write(operation.stream, operation.data)
        elif isinstance(operation, Wait):
            if operation.seconds is None:
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(operation.seconds)
        elif isinstance(operation, Read):
            answer = await read()


async def exec_sync(shell: Shell, argv: tuple[str, ...], timeout: float | None) -> Result | None:  # noqa: ASYNC109
    """Run a command and keep what it prints; None when its time ran out and it was killed."""
    result = Result()

    async def read() -> bytes:
        return b""

    async def write(stream: str, data: bytes) -> None:
        result.out[stream] += data

    try:
        result.code = await asyncio.wait_for(run(shell, argv, read, write), timeout)
    except TimeoutError:
        return None
    return result
