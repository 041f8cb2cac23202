"""Has the images of containers there before they start, and says what it does (7.3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kubelet import logging as klog
from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.config import Effective
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import ImageClient
from kubelet.cri.errors import CriError
from kubelet.pods.rows import Backoff
from procs.syncloop.events import NORMAL, WARNING, Emit
from procs.syncloop.images import policy, provider_config, reference, verify
from procs.syncloop.images.credentials import (
    Candidate,
    Credentials,
    Found,
    Secrets,
    no_secrets,
)
from procs.syncloop.images.errors import ImageError, Reason
from procs.syncloop.images.files import NodeConfig
from procs.syncloop.images.limiter import Gate, TokenBucket, parallel_limit
from procs.syncloop.images.policy import PullPolicy, Step
from procs.syncloop.images.providers import Provider
from procs.syncloop.images.puller import Failure, Job, Pulled, Puller
from procs.syncloop.images.records import RecordError, Records
from procs.syncloop.runtime.backoff import BASE_NS, MAX_NS, RESET_NS, next_delay

log = klog.get_logger(__name__)

_GATE: Final = "KubeletEnsureSecretPulledImages"


@dataclass(frozen=True, slots=True)
class Ensured:
    """An image that is there."""

    ref: str  # what the runtime is to be told
    image: pb.Image
    pulled: bool  # just now


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image that a pod wants, for a container or, with no name, for a volume."""

    image: str  # as the pod spells it
    policy: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class _Ask:
    """One call of ``ensure``, with what is known about it from the start."""

    pod: Pod
    wanted: Wanted
    spec: pb.ImageSpec
    repository: str
    sandbox: pb.PodSandboxConfig


class ImageManager:
    """Decides about images and tells the pods; ``problems`` is what is wrong in its set-up."""

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        client: ImageClient,
        config: Effective,
        emit: Emit,
        clock: Callable[[], int],
        reached: Callable[[str, str], None],
        *,
        secrets: Secrets = no_secrets,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        root_dir = config.str("--root-dir")
        self._client = client
        self._emit = emit
        self._clock = clock
        self._monotonic = monotonic
        self._rules = _rules(config)
        self._records = Records(root_dir, clock) if config.gate(_GATE) else None
        providers, self.problems = _providers(config, monotonic)
        self._credentials = Credentials(NodeConfig.of(root_dir), providers, secrets)
        qps, burst = config.int("registryPullQPS"), config.int("registryBurst")
        self._puller = Puller(
            client,
            bucket=TokenBucket(qps, burst, monotonic),
            gate=Gate(parallel_limit(config)),
            records=self._records,
            monotonic=monotonic,
            reached=reached,
        )

    async def ensure(  # noqa: PLR0913, PLR0917 - all of it is about this one start
        self,
        pod: Pod,
        container: Container,
        sandbox: pb.PodSandboxConfig,
        backoffs: dict[str, Backoff],
        already: str = "",
        handler: str = "",
    ) -> Ensured:
        """Have a container's image there; ImageError says why it is not.

        ``already`` is what a pull for this very start gave before this process was replaced: it is
        taken as it is, unless it is gone. Changes to ``backoffs`` are for the caller to keep.
        """
        wanted = Wanted(container.image, container.image_pull_policy, container.name)
        return await self.ensure_image(pod, wanted, sandbox, backoffs, already, handler)

    async def ensure_image(  # noqa: PLR0913, PLR0917 - as above
        self,
        pod: Pod,
        wanted: Wanted,
        sandbox: pb.PodSandboxConfig,
        backoffs: dict[str, Backoff],
        already: str = "",
        handler: str = "",
    ) -> Ensured:
        """Have an image there, of a container or of an image volume (I-31)."""
        try:
            ask = self._understand(pod, wanted, sandbox, handler)
            if already:
                kept = await self._status(ask, already)
                if kept is not None:
                    return Ensured(already, kept, pulled=False)
            return await self._decide(ask, backoffs)
        except ImageError as err:
            if wanted.container:  # a volume's is told of each container that wants it
                self._say(pod, wanted, WARNING, policy.FAILED, policy.start_error(err.reason))
            raise

    def _say(self, pod: Pod, wanted: Wanted, kind: str, reason: str, message: str) -> None:
        self._emit(pod, kind, reason, message, wanted.container)

    def _understand(
        self, pod: Pod, wanted: Wanted, sandbox: pb.PodSandboxConfig, handler: str
    ) -> _Ask:
        try:
            name = reference.with_default_tag(wanted.image)
        except reference.InvalidNameError as err:
            message = policy.invalid_name(wanted.image, str(err))
            self._say(pod, wanted, WARNING, policy.INSPECT_FAILED, message)
            raise ImageError(Reason.INVALID_NAME, message) from None
        spec = pb.ImageSpec(
            image=name,
            user_specified_image=wanted.image,
            runtime_handler=handler,
            annotations=pod.metadata.annotations,
        )
        return _Ask(pod, wanted, spec, reference.parse(name).repository, sandbox)

    async def _decide(self, ask: _Ask, backoffs: dict[str, Backoff]) -> Ensured:
        wanted = ask.wanted
        chosen = policy.pull_policy(wanted.policy, wanted.image)
        # With Always the registry is asked anyhow: what is here makes no difference.
        image = None if chosen is PullPolicy.ALWAYS else await self._status(ask, ask.spec.image)
        mine = self._credentials.of_pod(ask.pod, ask.repository)
        allowed = image is not None and await self._allowed(ask, image, mine)
        step = policy.step(chosen, present=image is not None, allowed=allowed)
        if step is Step.REFUSE:
            raise self._refused(ask, present=image is not None)
        if step is Step.PULL or image is None:
            return await self._pull(ask, mine, backoffs)
        message = policy.already_present(wanted.image)
        self._say(ask.pod, wanted, NORMAL, policy.PULLED, message)
        return Ensured(image.id, image, pulled=False)

    async def _status(self, ask: _Ask, name: str) -> pb.Image | None:
        """Look for an image now: what was there before may have been removed since."""
        spec = pb.ImageSpec()
        spec.CopyFrom(ask.spec)
        spec.image = name
        try:
            answer = await self._client.image_status(spec)
        except CriError as err:
            message = policy.inspect_failed(ask.wanted.image, err.go_text)
            self._say(ask.pod, ask.wanted, WARNING, policy.INSPECT_FAILED, message)
            raise ImageError(Reason.INSPECT, message) from err
        return answer.image if answer.HasField("image") else None

    async def _allowed(self, ask: _Ask, image: pb.Image, mine: Found) -> bool:
        """Tell whether the pod may use what is there without asking the registry (I-30)."""
        if self._records is None or self._rules.mode is verify.Verification.NEVER:
            return True
        known = await asyncio.to_thread(self._records.known, ask.spec.image, image.id)
        found = verify.verdict(self._rules, known, ask.repository, mine.secrets)
        if found.learned is not None:
            learn = self._records.learn
            try:
                await asyncio.to_thread(learn, image.id, ask.repository, found.learned)
            except RecordError as err:
                log.error("Proof of a pull secret was not recorded", image=image.id, err=err)
        return found.allowed

    def _refused(self, ask: _Ask, *, present: bool) -> ImageError:
        message = (policy.not_accessible if present else policy.not_present)(ask.wanted.image)
        self._say(ask.pod, ask.wanted, WARNING, policy.NEVER_PULL, message)
        return ImageError(Reason.NEVER, message)

    async def _pull(self, ask: _Ask, mine: Found, backoffs: dict[str, Backoff]) -> Ensured:
        pod, wanted = ask.pod, ask.wanted
        key = backoff_key(wanted.image)
        self._check_backoff(ask, backoffs.get(key))
        self._say(pod, wanted, NORMAL, policy.PULLING, policy.pulling(wanted.image))
        asked = self._monotonic()
        node = await self._credentials.of_node(pod, ask.repository)
        candidates = (*mine.candidates, *node.candidates) or (Candidate(),)
        job = Job(pod.uid, ask.spec, ask.repository, candidates, ask.sandbox)
        end = await self._puller.pull(job)
        if isinstance(end, Failure):
            raise self._failed(ask, end, mine, node.notes, backoffs)
        backoffs.pop(key, None)
        self._succeeded(ask, end, self._monotonic() - asked)
        return Ensured(end.ref, end.image, pulled=True)

    def _check_backoff(self, ask: _Ask, entry: Backoff | None) -> None:
        """Refuse to pull too soon after a failure; the last one stays in view (P-93)."""
        if entry is None or not in_backoff(entry, self._clock()):
            return
        message = policy.backing_off(ask.wanted.image)
        self._say(ask.pod, ask.wanted, NORMAL, policy.BACKOFF, message)
        if entry.error:
            message = f"{message}: {entry.error}"
        raise ImageError(Reason.BACKOFF, message, entry.until_ns)

    def _succeeded(self, ask: _Ask, end: Pulled, whole_ns: int) -> None:
        message = policy.pulled(ask.wanted.image, end.took_ns, whole_ns, end.image.size)
        self._say(ask.pod, ask.wanted, NORMAL, policy.PULLED, message)

    def _failed(
        self,
        ask: _Ask,
        end: Failure,
        mine: Found,
        notes: tuple[str, ...],
        backoffs: dict[str, Backoff],
    ) -> ImageError:
        """Say what went wrong, and when it is tried again."""
        if end.reason is Reason.INSPECT:  # it was pulled: the next look may well find it
            self._say(ask.pod, ask.wanted, WARNING, policy.INSPECT_FAILED, end.message)
            return ImageError(end.reason, end.message)
        image = ask.wanted.image
        why = "; ".join((end.message, *mine.notes, *notes))
        self._say(ask.pod, ask.wanted, WARNING, policy.FAILED, policy.pull_failed(image, why))
        if mine.missing:
            text = policy.missing_secrets(mine.missing)
            self._emit(ask.pod, WARNING, policy.NO_SECRET, text, "")
        key = backoff_key(image)
        entry = next_delay(backoffs.get(key), self._clock(), BASE_NS, MAX_NS, RESET_NS)
        backoffs[key] = replace(entry, error=f"{end.reason}: {why}")
        return ImageError(end.reason, why, entry.until_ns)


def backoff_key(image: str) -> str:
    """Return the key of an image in a pod's back-offs."""
    return f"image:{image}"


def in_backoff(entry: Backoff, now_ns: int) -> bool:
    """Tell whether it is too soon; a clock that was set back does not make the wait longer."""
    return 0 < entry.until_ns - now_ns <= entry.delay_ns


def _rules(config: Effective) -> verify.Rules:
    mode = verify.Verification(config.str("imagePullCredentialsVerificationPolicy"))
    return verify.Rules(mode, tuple(config.get("preloadedImagesVerificationAllowlist")))


def _providers(
    config: Effective, monotonic: Callable[[], int]
) -> tuple[tuple[Provider, ...], tuple[str, ...]]:
    """Return the providers and what is wrong with them.

    A bad configuration costs the credentials, not the process: other images can still be pulled.
    """
    path = config.str(provider_config.CONFIG_FLAG)
    bin_dir = config.str(provider_config.BIN_FLAG)
    try:
        specs = provider_config.load(path, bin_dir)
    except provider_config.ProviderConfigError as err:
        for problem in err.problems:
            log.error("Credential providers cannot be used", err=problem)
        return (), err.problems
    return tuple(Provider(spec, bin_dir, monotonic) for spec in specs), ()
