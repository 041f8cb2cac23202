"""A node without an API server: there is nobody to ask, and that is said."""

from __future__ import annotations

from kubelet.process import Process
from procs.node.certificates.service import Certificates
from procs.node.events.recorder import Recorder
from procs.node.ledger import Ledger
from procs.node.reviews import Standalone
from procs.node.storage.alone import StorageAlone
from procs.node.troubles import Troubles
from procs.node.view import NodeView


class Alone:
    """What is left to do without an API server: a serving certificate, and answers."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def run(self) -> None:
        """Answer until asked to stop."""
        process = self._process
        ledger, troubles = Ledger(process), Troubles(process)
        troubles.forget()
        Recorder(process, NodeView(process), ledger).start()
        Standalone(process).start()
        StorageAlone(process).start()
        Certificates(process, ledger, troubles).start_alone()
        await process.stopping.wait()
