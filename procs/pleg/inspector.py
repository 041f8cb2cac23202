"""Inspecting one pod: the statuses of its sandboxes and containers, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import BadReply, NotFound
from kubelet.cri.info import init_pid
from kubelet.pods.runtime import ContainerRecord, PodRecord, SandboxRecord
from kubelet.process import Process
from procs.pleg import convert
from procs.pleg.listing import PodListing, plan, plan_sandboxes
from procs.pleg.together import both, each

PARALLEL: Final = 8  # status calls under way at a time
_STATES: Final = (
    pb.CONTAINER_CREATED,
    pb.CONTAINER_RUNNING,
    pb.CONTAINER_EXITED,
    pb.CONTAINER_UNKNOWN,
)
_SANDBOX_STATES: Final = (pb.SANDBOX_READY, pb.SANDBOX_NOTREADY)


class Inspector:
    """Turns what is listed of a pod into its record."""

    def __init__(
        self,
        process: Process,
        client: RuntimeClient,
        known: Callable[[str], PodRecord | None],
    ) -> None:
        self._process = process
        self._client = client
        self._known = known
        self._slots = asyncio.Semaphore(PARALLEL)

    async def inspect(self, pod: PodListing) -> PodRecord:
        """Return a pod's record; a CriError says why one of the calls for it failed."""
        before = self._known(pod.uid)
        known = {c.id: c for c in before.containers} if before is not None else {}
        boxes = plan_sandboxes(pod.sandboxes, before.sandboxes if before is not None else ())
        chosen = plan(pod.containers, known)
        sandboxes, containers = await both(
            each(self._sandbox(pod.uid, box.id) for box in boxes.inspect),
            each(self._container(pod.uid, c, known.get(c.id)) for c in chosen.inspect),
        )
        old_sandboxes = map(convert.listed_sandbox, boxes.listed)
        old_containers = map(convert.listed, chosen.listed)
        return convert.pod(
            pod.uid,
            sandboxes=(*filter(None, sandboxes), *boxes.reuse, *old_sandboxes),
            containers=(*filter(None, containers), *chosen.reuse, *old_containers),
            labels=_labels(pod),
            left_out=chosen.left_out + boxes.left_out,
            problems=_odd_states(pod),
        )

    async def container(
        self, uid: str, container_id: str, *, verbose: bool = False
    ) -> pb.ContainerStatusResponse:
        """Ask for a container's status, in its turn."""
        async with self._slots:
            with self._process.doing("ContainerStatus", uid):
                answer = await self._client.container_status(container_id, verbose=verbose)
        self._process.row.count("status_calls")
        if answer.status.id != container_id:
            raise BadReply("it is of another container", "ContainerStatus", container_id)
        return answer

    async def _container(
        self, uid: str, listed: pb.Container, known: ContainerRecord | None
    ) -> ContainerRecord | None:
        # The pid is in the verbose answer, which is long: asked for once in a container's life.
        pid = known.pid if known is not None else 0
        verbose = not pid and listed.state != pb.CONTAINER_EXITED
        try:
            answer = await self.container(uid, listed.id, verbose=verbose)
        except NotFound:
            return None  # it has gone since it was listed
        if verbose:
            pid = init_pid(answer) or 0
        return convert.container(answer.status, listed.pod_sandbox_id, pid)

    async def _sandbox(self, uid: str, sandbox_id: str) -> SandboxRecord | None:
        try:
            async with self._slots:
                with self._process.doing("PodSandboxStatus", uid):
                    answer = await self._client.pod_sandbox_status(sandbox_id)
        except NotFound:
            return None
        self._process.row.count("status_calls")
        if answer.status.id != sandbox_id:
            raise BadReply("it is of another sandbox", "PodSandboxStatus", sandbox_id)
        return convert.sandbox(answer.status)


def _labels(pod: PodListing) -> dict[str, str]:
    """Return labels with the pod's name and namespace, from whatever has them."""
    all_labels = [*(s.labels for s in pod.sandboxes), *(c.labels for c in pod.containers)]
    named = (labels for labels in all_labels if labels.get(convert.NAME_LABEL))
    return dict(next(named, {}))


def _odd_states(pod: PodListing) -> list[str]:
    problems = [convert.state_problem("container", c.id, c.state, _STATES) for c in pod.containers]
    problems += [
        convert.state_problem("sandbox", s.id, s.state, _SANDBOX_STATES) for s in pod.sandboxes
    ]
    return [text for text in problems if text is not None]
