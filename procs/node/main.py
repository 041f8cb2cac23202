"""The node process.

Owns: tables ``assigned``, ``cluster``, ``objects``. Reads: ``pods``, ``status``, ``stats``.
Sends: hints on what it writes.
When it dies: pods run on from the tables; its successor lists and watches anew.
"""

from __future__ import annotations

from kubelet.process import Process


async def main(process: Process) -> None:
    """Keep the tables attached and answer requests until asked to stop."""
    await process.stopping.wait()
