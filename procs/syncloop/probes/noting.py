"""Events of probes (B-16): ``prober`` finds them, and they are noted among the pod's others."""

from __future__ import annotations

from kubelet import logging as klog
from kubelet.channels.probing import NotePodEvent, PodEventNoted
from kubelet.channels.server import Caller
from procs.syncloop.events import Emit
from procs.syncloop.runtime.kinds import find_or_none
from procs.syncloop.workers.book import Book

log = klog.get_logger(__name__)


class Noting:
    """Answers ``note-pod-event``."""

    def __init__(self, book: Book, emit: Emit) -> None:
        self._book = book
        self._emit = emit

    async def answer(self, request: NotePodEvent, _caller: Caller) -> PodEventNoted:
        """Note an event; of a pod or container that is not known any more nobody wants to hear."""
        row = self._book.pods.get(request.pod)
        if row is None or not row.document or find_or_none(row.pod, request.container) is None:
            log.v(2, "Event of a probe whose pod is gone", pod=request.pod, reason=request.reason)
        else:
            said = (request.type, request.reason, request.message, request.container)
            self._emit(row.pod, *said)
        return PodEventNoted()
