"""Pulling: once for all who want the same, within the limits, on the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kubelet import logging as klog
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import ImageClient
from kubelet.cri.errors import Cancelled, CriError, TimedOut, Unavailable
from procs.syncloop.images import policy
from procs.syncloop.images.credentials import Candidate
from procs.syncloop.images.errors import Reason
from procs.syncloop.images.limiter import QPS_EXCEEDED, Flights, Gate, TokenBucket
from procs.syncloop.images.records import RecordError, Records

log = klog.get_logger(__name__)

BEFORE: Final = "pull:before"
AFTER: Final = "pull:after"
# After these nobody knows whether the runtime goes on with what it was asked to do.
_UNSURE: Final = (Unavailable, TimedOut, Cancelled)


@dataclass(frozen=True, slots=True)
class Job:
    """An image to pull, for a pod that asks for it first."""

    uid: str
    spec: pb.ImageSpec
    repository: str
    candidates: tuple[Candidate, ...]  # at least one
    sandbox: pb.PodSandboxConfig

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two jobs the same: image, handler and credentials."""
        return self.spec.image, self.spec.runtime_handler, *(c.digest for c in self.candidates)


@dataclass(frozen=True, slots=True)
class Pulled:
    """An image that came."""

    ref: str
    image: pb.Image
    took_ns: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why none came."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _Fetched:
    ref: str
    by: Candidate


class Puller:
    """Pulls images."""

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        client: ImageClient,
        *,
        bucket: TokenBucket,
        gate: Gate,
        records: Records | None,
        monotonic: Callable[[], int],
        reached: Callable[[str, str], None],
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._gate = gate
        self._records = records
        self._monotonic = monotonic
        self._reached = reached
        self._flights: Flights[Pulled | Failure] = Flights()

    async def pull(self, job: Job) -> Pulled | Failure:
        """Pull an image, or wait for somebody else's pull of it with the same credentials."""
        return await self._flights.run(job.key, partial(self._in_turn, job))

    async def _in_turn(self, job: Job) -> Pulled | Failure:
        async with self._gate.place():
            if not self._bucket.take():
                return Failure(Reason.PULL, QPS_EXCEEDED)
            if self._records is None:
                return await self._pull(job, None)
            return await self._on_record(job, self._records)

    async def _on_record(self, job: Job, records: Records) -> Pulled | Failure:
        """Pull between an intent and a record; what is cut off in between leaves the intent."""
        name = job.spec.image
        try:
            await asyncio.to_thread(records.begin, name)
            return await self._pull(job, records)
        except RecordError as err:
            return Failure(Reason.PULL, f"Failed to record the pull beforehand: {err}")
        except asyncio.CancelledError:
            await asyncio.to_thread(records.failed, name, unsure=True)
            raise

    async def _pull(self, job: Job, records: Records | None) -> Pulled | Failure:
        began = self._monotonic()
        errors: list[CriError] = []
        fetched = await self._fetch(job, errors)
        took = self._monotonic() - began
        if fetched is None:
            if records is not None:
                unsure = any(isinstance(error, _UNSURE) for error in errors)
                await asyncio.to_thread(records.failed, job.spec.image, unsure=unsure)
            return Failure(*policy.failure(job.spec.image, errors))
        image = await self._look(job.spec, fetched.ref)
        ref = image.id if isinstance(image, pb.Image) else fetched.ref
        if records is not None:
            await _note(records, job, ref, fetched.by)
        if isinstance(image, Failure):
            return image
        return Pulled(fetched.ref, image, took)

    async def _fetch(self, job: Job, errors: list[CriError]) -> _Fetched | None:
        """Try one credential after another; what each ended in is added to the errors."""
        for candidate in job.candidates:
            auth = candidate.auth.to_cri() if candidate.auth else None
            self._reached(BEFORE, job.uid)
            try:
                ref = await self._client.pull_image(job.spec, auth, job.sandbox)
            except CriError as err:
                errors.append(err)
                self._reached(AFTER, job.uid)
                continue
            self._reached(AFTER, job.uid)
            return _Fetched(ref, candidate)
        return None

    async def _look(self, spec: pb.ImageSpec, ref: str) -> pb.Image | Failure:
        """Look at what was pulled, for its size and its user."""
        pulled = pb.ImageSpec(image=ref, runtime_handler=spec.runtime_handler)
        try:
            answer = await self._client.image_status(pulled)
        except CriError as err:
            return Failure(Reason.INSPECT, policy.inspect_failed(spec.image, err.go_text))
        if not answer.HasField("image"):
            gone = f"{ref} is gone right after it was pulled"
            return Failure(Reason.INSPECT, policy.inspect_failed(spec.image, gone))
        return answer.image


async def _note(records: Records, job: Job, ref: str, by: Candidate) -> None:
    """Write who pulled it; without that the next pod has to prove its right again, no more."""
    done = partial(records.done, job.spec.image, ref, job.repository, by.proofs)
    try:
        await asyncio.to_thread(done)
    except RecordError as err:
        log.error("Pull of an image was not recorded", image=job.spec.image, err=err)
