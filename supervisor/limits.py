"""The OOM score and the limit of open files (C-12)."""

from __future__ import annotations

import os
import resource

from supervisor.settings import Settings


def set_oom_score(pid: int, score: int) -> str | None:
    """Tell the kernel how gladly this process is given up (C-12); why it could not be told."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(score))
    except (ProcessLookupError, FileNotFoundError):
        return None  # gone already
    except OSError as err:
        return f"oomScoreAdj: {score}: {err.strerror}"
    return None


def own_limits(settings: Settings) -> tuple[str, ...]:
    """Set the supervisor's own OOM score and limit of open files (C-12); what could not be."""
    return tuple(
        filter(None, (set_oom_score(os.getpid(), settings.oom_score_adj), _open_files(settings)))
    )


def _open_files(settings: Settings) -> str | None:
    wanted = settings.max_open_files
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return f"maxOpenFiles: {wanted}: not allowed here, {hard} are"
    return None
