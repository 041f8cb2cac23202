"""The volumes process.

Owns: table ``mounts``. Reads: ``pods``, ``cluster``, ``objects``. Sends: hints on what it writes.
When it dies: what is mounted stays mounted; its successor finds it in the table and the kernel.
"""

from __future__ import annotations

from kubelet.process import Process


async def main(process: Process) -> None:
    """Keep the tables attached and answer requests until asked to stop."""
    await process.stopping.wait()
