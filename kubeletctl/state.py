"""What the supervisor says about the tree: ``state.json``, with errors that a command shows."""

from __future__ import annotations

from kubeletctl.errors import CtlError
from supervisor import statereader
from supervisor.statereader import SCHEMA, LastExit, ProcessState, Quarantined, State, StateError

__all__ = ["SCHEMA", "LastExit", "ProcessState", "Quarantined", "State", "parse"]


def parse(data: bytes, where: str) -> State:
    """Read ``state.json``; ``where`` is its path, for the error."""
    try:
        return statereader.parse(data, where)
    except StateError as err:
        raise CtlError(str(err)) from err
