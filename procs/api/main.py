"""The api process.

Owns: no table. Reads: ``pods``, ``runtime``, ``status``, ``stats``, ``cluster``. Has no root.
Accepts on the supervisor's listening sockets: when it dies, connections wait in their backlog and
its successor answers them.
"""

from __future__ import annotations

from kubelet.process import Process
from procs.api.healthz import HealthServer


async def main(process: Process) -> None:
    """Serve until asked to stop."""
    servers = []
    descriptor = process.listeners.get("healthz")
    if descriptor is not None:
        servers.append(await HealthServer(process.row.count).start(descriptor))
    await process.stopping.wait()
    for server in servers:
        await server.stop()
