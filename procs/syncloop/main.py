"""The syncloop process: desired pods and the pod status cache to actions on the runtime.

Owns: tables ``pods``, ``status``, ``events``, ``inflight``. Reads: ``runtime``, ``mounts``,
``probes``, ``assigned``, ``cluster``, ``objects``; manifests, and the pods submitted to it.
Answers: ``submit-pod``, ``delete-pod``, ``list-images``, ``pods-known``, and of prober
``exec-probe``, ``note-pod-event``. Asks: pleg to look at a pod, eviction for its cgroup, volumes
for parts of volumes and variables in them. Sends: hints on what it writes. The only process that
changes containers.

When it dies: no container notices. Its successor finds in ``pods`` what each pod is to be and how
far it has come, in ``inflight`` which calls were under way, back-offs and deadlines, and in
``runtime`` what is true; it goes on from there.
When prober is away: containers stay as ready as they were, and none is killed for a probe.
When the runtime is away: pods stay as they are, each says what it waits for.
When a volume hangs: nothing here looks into volumes; the pod that needs it waits for ``volumes``.
"""

from __future__ import annotations

import time

from kubelet import logging as klog
from kubelet.channels.messages import (
    AllPodsKnown,
    DeletePod,
    Deleting,
    ListImages,
    PodsKnown,
    SubmitPod,
    Submitted,
)
from kubelet.channels.probing import NotePodEvent
from kubelet.channels.server import Caller
from kubelet.config import Effective
from kubelet.cri.client import ImageClient, RuntimeClient
from kubelet.cri.errors import EndpointError
from kubelet.pods.cache import RuntimeCache
from kubelet.process import Process
from procs.syncloop.admission import Admission
from procs.syncloop.configs.lookup import NOTHING
from procs.syncloop.configs.tables import TableLookup
from procs.syncloop.configs.userns import UserNamespaces
from procs.syncloop.events import Events
from procs.syncloop.gather import Gatherer, NodeTable
from procs.syncloop.gc import ContainerGc, GcPolicy
from procs.syncloop.images.credentials import no_secrets
from procs.syncloop.images.listing import Listing
from procs.syncloop.images.manager import ImageManager
from procs.syncloop.images.pullsecrets import from_tables
from procs.syncloop.kit import Kit, Reached, pass_by
from procs.syncloop.logs.rotation import Rotator
from procs.syncloop.manager import Manager
from procs.syncloop.podcidr import PodCidr
from procs.syncloop.probes.executing import Executing
from procs.syncloop.probes.noting import Noting
from procs.syncloop.probes.results import Results
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
    try:
        client, image_client = await _connect(config)
    except EndpointError as err:
        log.error("The configured runtime cannot be called", err=err)
        await process.stopping.wait()
        return
    cache = RuntimeCache(process)
    events = Events(process, time.time_ns)
    events.load()
    book = Book(process, time.time_ns)
    book.load()
    lookup = TableLookup(process) if config.str("--kubeconfig") else None
    site = Gatherer(config, process.node, cache, heard=NodeTable(process.tables))
    kit = Kit(
        process=process,
        client=client,
        cache=cache,
        images=ImageManager(
            image_client,
            config,
            events.emit,
            time.time_ns,
            reached,
            secrets=from_tables(lookup) if lookup else no_secrets,
        ),
        hooks=Hooks(client, events.emit),
        probes=Results(process.tables),
        gc=ContainerGc(client, cache, site, GcPolicy.of(config), _gc_failed),
        emit=events.emit,
        said=events.said,
        admission=Admission(config, cache.runtime),
        lookup=lookup or NOTHING,
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
    _answer(process, sources, Listing(image_client))
    process.channels.handle(NotePodEvent, Noting(book, events.emit).answer)
    Executing(kit, book).start()
    sources.start()
    Rotator(process, client, cache, site).start()
    PodCidr(process, client).start()
    await process.stopping.wait()
    await manager.stop()  # first: a call that a closed client ends looks like a failure
    await client.close()
    await image_client.close()


async def _connect(config: Effective) -> tuple[RuntimeClient, ImageClient]:
    """Return the clients of the runtime and of its images."""
    endpoint = config.str("containerRuntimeEndpoint")
    seconds = config.duration("runtimeRequestTimeout")
    images = config.str("imageServiceEndpoint") or endpoint
    return (
        await RuntimeClient.connect(endpoint, timeout=seconds),
        await ImageClient.connect(images, timeout=seconds),
    )


def _gc_failed(sentence: str) -> None:
    log.warning(
        "Dead containers could not all be removed", reason="ContainerGCFailed", err=sentence
    )


def _answer(process: Process, sources: Sources, images: Listing) -> None:
    async def submit(request: SubmitPod, _caller: Caller) -> Submitted:
        return sources.submit(request.document)

    async def delete(request: DeletePod, _caller: Caller) -> Deleting:
        return sources.delete(request.namespace, request.name, request.grace)

    async def known(_request: PodsKnown, _caller: Caller) -> AllPodsKnown:
        return AllPodsKnown(sources.ready)

    process.channels.handle(SubmitPod, submit)
    process.channels.handle(PodsKnown, known)
    process.channels.handle(DeletePod, delete)
    process.channels.handle(ListImages, images.answer)
