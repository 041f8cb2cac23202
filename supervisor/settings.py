"""What the supervisor is told at its start."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.listeners import ListenAddress
from supervisor.privileges import Identity


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the configuration says about the tree; times in seconds."""

    run_dir: str
    node: str
    version: str
    identity: Identity
    config: object  # the effective configuration: handed to every process as it is
    config_json: bytes  # the same for those outside
    command: tuple[str, ...]  # what to execute for a reload: program and arguments
    heartbeat_timeout: float = 5.0
    heartbeat_interval: float = 0.5
    listeners: tuple[ListenAddress, ...] = ()
    oom_score_adj: int = -999
    max_open_files: int = 1_000_000
    lock_file: str = ""
    exit_on_lock_contention: bool = False
    frame: str = "kubelet.process.frame:run"  # what a child runs; see ``launch``
    preload: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
