"""The process of one operation: it does one thing, says what came of it, and ends.

It is started as a program of its own, with the standard library alone, because the process that
needs it has threads and cannot be forked. What it is to do comes as JSON on standard input:

    {"call": "procs.volumes.ownership:give_volume", "arguments": {...}}   a function of ours
    {"execute": ["mount", "-t", "nfs", ...]}                              another program

A function's answer goes to standard output, a line of JSON each: ``{"progress": ...}`` any number
of times, then ``{"result": ...}`` or ``{"error": <sentence>}``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

_TOP: Final = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)
_OURS: Final = "procs.volumes."
_NOT_FOUND: Final = 127  # as a shell says it


def main() -> int:
    """Do what standard input says."""
    sys.path.insert(0, _TOP)
    request = json.load(sys.stdin)
    _die_with(request["parent"])
    if "execute" in request:
        return _execute(request["execute"])
    _say(_answer(request["call"], request["arguments"]))
    return 0


def _die_with(parent: int) -> None:
    from supervisor import linux

    linux.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could ask
        os._exit(1)


def _execute(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)  # noqa: S606 - that is what it is for
    except OSError as err:
        print(f"{command[0]}: {err.strerror}")
        return _NOT_FOUND


def _answer(call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from procs.volumes.errors import VolumeError, sentence

    try:
        return {"result": _function(call)(**arguments)}
    except VolumeError as err:
        return {"error": str(err)}
    except OSError as err:
        return {"error": sentence(str(err.filename or call), err), "errno": err.errno}


def _function(call: str) -> Callable[..., Any]:
    module, _, name = call.partition(":")
    if not module.startswith(_OURS):
        from procs.volumes.errors import VolumeError

        raise VolumeError(f"{call} is no operation on volumes")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    if "report" not in inspect.signature(function).parameters:
        return function
    return lambda **given: function(**given, report=lambda value: _say({"progress": value}))


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
