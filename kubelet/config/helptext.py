"""The text of --help: every flag with its type, default and meaning."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

from kubelet.config import gates
from kubelet.config.table import FLAGS, Flag
from kubelet.config.types import described

_INDENT: Final = 6
_WIDTH: Final = 100
_HEAD: Final = """\
The kubelet runs the pods that belong to this node. It takes them from the API server named by
--kubeconfig, from the manifests under staticPodPath, or from staticPodURL.

Most settings belong in the file given by --config; flags win over it.

Usage:
  kubelet [flags]
"""


def help_text() -> str:
    """Return the whole text."""
    own = [flag for flag in FLAGS if flag.own]
    rest = [flag for flag in FLAGS if not flag.own]
    parts = [_HEAD, "Flags:", *map(_entry, rest), "", "Flags of this kubelet only:"]
    return "\n".join([*parts, *map(_entry, own), "", _gates(), ""])


def default_text(value: Any) -> str:
    """Render a default for people."""
    if isinstance(value, dict):
        return ",".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _entry(flag: Flag) -> str:
    short = f"-{flag.shorthand}, " if flag.shorthand else "    "
    kind = "" if flag.bare is not None else f" {flag.type.name}"
    text = described(flag.help, flag.type)
    if flag.default not in (None, "", {}, []):
        text += f" (default {default_text(flag.default)})"
    if flag.deprecated:
        text += f" (DEPRECATED: {flag.deprecated})"
    body = textwrap.fill(
        text, _WIDTH, initial_indent=" " * _INDENT, subsequent_indent=" " * _INDENT
    )
    return f"  {short}--{flag.name}{kind}\n{body}"


def _gates() -> str:
    known = sorted(gates.GATES.values(), key=lambda gate: gate.name)
    lines = [
        f"  {gate.name}=true|false ({gate.stage.value}, default {str(gate.default).lower()}"
        f"{', locked' if gate.locked else ''})"
        for gate in known
    ]
    return "\n".join(["Feature gates:", *lines])
