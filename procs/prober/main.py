"""The prober process.

Owns: table ``probes``. Reads: ``pods``, ``runtime``. Sends: hints on what it writes. Has no root.
When it dies: the last result of every probe stays in its table, and counts until the successor has
a newer one.
"""

from __future__ import annotations

from kubelet.process import Process


async def main(process: Process) -> None:
    """Keep the tables attached and answer requests until asked to stop."""
    await process.stopping.wait()
