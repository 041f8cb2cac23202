"""The syncloop process: desired pods and the pod status cache to actions on the runtime.

Owns: tables ``pods``, ``status``, ``events``, ``inflight``. Reads: ``runtime``, ``mounts``,
``probes``, ``assigned``, ``cluster``, ``objects``; manifests, and the pods submitted to it.
Answers: ``submit-pod``, ``delete-pod``. Asks: pleg to look at a pod, eviction for its cgroup.
Sends: hints on what it writes. The only process that changes containers.

When it dies: no container notices. Its successor finds in ``pods`` what each pod is to be and how
far it has come, in ``inflight`` which calls were under way, back-offs and deadlines, and in
``runtime`` what is true; it goes on from there.
When the runtime is away: pods stay as they are, each says what it waits for.
"""

from __future__ import annotations

import time

from kubelet import logging as klog
from kubelet.channels.messages import DeletePod, Deleting, SubmitPod, Submitted
from kubelet.channels.server import Caller
from kubelet.cri.client import ImageClient, RuntimeClient
from kubelet.cri.errors import EndpointError
from kubelet.pods.cache import RuntimeCache
from kubelet.process import Process
from procs.syncloop.admission import Admission
from procs.syncloop.configs.lookup import NOTHING
from procs.syncloop.configs.userns import UserNamespaces
from procs.syncloop.events import Events
from procs.syncloop.gather import Gatherer
from procs.syncloop.gc import ContainerGc, GcPolicy
from procs.syncloop.images.manager import ImageManager
from procs.syncloop.kit import Kit, Reached, pass_by
from procs.syncloop.logs.rotation import Rotator
from procs.syncloop.manager import Manager
from procs.syncloop.runtime.hooks import Hooks
from procs.syncloop.sources.sources import Sources
from procs.syncloop.workers.book import Book

log = klog.get_logger(__name__)


async def main(process: Process) -> None:
    """Make the runtime agree with what is wanted, until asked to stop."""
    await serve(process, pass_by)


async def serve(process: Process, reached: Reached) -> None:
    """Work; ``reached`` is told of each step."""
    started_ns, started_wall_ns = time.monotonic_ns(), time.time_ns()
    config = process.config
    endpoint = config.str("containerRuntimeEndpoint")
    seconds = config.duration("runtimeRequestTimeout")
    try:
        client = await RuntimeClient.connect(endpoint, timeout=seconds)
        image_client = await ImageClient.connect(
            config.str("imageServiceEndpoint") or endpoint, timeout=seconds
        )
    except EndpointError as err:
        log.error("The configured runtime cannot be called", err=err)
        await process.stopping.wait()
        return
    cache = RuntimeCache(process)
    events = Events(process, time.time_ns)
    events.load()
    book = Book(process, time.time_ns)
    book.load()
    site = Gatherer(config, process.node, cache)
    kit = Kit(
        process=process,
        client=client,
        cache=cache,
        images=ImageManager(image_client, config, events.emit, time.time_ns, reached),
        hooks=Hooks(client, events.emit),
        gc=ContainerGc(client, cache, site, GcPolicy.of(config), _gc_failed),
        emit=events.emit,
        admission=Admission(config, cache.runtime),
        lookup=NOTHING,
        policy=site.policy,
        users=UserNamespaces(site(), site.policy.ids_per_pod),
        site=site,
        wall=time.time_ns,
        started_ns=started_ns,
        started_wall_ns=started_wall_ns,
        reached=reached,
    )
    manager = Manager(kit, book, events)
    sources = Sources(process, process.node, manager.changed)
    manager.start(sources)
    _answer(process, sources)
    sources.start()
    Rotator(process, client, cache, site).start()
    await process.stopping.wait()
    await (
        manager.stop()
    )  # first: a call that ends because the client is closed looks like a failure
    await client.close()
    await image_client.close()


def _gc_failed(sentence: str) -> None:
    log.warning(
        "Dead containers could not all be removed", reason="ContainerGCFailed", err=sentence
    )


def _answer(process: Process, sources: Sources) -> None:
    async def submit(request: SubmitPod, _caller: Caller) -> Submitted:
        return sources.submit(request.document)

    async def delete(request: DeletePod, _caller: Caller) -> Deleting:
        return sources.delete(request.namespace, request.name, request.grace)

    process.channels.handle(SubmitPod, submit)
    process.channels.handle(DeletePod, delete)
