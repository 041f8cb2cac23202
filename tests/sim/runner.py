"""One running container: its program in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from .logs import Log
from .script import Block
from .shell import Exit, Listen, OnTerm, Read, Shell, Steps, Wait, Write, execute

BURST = 1000  # operations in a row before others get a turn
BREATH = 0.01
REPLAY = 200_000  # operations of the past that are gone through; a longer past is cut short


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a running program needs of its surroundings."""

    ended: Callable[[int, str], None]
    listen: Callable[[int], None]
    output: Callable[[str, bytes], None]


class Runner:
    """Drives a program: writes its output, waits its waits, hears SIGTERM, ends."""

    def __init__(self, block: Block, shell: Shell, log: Log, hooks: Hooks) -> None:
        self.shell = shell
        self.log = log
        self._hooks = hooks
        self._steps: Steps = execute(block, shell)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._on_term: OnTerm = OnTerm(143)
        self._input: list[bytes] = []
        self._input_ended = False
        self._reading = False
        self.over = False

    def start(self) -> None:
        """Begin."""
        self._timer = self._loop.call_soon(self._advance)

    def resume(self, elapsed: float) -> None:
        """Go on where a program that began this long ago would be now."""
        self.shell.replaying = True
        left = elapsed
        try:
            for _ in range(REPLAY):
                operation = next(self._steps)
                if isinstance(operation, Wait):
                    if operation.seconds is None or operation.seconds > left:
                        self._wait(None if operation.seconds is None else operation.seconds - left)
                        return
                    left -= operation.seconds
                elif isinstance(operation, Read):
                    self._reading = True
                    return
                elif not isinstance(operation, Write):
                    self._effect(operation)
            self._wait(0)
        except StopIteration as end:
            self._finish(int(end.value or 0))
        except Exit as end:
            self._finish(end.code, end.reason)
        finally:
            self.shell.replaying = False

    def term(self) -> None:
        """SIGTERM."""
        if self.over or self._on_term.code is None:
            return
        code = self._on_term.code
        self._cancel()
        self._timer = self._loop.call_later(self._on_term.after, self._finish, code)
        self._on_term = OnTerm(None)

    def kill(self, code: int = 137, reason: str = "") -> None:
        """It ends now."""
        if not self.over:
            self._finish(code, reason)

    def feed(self, data: bytes) -> None:
        """Standard input; empty is its end."""
        if data:
            self._input += data.splitlines(keepends=True)
        else:
            self._input_ended = True
        if self._reading and not self.over:
            self._reading = False
            self._advance(self._next_line())

    def close(self) -> None:
        """Leave it as it is: the simulator ends, the container does not."""
        self.over = True
        self._cancel()
        self.log.close()

    def _next_line(self) -> bytes | None:
        if self._input:
            return self._input.pop(0)
        return b"" if self._input_ended else None

    def _advance(self, answer: bytes | None = None) -> None:
        self._timer = None
        try:
            for _ in range(BURST):
                operation = self._steps.send(answer)  # the first send is None
                answer = None
                if isinstance(operation, Wait):
                    self._wait(operation.seconds)
                    return
                if isinstance(operation, Read):
                    answer = self._next_line()
                    if answer is None:
                        self._reading = True
                        return
                else:
                    self._effect(operation)
            self._timer = self._loop.call_later(BREATH, self._advance)
        except StopIteration as end:
            self._finish(int(end.value or 0))
        except Exit as end:
            self._finish(end.code, end.reason)
        except (ValueError, OSError, TypeError) as err:
            self._effect(Write("stderr", f"sh: {err}\n".encode()))
            self._finish(2)

    def _effect(self, operation: Write | Listen | OnTerm) -> None:
        if isinstance(operation, Write):
            self.log.write(operation.stream, operation.data)
            self._hooks.output(operation.stream, operation.data)
        elif isinstance(operation, Listen):
            self._hooks.listen(operation.port)
        else:
            self._on_term = operation

    def _wait(self, seconds: float | None) -> None:
        if seconds is not None:
            self._timer = self._loop.call_later(seconds, self._advance)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self, code: int, reason: str = "") -> None:
        self.over = True
        self._cancel()
        self._steps.close()
        self.log.finish()
        self._hooks.ended(code, reason)
