"""The node process: everything said to or heard from the API server.

Owns: tables ``assigned``, ``cluster``, ``objects``, ``ledger``; the node's certificates on disk.
Reads: ``pods``, ``status``, ``events``, ``runtime``, ``stats``, ``mounts``; the board, for how the
other processes are; kubeconfig and certificates.
Answers: ``record-event``, ``review-token``, ``review-access``, ``serving-certificate``; of
``volumes``, ``get-attachment``, ``register-csi-driver``, ``unregister-csi-driver`` and
``note-claim-resize``. Asks: syncloop for the list of images. Sends: hints on what it writes.

When it dies: pods run on as the tables have them, and no lease lapses: its successor takes the
connection's details from the ledger, renews at once, and goes on from the last version it heard.
When the API server is away: everything waits here and nowhere else; pods run, are restarted and
probed; of what is to be said only the newest is kept.
Without a kubeconfig: the node is on its own, and this process says so to whoever asks.
"""

from __future__ import annotations

from kubelet.process import Process
from procs.node.alone import Alone
from procs.node.cluster import Cluster


async def main(process: Process) -> None:
    """Speak with the API server until asked to stop."""
    if process.config.str("--kubeconfig"):
        await Cluster(process).run()
    else:
        await Alone(process).run()
