"""Runs the commands of exec probes, which ``prober`` asks for by pod, container and probe (B-14).

Nothing of the command comes with the request: what is run, where and for how long is looked up in
the pod's spec and in what the runtime was seen to hold, so that a process without privileges can
have nothing run that the pod's author did not write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from kubelet import durations
from kubelet.api.container import Container
from kubelet.api.handlers import Probe
from kubelet.api.pod import Pod
from kubelet.channels.probing import ExecProbe, ProbeExecuted
from kubelet.channels.server import Caller
from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import CriError, TimedOut
from kubelet.pods.rows import PodRow, WorkerState
from kubelet.pods.runtime import ContainerState, PodRecord
from procs.syncloop.configs.expand import expand
from procs.syncloop.kit import Kit
from procs.syncloop.workers.book import Book

OUTPUT_LIMIT: Final = 10 << 10  # bytes of a command's output that are looked at (B-14)
LIMIT: Final = 256  # at a time: as many as one process can ask of another
_REMEMBERED: Final = 4096  # errands; a node has some hundreds of containers
_OVER: Final = frozenset({WorkerState.TERMINATED, WorkerState.FINISHED})
_BUSY: Final = ProbeExecuted(busy=True)
_SUCCESS: Final = ProbeExecuted()  # what a command said is of no interest when it succeeded


class RefusedError(Exception):
    """There is nothing to be run; its text says why."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A command to be run, as of a pod's row and of its entry in the pod status cache."""

    row: PodRow
    raw: bytes
    command: tuple[str, ...]
    seconds: float


class Executing:
    """Answers ``exec-probe``."""

    def __init__(self, kit: Kit, book: Book) -> None:
        self._kit = kit
        self._book = book
        self._running: set[str] = set()  # container IDs
        self._errands: dict[tuple[str, str], Errand] = {}

    def start(self) -> None:
        """Answer from now on."""
        self._kit.process.channels.handle(ExecProbe, self.answer, LIMIT)

    async def answer(self, request: ExecProbe, _caller: Caller) -> ProbeExecuted:
        """Run a command to its end, or to the end of its time.

        The asker may be gone by then: the command still counts as running until the runtime says
        that it does not, so that there is never a second one beside it.
        """
        container_id = request.container_id
        if container_id in self._running:
            return _BUSY
        try:
            errand = self._errand(request)
        except RefusedError as err:
            return ProbeExecuted(error=str(err))
        self._running.add(container_id)
        try:
            answer = await self._kit.client.exec_sync(container_id, errand.command, errand.seconds)
        except CriError as err:
            return failed(err, errand.command, errand.seconds)
        finally:
            self._running.discard(container_id)
        return ended(answer)

    def _errand(self, request: ExecProbe) -> Errand:
        """Return what is to be run; what was found before holds as long as nothing changed."""
        key = (request.container_id, request.probe)
        known = self._errands.get(key)
        row, raw = self._book.pods.get(request.pod), self._kit.cache.raw(request.pod)
        if known is not None and known.row is row and known.raw == raw:
            return known
        self._errands.pop(key, None)
        if row is None or row.state in _OVER or not row.document:
            raise RefusedError(f"pod {request.pod} is not one that runs here")
        record = self._kit.cache.get(request.pod).record
        command, seconds = plan(row.pod, record, request)
        errand = Errand(row, raw or b"", command, seconds)
        if len(self._errands) >= _REMEMBERED:
            self._errands.clear()
        self._errands[key] = errand
        return errand


def plan(pod: Pod, record: PodRecord | None, request: ExecProbe) -> tuple[tuple[str, ...], float]:
    """Return the command of a probe and its seconds, from the spec of a container that runs."""
    name = _running_name(record, request.container_id)
    container = next((c for c in _probed(pod) if c.name == name), None)
    if container is None:
        raise RefusedError(f"container {name} is not in the spec of pod {pod}")
    probe = _probe(container, request.probe)
    if probe is None or probe.exec is None:
        raise RefusedError(f"container {name} has no {request.probe} probe with a command")
    # As the variables are written: those whose value comes from elsewhere are empty (B-14).
    variables = {variable.name: variable.value for variable in container.env}
    command = tuple(expand(word, variables) for word in probe.exec.command)
    if any("\ud800" <= char <= "\udfff" for word in command for char in word):
        raise RefusedError(f"{request.probe} probe of container {name}: exec.command is not UTF-8")
    return command, float(probe.timeout_seconds or 1)


def _probed(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)


def _probe(container: Container, kind: str) -> Probe | None:
    probes = {
        "liveness": container.liveness_probe,
        "readiness": container.readiness_probe,
        "startup": container.startup_probe,
    }
    return probes[kind]


def _running_name(record: PodRecord | None, container_id: str) -> str:
    containers = record.containers if record is not None else ()
    found = next((one for one in containers if one.id == container_id), None)
    if found is None:
        raise RefusedError(f"container {container_id} is not one of the pod's")
    if found.state is not ContainerState.RUNNING:
        raise RefusedError(f"container {container_id} is not running but {found.state}")
    return found.name


def ended(answer: pb.ExecSyncResponse) -> ProbeExecuted:
    """Say how a command ended, with what it said on both streams when it failed."""
    if answer.exit_code == 0:
        return _SUCCESS
    said = answer.stdout[:OUTPUT_LIMIT]
    said += answer.stderr[: OUTPUT_LIMIT - len(said)]
    return ProbeExecuted(exit_code=answer.exit_code, output=_cut(said))


def failed(err: CriError, command: tuple[str, ...], seconds: float) -> ProbeExecuted:
    """Say what became of a command that has no exit code.

    A runtime whose own time ran out stopped the command; one that does not answer at all says
    nothing of the container.
    """
    if isinstance(err, TimedOut) and not err.no_answer:
        words = json.dumps(" ".join(command)[:OUTPUT_LIMIT], ensure_ascii=False)
        after = durations.render(int(seconds * durations.SECOND))
        said = f"command timed out: {words} timed out after {after}"
        return ProbeExecuted(timed_out=True, output=_cut(said.encode()))
    return ProbeExecuted(error=err.go_text)


def _cut(said: bytes) -> str:
    """Return a text of no more than the limit, what is not UTF-8 in it replaced."""
    text = said.decode(errors="replace")
    return text.encode()[:OUTPUT_LIMIT].decode(errors="ignore")
