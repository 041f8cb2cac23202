"""The pleg process.

Owns: table ``runtime``, the pod status cache. Reads: ``pods``. Sends: hints on what it writes.
When it dies: the cache keeps its last content for every reader; the successor looks at the runtime
first and corrects it.
"""

from __future__ import annotations

from kubelet.process import Process


async def main(process: Process) -> None:
    """Keep the tables attached and answer requests until asked to stop."""
    await process.stopping.wait()
