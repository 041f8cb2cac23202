"""The certificates of the node, in the order in which a start needs them.

First ``endpoint`` waits for a kubeconfig, and bootstraps if need be. With the connection that it
leads to, ``start`` keeps both certificates fresh. A node without an API server calls
``start_alone`` and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kubelet.process import Process
from procs.node.apiserver.kubeconfig import read_endpoint
from procs.node.apiserver.types import Endpoint
from procs.node.certificates.bootstrap import Bootstrap, OpenApi
from procs.node.certificates.client import Tool
from procs.node.certificates.rotation import ClientRotation
from procs.node.certificates.serving import Serving
from procs.node.certificates.store import CLIENT, Store
from procs.node.kit import Kit
from procs.node.ledger import Ledger
from procs.node.troubles import Troubles


class Certificates:
    """Bootstrap, client certificate and serving certificate."""

    def __init__(self, process: Process, ledger: Ledger, troubles: Troubles) -> None:
        self._process = process
        self._ledger = ledger
        self._troubles = troubles
        self._tool = Tool()
        self._store = Store(os.path.abspath(process.config.flag("cert-dir")), CLIENT)

    async def endpoint(self, open_api: OpenApi) -> Endpoint:
        """Return how to reach the API server, once there is a kubeconfig; bootstrap if need be."""
        bootstrap = Bootstrap(
            self._process,
            self._troubles,
            tool=self._tool,
            store=self._store,
            read_endpoint=self._read,
            open_api=open_api,
        )
        return await bootstrap.run()

    def start(
        self, kit: Kit, endpoint: Endpoint, renewed: Callable[[], None] = lambda: None
    ) -> None:
        """Keep both certificates fresh; ``renewed`` is called after each new one of the client."""
        ClientRotation(
            kit, tool=self._tool, store=self._store, endpoint=endpoint, renewed=renewed
        ).start()
        Serving(self._process, self._troubles, self._tool, kit).start()

    def start_alone(self) -> None:
        """Keep the serving certificate of a node without an API server."""
        Serving(self._process, self._troubles, self._tool).start()

    async def _read(self, path: str) -> Endpoint:
        # What is remembered is the kubeconfig alone: the other is read once in a node's life.
        own = path == self._process.config.flag("kubeconfig")
        return await read_endpoint(path, self._ledger if own else None)
