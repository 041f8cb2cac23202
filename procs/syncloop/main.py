"""The syncloop process: desired pods and the pod status cache to actions on the runtime.

Owns: tables ``pods``, ``status``, ``events``, ``inflight``. Reads: ``runtime``, ``mounts``,
``probes``, ``assigned``, ``cluster``, ``objects``; manifests, and the pods submitted to it.
Answers: ``submit-pod``, ``delete-pod``, ``list-images``. Asks: pleg to look at a pod, eviction for
its cgroup. Sends: hints on what it writes. The only process that changes containers.

When it dies: no container notices. Its successor finds in ``pods`` what each pod is to be and how
far it has come, in ``inflight`` which calls were under way, back-offs and deadlines, and in
``runtime`` what is true; it goes on from there.
When the runtime is away: pods stay as they are, each says what it waits for.
"""

from __future__ import annotations

import time

from kubelet import logging as klog
from kubelet.channels.messages import DeletePod, Deleting, ListImages, SubmitPod, Submitted
from kubelet.channels.server import Caller
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
        gc=ContainerGc(client, cache, site, GcPolicy.of(config), _gc_failed),
        emit=events.emit,
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
    sources.start()
    Rotator(process, client, cache, site).start()
    PodCidr(process, client).start()
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


def _answer(process: Process, sources: Sources, images: Listing) -> None:
    async def submit(request: SubmitPod, _caller: Caller) -> Submitted:
        return sources.submit(request.document)

    async def delete(request: DeletePod, _caller: Caller) -> Deleting:
        return sources.delete(request.namespace, request.name, request.grace)

    process.channels.handle(SubmitPod, submit)
    process.channels.handle(DeletePod, delete)
    process.channels.handle(ListImages, images.answer)
