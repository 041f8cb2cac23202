"""A CSI driver for tests, in a process of its own: ``python -m tests.csi.driver --name ...``.

It really mounts, keeps its state in files, writes down every call, and goes wrong where a test
wants it to (see controls.py).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

from procs.volumes.csi.wire import csi_pb2 as pb
from tests.csi.controller_service import ControllerService
from tests.csi.controls import Around, Control, Log
from tests.csi.node_service import NodeService
from tests.csi.registrar import VERSIONS, Registrar, socket_of
from tests.csi.services import Server, handler
from tests.csi.store import Store

READY = "the driver listens"


class IdentityService:
    """csi.v1.Identity."""

    def __init__(self, options):
        self._options = options

    def GetPluginInfo(self, _request):  # noqa: N802 - here and below, the call's name
        return pb.GetPluginInfoResponse(name=self._options.name, vendor_version="1.0.0")

    def GetPluginCapabilities(self, _request):  # noqa: N802
        kinds = pb.PluginCapability
        service = {"service": {"type": kinds.Service.CONTROLLER_SERVICE}}
        growth = {"volume_expansion": {"type": kinds.VolumeExpansion.ONLINE}}
        both = [service] if self._options.no_expand else [service, growth]
        return pb.GetPluginCapabilitiesResponse(capabilities=both)

    def Probe(self, _request):  # noqa: N802
        return pb.ProbeResponse(ready={"value": True})


def options(arguments=None):
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.csi.driver", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="the socket to serve on")
    parser.add_argument("--registry", default="", help="the kubelet's plugins_registry")
    parser.add_argument("--name", default="mounts.csi.test", help="the driver's name")
    parser.add_argument("--state", required=True, help="the directory of all that it knows")
    parser.add_argument("--node-id", default="this-node", help="what it calls its node")
    parser.add_argument("--max-volumes", type=int, default=0)
    parser.add_argument("--topology", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--csi-version", action="append", default=[], help=f"not {VERSIONS}")
    for flag, text in (
        ("--no-stage", "it does not stage"),
        ("--no-stats", "it does not say how full volumes are"),
        ("--no-expand", "its volumes do not grow on the node"),
        ("--no-attach", "its volumes need not be attached"),
        ("--mount-group", "it takes the group of a mount"),
        ("--single-writer", "it knows the access modes for one pod"),
        ("--create-unknown", "a volume that it does not know is made when it is used"),
    ):
        parser.add_argument(flag, action="store_true", help=text)
    return parser.parse_args(arguments)


def servers(opts):
    """Return the driver's servers, the one of its registration last."""
    store, control = Store(opts.state), Control(opts.state)
    around = Around(control, Log(opts.state))
    services = {
        "Identity": IdentityService(opts),
        "Node": NodeService(opts, store, control),
        "Controller": ControllerService(opts, store),
    }
    described = pb.DESCRIPTOR.services_by_name
    handlers = [handler(described[name], made, around) for name, made in services.items()]
    made = [Server(opts.endpoint, *handlers)]
    if opts.registry:
        socket = socket_of(opts.registry, opts.name)
        versions = opts.csi_version or VERSIONS
        made.append(Registrar(socket, opts.name, opts.endpoint, versions, around=around))
    return made


def main():
    """Serve until asked to stop."""
    opts = options()
    os.makedirs(opts.state, exist_ok=True)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    running = servers(opts)
    for server in running:
        server.start()
    print(READY, flush=True)
    stopping.wait()
    for server in reversed(running):
        server.stop()
    sys.stdout.flush()
    os._exit(0)  # a call that hangs has a thread that does not end


if __name__ == "__main__":
    main()
