"""Running a small program: something in, something out, within a time and a size."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

MAX_OUTPUT: Final = 1 << 20
_MAX_COMPLAINT: Final = 4096  # bytes of standard error that are kept
_BLOCK: Final = 1 << 16


class ProgramError(Exception):
    """A program did not do its work; ``complaint`` is what it wrote to standard error."""

    def __init__(self, message: str, complaint: str = "") -> None:
        super().__init__(message)
        self.complaint = complaint


async def run(
    command: Sequence[str], data: bytes, environment: Mapping[str, str], seconds: float
) -> bytes:
    """Give a program its input and return what it prints; it has ended when this returns.

    It leads a session of its own, so that what it started is ended with it when its time is over.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
    except OSError as err:
        raise ProgramError(f"cannot be run: {err.strerror or err}") from None
    try:
        async with asyncio.timeout(seconds):
            return await _talk(process, data)
    except TimeoutError:
        raise ProgramError(f"did not answer within {seconds:g}s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _talk(process: Process, data: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    complaint = asyncio.create_task(_overhear(process.stderr))
    try:
        await _write(process.stdin, data)
        output = await _read(process.stdout, MAX_OUTPUT + 1)
        if len(output) > MAX_OUTPUT:
            raise ProgramError(f"printed more than {MAX_OUTPUT} bytes")
        code = await process.wait()
        if code:
            how = f"ended by signal {-code}" if code < 0 else f"exit status {code}"
            raise ProgramError(how, (await complaint).decode(errors="replace").strip())
        return output
    finally:
        complaint.cancel()


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    # A program that does not read its input may still have an answer.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
    stream.close()


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    """Read to the end or the limit."""
    kept = bytearray()
    while len(kept) < most and (block := await stream.read(_BLOCK)):
        kept += block
    return bytes(kept[:most])


async def _overhear(stream: asyncio.StreamReader) -> bytes:
    """Read to the end and keep the beginning; a program that says much must not wait for us."""
    kept = await _read(stream, _MAX_COMPLAINT)
    while await stream.read(_BLOCK):
        pass
    return kept
