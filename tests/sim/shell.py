"""Runs a program as a series of operations. What waits, writes or listens is done by the caller.

``execute`` is a generator: it yields operations and returns the exit code. So the same program runs
in real time under the engine, captured under exec, and at once when a restarted simulator finds out
how far its containers have come.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .script import Block, Command, Loop, parse

_EXPANSION = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(\$))")
_PIECE = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)|([^'"\\]+)""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Write:
    """Output of the program."""

    stream: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass; None is without end."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Read:
    """Ask for a line of standard input; the answer is bytes, empty at its end."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Answer HTTP on a port of the pod from now on."""

    port: int


@dataclass(frozen=True, slots=True)
class OnTerm:
    """What SIGTERM does from now on: None, nothing; otherwise end with a code after a while."""

    code: int | None
    after: float = 0.0


Operation = Write | Wait | Read | Listen | OnTerm
Steps = Generator[Operation, Any, int]


class Exit(Exception):  # noqa: N818 - not an error: a program's own way to end
    """The program ends here."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class Shell:
    """What a program can see: its environment, its files and its mounts."""

    env: Mapping[str, str] = field(default_factory=dict)
    hostname: str = "sim"
    files: dict[str, str] = field(default_factory=dict)  # the container's own, in memory
    mounts: tuple[tuple[str, str, bool], ...] = ()  # container path, host path, read-only
    commands: Mapping[str, Callable[[Shell, tuple[str, ...]], Steps]] = field(default_factory=dict)
    unknown: str = "run"  # what a command that nobody knows does: run, or fail
    replaying: bool = False  # the past is being gone through again: the host is left alone
    pids: dict[int, str] = field(default_factory=dict)
    memory_limit: int = 0
    uid: int = 0
    gid: int = 0

    def on_host(self, path: str) -> str | None:
        """Where a path under a mount is on the host."""
        for inside, outside, _ro in sorted(self.mounts, key=lambda m: -len(m[0])):
            if path == inside or path.startswith(inside.rstrip("/") + "/"):
                return os.path.normpath(outside + path[len(inside) :])
        return None

    def read(self, path: str) -> str:
        """A file's text; OSError as the system would raise it."""
        host = self.on_host(path)
        if host is not None:
            with open(host, encoding="utf-8", errors="replace") as file:
                return file.read()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        """Write a file; OSError when its mount is read-only."""
        if path == "/dev/null":
            return
        host = self.on_host(path)
        if host is None:
            self.files[path] = (self.files.get(path, "") if append else "") + text
            return
        if any(ro for inside, _out, ro in self.mounts if path.startswith(inside)):
            raise PermissionError(path)
        if not self.replaying:
            with open(host, "a" if append else "w", encoding="utf-8") as file:
                file.write(text)

    def expand(self, word: str) -> str:
        """A word without its quotes, with its variables."""
        out = []
        for single, double, escaped, plain in _PIECE.findall(word):
            out.append(single or escaped)
            out.append(self._variables(re.sub(r'\\(["\\$`])', r"\1", double)))
            out.append(self._variables(plain))
        return "".join(out)

    def _variables(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[3]:
                return "1"
            return self.env.get(match[1] or match[2], "")

        return _EXPANSION.sub(value, text)


def execute(block: Block, shell: Shell) -> Steps:
    """Run a program; its exit code is the value. An ``Exit`` with a reason is raised."""
    try:
        return (yield from _block(block, shell))
    except Exit as end:
        if end.reason:
            raise
        return end.code


def _block(block: Block, shell: Shell) -> Steps:
    code = 0
    for operator, statement in block.statements:
        if (operator == "&&" and code != 0) or (operator == "||" and code == 0):
            continue
        if isinstance(statement, Loop):
            code = yield from _loop(statement, shell)
        else:
            code = yield from _command(statement, shell)
    return code


def _loop(loop: Loop, shell: Shell) -> Steps:
    code = 0
    while ((yield from _block(loop.condition, shell)) == 0) != loop.until:
        code = yield from _block(loop.body, shell)
    return code


def _command(command: Command, shell: Shell) -> Steps:
    words = command.words if command.raw else tuple(shell.expand(w) for w in command.words)
    if not words:
        steps = _nothing()
    else:
        name = words[0].rsplit("/", 1)[-1]
        if name in ("exec", "nohup", "command") and len(words) > 1:
            words = words[1:]
            name = words[0].rsplit("/", 1)[-1]
        known = shell.commands.get(name)
        steps = known(shell, words[1:]) if known else _unknown(shell, words[0])
    if command.path:
        path = shell.expand(command.path)
        return (yield from _redirected(steps, shell, path, append=command.append))
    if command.stderr:
        return (yield from _to_stderr(steps))
    return (yield from steps)


def _nothing() -> Steps:
    return 0
    yield


def _unknown(shell: Shell, name: str) -> Steps:
    if shell.unknown == "run":
        yield Wait(None)
    yield Write("stderr", f"sh: {name}: not found\n".encode())
    return 127


def _redirected(steps: Steps, shell: Shell, path: str, *, append: bool) -> Steps:
    try:
        shell.write(path, "", append=append)
    except OSError as err:
        yield Write(
            "stderr", f"sh: can't create {path}: {err.strerror or 'Permission denied'}\n".encode()
        )
        return 1
    answer: Any = None
    while True:
        try:
            operation = steps.send(answer)
        except StopIteration as end:
            return int(end.value or 0)
        if isinstance(operation, Write) and operation.stream == "stdout":
            shell.write(path, operation.data.decode(errors="replace"), append=True)
            answer = None
        else:
            answer = yield operation


def _to_stderr(steps: Steps) -> Steps:
    answer: Any = None
    while True:
        try:
            operation = steps.send(answer)
        except StopIteration as end:
            return int(end.value or 0)
        if isinstance(operation, Write):
            operation = Write("stderr", operation.data)
        answer = yield operation


def interactive(shell: Shell) -> Steps:
    """A shell without arguments: it does what its standard input says, line by line."""
    code = 0
    while line := (yield Read()):
        try:
            code = yield from _block(parse(line.decode(errors="replace")), shell)
        except ValueError as err:
            yield Write("stderr", f"sh: {err}\n".encode())
            code = 2
    return code
