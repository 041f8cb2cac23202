"""List fields whose items are structures: taints, reserved memory, shutdown steps, vmodule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubelet.config import types
from kubelet.config.errors import BadValueError, BadValuesError, closest
from kubelet.config.types import Repeat, Type


def _no_text(_text: str) -> Any:
    raise BadValueError("can be set in the configuration file only", _text)


def structures(
    name: str,
    members: dict[str, Type],
    required: tuple[str, ...],
    parse: Callable[[str], Any] = _no_text,
) -> Type:
    """Make the type of lists of structures with the given members."""

    def item(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadValueError(f"must be a map with {', '.join(members)}", value)
        bad = [
            BadValueError(_unknown(key, members), one, f".{key}")
            for key, one in value.items()
            if key not in members
        ]
        bad += [
            BadValueError("must be set", None, f".{key}")
            for key in required
            if value.get(key) is None
        ]
        out: dict[str, Any] = {}
        for key, kind in members.items():
            if value.get(key) is None:
                continue
            try:
                out[key] = kind.decode(value[key])
            except BadValueError as err:
                bad.append(BadValueError(err.allowed, err.value, f".{key}{err.below}"))
            except BadValuesError as err:
                bad += [BadValueError(e.allowed, e.value, f".{key}{e.below}") for e in err.items]
        if bad:
            raise BadValuesError(bad)
        return out

    shape = types.list_of(Type(name, item, _no_text))
    return Type(f"list of {name}", shape.decode, parse, Repeat.EXTEND)


def _unknown(key: str, members: dict[str, Type]) -> str:
    close = closest(key, members)
    hint = f'; did you mean "{close}"?' if close else ""
    return f"unknown field (known: {', '.join(members)}){hint}"


def _parse_taints(text: str) -> list[dict[str, str]]:
    """Read ``key=value:Effect`` and ``key:Effect``, with commas between them."""
    out = []
    for part in text.split(",") if text else []:
        head, found, effect = part.strip().rpartition(":")
        key, _, value = head.partition("=")
        if not found or not key:
            raise BadValueError("must be key=value:Effect, with commas between several", part)
        taint = {"key": key, "value": value, "effect": effect}
        out.append({name: one for name, one in taint.items() if one})
    return out


TAINTS: Final = structures(
    "taint",
    {
        "key": types.STRING,
        "value": types.STRING,
        "effect": types.STRING,
        "timeAdded": types.STRING,
    },
    ("key", "effect"),
    _parse_taints,
)


def _parse_reserved_memory(text: str) -> list[dict[str, Any]]:
    """Read ``0:memory=1Gi,hugepages-2Mi=1Gi;1:memory=2Gi``."""
    allowed = "must be node:resource=quantity,...;node:... as in 0:memory=1Gi;1:memory=2Gi"
    out = []
    for part in text.split(";") if text else []:
        node, found, limits = part.strip().partition(":")
        if not found or not node.isascii() or not node.isdigit():
            raise BadValueError(allowed, part)
        out.append({"numaNode": types.INTEGER32.parse(node), "limits": _LIMITS.parse(limits)})
    return out


_LIMITS: Final = types.map_of(types.QUANTITY)
RESERVED_MEMORY: Final = structures(
    "memory reservation",
    {"numaNode": types.INTEGER32, "limits": _LIMITS},
    ("limits",),
    _parse_reserved_memory,
)

SHUTDOWN_STEPS: Final = structures(
    "shutdown step",
    {"priority": types.INTEGER32, "shutdownGracePeriodSeconds": types.INTEGER64},
    (),
)


def _parse_vmodule(text: str) -> list[dict[str, Any]]:
    """Read ``pattern=N``, with commas between them."""
    out = []
    for part in text.split(",") if text else []:
        pattern, found, level = part.partition("=")
        if not part:
            continue
        if not found or not pattern:
            raise BadValueError("must be pattern=N, with commas between several", part)
        out.append({"filePattern": pattern, "verbosity": types.UNSIGNED32.parse(level)})
    return out


VMODULE: Final = structures(
    "module verbosity",
    {"filePattern": types.STRING, "verbosity": types.UNSIGNED32},
    ("filePattern", "verbosity"),
    _parse_vmodule,
)
