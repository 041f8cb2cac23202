"""How long each call may take (R-5). None is for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

DEFAULT: Final = 120.0  # runtimeRequestTimeout, unless configured

# How the calls that are not like the others get their time: (default, own) -> seconds.
_RULES: Final[dict[str, Callable[[float, float], float | None]]] = {
    "RunPodSandbox": lambda default, _own: 2 * default,
    "StopContainer": lambda default, own: own + default,
    "ExecSync": lambda default, own: own + default if own else None,
    "CheckpointContainer": lambda default, own: max(own, default),
    "CheckpointPod": lambda default, own: own or default,
    "RestorePod": lambda default, own: own or default,
    # A pull takes what it takes, a stream of events has no end; the other two fetch an address.
    "PullImage": lambda _default, _own: None,
    "GetContainerEvents": lambda _default, _own: None,
    "Exec": lambda _default, _own: None,
    "Attach": lambda _default, _own: None,
}


def limit(call: str, default: float, own: float = 0.0) -> float | None:
    """Seconds for a call, from the configured default and the call's own time, where it has one."""
    rule = _RULES.get(call)
    return rule(default, own) if rule else default
