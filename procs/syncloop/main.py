"""The syncloop process.

Owns: tables ``pods``, ``status``, ``inflight``. Reads: ``assigned``, ``runtime``, ``probes``,
``mounts``, ``cluster``, ``objects``. Sends: hints on what it writes.
When it dies: no container notices; its successor reads the tables and the runtime and goes on.
"""

from __future__ import annotations

from kubelet.process import Process


async def main(process: Process) -> None:
    """Keep the tables attached and answer requests until asked to stop."""
    await process.stopping.wait()
