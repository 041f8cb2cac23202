"""The socket that makes a plugin known to a kubelet: what node-driver-registrar is to a driver."""

from __future__ import annotations

import os
import queue

from procs.volumes.csi.wire import registration_pb2 as pb
from tests.csi.services import Server, handler

CSI = "CSIPlugin"
VERSIONS = ("1.12.0",)


class Registrar:
    """Serves registration; ``statuses`` gets what the kubelet said, each as (registered, error)."""

    def __init__(self, path, name, endpoint, versions=VERSIONS, *, kind=CSI, around=None):
        self.info = pb.PluginInfo(
            type=kind, name=name, endpoint=endpoint, supported_versions=versions
        )
        self.asked = 0
        self.statuses = queue.Queue()
        service = pb.DESCRIPTOR.services_by_name["Registration"]
        around = around or (lambda _method, _request, work: work())
        self._server = Server(path, handler(service, self, around))

    @property
    def path(self):
        """Where it listens."""
        return self._server.path

    def start(self):
        self._server.start()
        return self

    def stop(self):
        self._server.stop()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def GetInfo(self, _request):  # noqa: N802 - the call's name
        self.asked += 1
        return self.info

    def NotifyRegistrationStatus(self, request):  # noqa: N802 - as above
        self.statuses.put((request.plugin_registered, request.error))
        return pb.RegistrationStatusResponse()


def socket_of(registry, name):
    """Return where a driver's registration socket belongs."""
    return os.path.join(registry, f"{name}-reg.sock")
