"""All sources together: what they want becomes changes, and what is wrong is shown (P-1, P-4).

Each source is an object that delivers everything it wants whenever something changed there.
Nothing here depends on which sources there are: each takes its place with ``add``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.channels.errors import ErrorKind, HandlerError
from kubelet.channels.messages import Deleting, Submitted
from kubelet.config.errors import one_line
from kubelet.pods.rows import EVENTS, FILE, HTTP, LOCAL, SOURCES_KEY, SourcesRow
from kubelet.process import Process
from procs.syncloop.sources.api import ApiSource
from procs.syncloop.sources.changes import Candidate, Change, Delivery, Source, seen_text
from procs.syncloop.sources.file import FileSource
from procs.syncloop.sources.http import HttpSource
from procs.syncloop.sources.local import LocalSource
from procs.syncloop.sources.memory import Memory, Past
from procs.syncloop.sources.merge import Settled, compare, in_order, settle
from procs.syncloop.sources.store import Store

log = klog.get_logger(__name__)

MAX_PROBLEMS: Final = 100  # that are shown at a time
_MAX_TEXT: Final = 1000  # characters of one


class Sources:
    """Where pods come from.

    ``on_change`` gets what changed, removals first. It is also called with nothing, once, when the
    last source has delivered and had no news: from then on ``ready`` is true.
    """

    def __init__(
        self,
        process: Process,
        node: str,
        on_change: Callable[[list[Change]], None],
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._process = process
        self._node = node
        self._on_change = on_change
        self._wall = wall
        self._sources: list[Source] = []
        self._deliveries: dict[str, Delivery] = {}
        self._settled = Settled()
        self._known: dict[str, dict[str, Pod]] = {}  # source -> uid -> pod
        self._seen: dict[str, str] = {}
        self._delivered: dict[str, bool] = {}
        self._problems: tuple[str, ...] = ()
        self._row: SourcesRow | None = None
        self._memory = Memory(process, f"{process.config.str('--run-dir')}/static-pods.json")
        past = self._memory.recall()
        store = Store(f"{process.config.str('--root-dir')}/local-pods")
        running = past.pods.get(LOCAL, {})
        self._local = LocalSource(
            node=node,
            store=store,
            deliver=self._receive,
            wall=wall,
            running=running,
            taken=self._taken,
        )
        self._configure(past)

    def _configure(self, past: Past) -> None:
        """Make the sources that the configuration asks for."""
        config = self._process.config
        if path := config.str("staticPodPath"):
            files = FileSource(
                process=self._process,
                node=self._node,
                path=path,
                seconds=config.duration("fileCheckFrequency"),
                deliver=self._receive,
                good=past.good(FILE),
            )
            self.add(files)
        if url := config.str("staticPodURL"):
            manifests = HttpSource(
                process=self._process,
                node=self._node,
                url=url,
                headers=config.get("staticPodURLHeader"),
                seconds=config.duration("httpCheckFrequency"),
                deliver=self._receive,
                good=past.good(HTTP),
            )
            self.add(manifests)
        self.add(self._local)
        if config.str("--kubeconfig"):
            self.add(ApiSource(self._process, self._receive))
        self._seen = past.seen()
        self._settled = Settled(holders=past.holders(self._delivered))

    def add(self, source: Source) -> None:
        """Take in another source, before the start; of equal names the earlier source's stays."""
        self._sources.append(source)
        self._delivered[source.name] = False

    def start(self) -> None:
        """Begin to deliver."""
        self._show()
        for source in self._sources:
            source.start()

    @property
    def ready(self) -> bool:
        """Whether each source has delivered once: until then nothing unknown is ended (P-4)."""
        return all(self._delivered.values())

    def desired(self) -> dict[str, tuple[Pod, str]]:
        """Return what all sources want now: pod and source, by uid."""
        return {
            uid: (pod, source) for source, pods in self._known.items() for uid, pod in pods.items()
        }

    def wants(self, uid: str) -> bool:
        """Whether a source has a pod, or may have it for all that is known."""
        return not self.ready or any(uid in pods for pods in self._known.values())

    # Submitted pods.

    def submit(self, document: bytes) -> Submitted:
        """Take a pod; the same again changes nothing."""
        return self._local.submit(document)

    def delete(self, namespace: str, name: str, grace: int | None) -> Deleting:
        """Have a submitted pod end."""
        found = self._local.delete(namespace, name, grace)
        if found is not None:
            return found
        for one in self._candidates():
            if (one.pod.namespace, one.pod.name) == (namespace, name):
                text = f"pod {one.pod} comes from {one.origin}, and can only be removed there"
                raise HandlerError(one_line(text), ErrorKind.BAD_REQUEST)
        raise HandlerError(f'pods "{name}" not found in {namespace!r}', ErrorKind.BAD_REQUEST)

    def finished(self, uid: str) -> None:
        """Take that nothing is left of a pod: if it was a submitted one, it is forgotten."""
        self._local.finished(uid)

    def _taken(self, pod: Pod) -> str:
        """Say who else wants a pod of this name or UID."""
        for one in self._candidates():
            if one.source == LOCAL:
                continue
            if one.pod.full_name == pod.full_name:
                return one_line(f"its name is that of the pod from {one.origin}")
            if one.pod.uid == pod.uid:
                return one_line(f"its uid {pod.uid!r} is that of the pod from {one.origin}")
        return ""

    # Deliveries.

    def _candidates(self) -> Iterable[Candidate]:
        for source in self._sources:
            if source.name in self._deliveries:
                yield from self._deliveries[source.name].candidates

    def _receive(self, delivery: Delivery) -> None:
        """Take what a source wants now, and pass on what that changes."""
        was_ready = self.ready
        self._deliveries[delivery.source] = delivery
        if delivery.complete:
            self._delivered[delivery.source] = True
        silent = frozenset(name for name, done in self._delivered.items() if not done)
        self._settled = settle(self._candidates(), self._settled.holders, silent)
        changes = self._compare()
        self._memory.note(self._settled.chosen, silent)
        self._show()
        for change in changes:
            self._process.record(f"pod-{change.op}", f"{change.pod} from {change.source}")
        if changes or self.ready != was_ready:
            self._on_change(changes)

    def _compare(self) -> list[Change]:
        changes: list[Change] = []
        for source in self._sources:
            name = source.name
            wanted = [one.pod for one in self._settled.chosen if one.source == name]
            found = compare(name, self._known.get(name, {}), wanted, self._first_seen)
            self._known[name] = dict(found.pods)
            changes += found.changes
        return in_order(changes)

    def _first_seen(self, uid: str) -> str:
        return self._seen.pop(uid, "") or seen_text(self._wall())

    def _show(self) -> None:
        """Write what is wrong, if it is anything new, and log it once."""
        said = [p for s in self._sources for p in self._told(s.name)]
        said += self._settled.problems
        problems = tuple(_bounded(list(dict.fromkeys(map(one_line, said)))))
        for problem in problems:
            if problem not in self._problems:
                log.warning("Pod source has a problem", problem=problem)
                self._process.record("source-problem", problem)
        self._problems = problems
        row = SourcesRow(dict(self._delivered), problems)
        if row != self._row:
            self._row = row
            self._process.put(EVENTS, SOURCES_KEY, row.to_wire())

    def _told(self, source: str) -> tuple[str, ...]:
        found = self._deliveries.get(source)
        return found.problems if found is not None else ()


def _bounded(problems: list[str]) -> list[str]:
    shown = [text[:_MAX_TEXT] for text in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        shown.append(f"{len(problems) - MAX_PROBLEMS} more problems are not shown")
    return shown
