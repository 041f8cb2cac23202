"""Asking syncloop for pods, over its own socket, and waiting for what comes of it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from kubeletctl import tables
from kubeletctl.errors import NOT_THERE, CtlError
from kubeletctl.fields import text
from kubeletctl.pods import FINISHED, PodView, views
from kubeletctl.rundir import RunDir, load_state

if TYPE_CHECKING:
    from kubelet.channels.messages import Request

R = TypeVar("R")

SYNCLOOP: Final = "syncloop"
PATIENCE: Final = 10.0  # seconds for an answer: a death of syncloop lies within
_NEXT_FIELD: Final = re.compile(r"; (?=(?:metadata|spec|status|kind|apiVersion)[.:\[])")
POLL: Final = 0.05  # nobody tells a command outside the tree that a table has changed


class RefusedError(CtlError):
    """Syncloop does not do what was asked; ``problems`` has a line for each reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def ask(run_dir: RunDir, message: Request[R]) -> R:
    """Ask syncloop and return its answer; what it objects to is a RefusedError."""
    from kubelet.channels import client, errors, messages  # ZeroMQ is slow to import

    load_state(run_dir)  # says so if no kubelet runs
    name = messages.BY_TYPE[type(message)].name
    try:
        return client.call(Path(run_dir.root), SYNCLOOP, message, PATIENCE)
    except (errors.BadRequestError, errors.FailedError) as problem:
        said = str(problem).removeprefix(f"{SYNCLOOP} answered {name}: ")
        raise RefusedError(reasons(said)) from None
    except errors.DeniedError as problem:
        raise CtlError(f"{problem}: kubeletctl must run as root", NOT_THERE) from None
    except errors.PeerDownError as problem:
        raise CtlError(f"The pods cannot be changed: {problem}", NOT_THERE) from None
    except errors.ChannelError as problem:
        raise CtlError(f"It is not known whether it was done: {problem}") from None


def reasons(said: str) -> list[str]:
    """Part an objection into its reasons: each begins with a field of the pod. Pure."""
    return [part for line in said.splitlines() or [said] for part in _NEXT_FIELD.split(line)]


def complain(lines: Iterable[str]) -> None:
    """Print what is wrong, a line each."""
    for line in lines:
        print(f"kubeletctl: {line}", file=sys.stderr)


def still_there(run_dir: RunDir, uid: str) -> bool:
    """Whether anything is left of a pod, as far as can be told now."""
    try:
        row = tables.row(run_dir, "pods", uid)
    except CtlError:  # its writer is just making the table anew
        return True
    return row is not None and text(row, "state") != FINISHED


def pod(run_dir: RunDir, uid: str) -> PodView | None:
    """Return one pod as it is now, None if nothing is known of it."""
    try:
        content, _problems = tables.pods(run_dir)
    except CtlError:  # as above
        return None
    return next((one for one in views(content) if one.uid == uid), None)


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so; False if it is not by then."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)
    return True


def duration(option: str, words: str) -> float:
    """Return the seconds in a duration of the command line."""
    from kubelet import durations

    try:
        found = durations.seconds(words)
    except ValueError as problem:
        raise CtlError(f"{option}: {words!r} {problem}", NOT_THERE) from None
    if found < 0:
        raise CtlError(f"{option}: {words!r} must not be negative", NOT_THERE)
    return found
