"""The eviction process.

Owns: table ``stats``. Reads: ``pods``, ``runtime``. Sends: hints on what it writes.
When it dies: the limits in force stay with the kernel; its successor measures again.
"""

from __future__ import annotations

from kubelet.process import Process


async def main(process: Process) -> None:
    """Keep the tables attached and answer requests until asked to stop."""
    await process.stopping.wait()
