"""How the node stands with its API server, in a line and in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeletctl.fields import flag, objs, text, whole
from kubeletctl.words import age


def line(row: Any, now_unix: float) -> str:
    """Return one line; "" for a node without an API server."""
    if not isinstance(row, dict) or not text(row, "server"):
        return ""
    parts = [text(row, "server"), _connection(row, now_unix)]
    if ready := text(row, "ready"):
        parts.append(f"Ready={ready}")
    elif not flag(row, "registered"):
        parts.append("not registered")
    if lease := whole(row, "lease_ns"):
        parts.append(f"lease renewed {_ago(lease, now_unix)} ago")
    if expiry := whole(row, "client_expiry_ns"):
        left = expiry / 1e9 - now_unix
        shown = f"ends in {age(left)}" if left > 0 else f"ended {age(-left)} ago"
        parts.append(f"client certificate {shown}")
    return ", ".join(parts)


def _connection(row: Any, now_unix: float) -> str:
    word = "connected" if flag(row, "connected") else "not reachable"
    since = whole(row, "since_ns")
    return f"{word} for {_ago(since, now_unix)}" if since else word


def problems(row: Any, now_unix: float) -> Iterator[str]:
    """Return what is wrong with it, in sentences."""
    if not isinstance(row, dict):
        return
    since = whole(row, "since_ns")
    if since and not flag(row, "connected"):
        yield (
            f"API server {text(row, 'server')} cannot be reached for {_ago(since, now_unix)}: "
            f"{text(row, 'error') or 'no reason known'}; pods run on as they were assigned"
        )
    if text(row, "ready") == "False":
        yield f"the node says Ready=False: {text(row, 'ready_reason')}"
    for trouble in objs(row, "troubles"):
        lasting = _ago(whole(trouble, "since_ns"), now_unix)
        yield f"{text(trouble, 'what')}, for {lasting}: {text(trouble, 'error')}"


def _ago(wall_ns: int, now_unix: float) -> str:
    return age(now_unix - wall_ns / 1e9)
