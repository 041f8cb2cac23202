"""What is written about the runtime itself, under the key ``runtime``, when it changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from kubelet.cri.client import RuntimeClient
from kubelet.pods.runtime import RuntimeRecord
from procs.pleg.book import Book
from procs.pleg.health import Facts, Waiting, judge
from procs.pleg.link import Link
from procs.pleg.relist import Relister


class Report:
    """Puts together what link, looks and calls say."""

    def __init__(
        self,
        client: RuntimeClient,
        link: Link,
        relister: Relister,
        book: Book,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._client = client
        self._link = link
        self._relister = relister
        self._book = book
        self._clock = clock
        self._started_ns = clock()

    def tick(self) -> None:
        """Write if something changed; called each second, whatever the runtime does."""
        record = self._record()
        if record != self._book.runtime:
            self._book.put_runtime(record)

    def looked(self) -> None:
        """Write that a full look is done: its stamp moves."""
        self._book.put_runtime(self._record())

    def _record(self) -> RuntimeRecord:
        now_ns = self._clock()
        before = self._book.runtime
        verdict = judge(self._facts(), now_ns)
        same = verdict.healthy == before.healthy and before.since_ns
        return replace(
            self._link.record,
            looked=bool(self._book.full_look_ns),
            healthy=verdict.healthy,
            reason=verdict.reason,
            since_ns=before.since_ns if same else now_ns,
            trouble=verdict.trouble,
            waiting_for=verdict.waiting_for,
            waiting_since_ns=verdict.waiting_since_ns,
            unseen=self._book.unseen,
            foreign=len(self._relister.foreign),
            problems=tuple(filter(None, (self._book.write_problem, self._relister.problem))),
        )

    def _facts(self) -> Facts:
        link, record = self._link, self._link.record
        oldest = next(iter(self._client.in_flight), None)
        return Facts(
            endpoint=record.endpoint,
            started_ns=self._started_ns,
            connected=record.connected,
            full_look_ns=self._book.full_look_ns,
            status_ns=link.status_ns,
            error=link.trouble,
            waiting=Waiting(oldest.name, oldest.since_ns) if oldest is not None else None,
            conditions=record.conditions or None,
        )
