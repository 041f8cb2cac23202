"""What every verb is given besides its own arguments."""

from __future__ import annotations

from typing import NamedTuple

from kubeletctl.errors import NOT_THERE, CtlError
from kubeletctl.output import Format
from kubeletctl.rundir import RunDir
from kubeletctl.screen import Screen
from supervisor.kinds import EVERYONE


class Context(NamedTuple):
    """Where the kubelet is, and what the output is to look like."""

    run_dir: RunDir
    output: Format
    screen: Screen


def process_name(text: str) -> str:
    """Check the name of a process given on the command line."""
    if text not in EVERYONE:
        raise CtlError(
            f"There is no process {text!r}; the processes are {', '.join(EVERYONE)}", NOT_THERE
        )
    return text
