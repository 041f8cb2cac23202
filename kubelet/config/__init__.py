"""The configuration: one table of fields and flags, and everything that is derived from it.

Whoever only reads the effective configuration gets along without the loader, the help text and
the YAML library: those are imported when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from kubelet.config.effective import Effective, Unimplemented, node_name
from kubelet.config.errors import ConfigError, HelpWanted, VersionWanted

if TYPE_CHECKING:
    from kubelet.config.helptext import help_text
    from kubelet.config.loader import Loaded, load
    from kubelet.config.version import VERSION, version_text

__all__ = [
    "VERSION",
    "ConfigError",
    "Effective",
    "HelpWanted",
    "Loaded",
    "Unimplemented",
    "VersionWanted",
    "help_text",
    "load",
    "node_name",
    "version_text",
]

_LATER: Final = {
    "Loaded": "loader",
    "VERSION": "version",
    "help_text": "helptext",
    "load": "loader",
    "version_text": "version",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
