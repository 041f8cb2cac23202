"""Credential providers: programs that know how to log in at a registry (I-26)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubelet import durations, programs
from kubelet import logging as klog
from procs.syncloop.images import provider_api
from procs.syncloop.images.keyring import DockerConfig, matches
from procs.syncloop.images.limiter import Flights
from procs.syncloop.images.provider_api import Answer, CacheKey, ProviderError
from procs.syncloop.images.provider_config import ProviderSpec

log = klog.get_logger(__name__)

TIMEOUT_SECONDS: Final = 60.0
PURGE_NS: Final = 15 * durations.MINUTE


@dataclass(slots=True)
class AnswerCache:
    """Answers for as long as they are good."""

    clock: Callable[[], int]  # monotonic
    _entries: dict[tuple[CacheKey, str], tuple[int, DockerConfig]] = field(default_factory=dict)
    _purged_ns: int = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, image: str) -> DockerConfig | None:
        """Return what is known for an image, the most special answer first."""
        now = self.clock()
        self._purge(now)
        for key in CacheKey:
            until, config = self._entries.get(_slot(key, image), (0, None))
            if config is not None and now < until:
                return config
        return None

    def put(self, image: str, answer: Answer, default_ns: int) -> None:
        """Keep an answer; one that is good for no time is not kept."""
        keep = default_ns if answer.keep_ns is None else answer.keep_ns
        if keep > 0:
            self._entries[_slot(answer.key, image)] = (self.clock() + keep, answer.config)

    def _purge(self, now: int) -> None:
        """Drop what has expired, now and then: credentials are not to lie about."""
        if now - self._purged_ns < PURGE_NS:
            return
        self._purged_ns = now
        self._entries = {k: entry for k, entry in self._entries.items() if now < entry[0]}


def _slot(key: CacheKey, image: str) -> tuple[CacheKey, str]:
    if key is CacheKey.IMAGE:
        return key, image
    return key, image.partition("/")[0] if key is CacheKey.REGISTRY else ""


class Provider:
    """One configured provider."""

    def __init__(
        self,
        spec: ProviderSpec,
        bin_dir: str,
        clock: Callable[[], int] = time.monotonic_ns,
        environ: Mapping[str, str] = os.environ,
        seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._command = (os.path.join(bin_dir, spec.name), *spec.args)
        self._environment = {**environ, **{one.name: one.value for one in spec.env}}
        self._seconds = seconds
        self._cache = AnswerCache(clock)
        self._flights: Flights[DockerConfig] = Flights()

    def serves(self, image: str) -> bool:
        """Tell whether it is configured for an image, given without tag and digest."""
        return any(matches(pattern, image) for pattern in self._spec.match_images)

    async def credentials(self, image: str, service_account: str = "") -> DockerConfig:
        """Return the credentials for an image; ProviderError when there are none to be had."""
        self._check_token(service_account)
        known = self._cache.get(image)
        if known is not None:
            return known
        return await self._flights.run(image, lambda: self._ask(image))

    def _check_token(self, service_account: str) -> None:
        """Refuse what needs a token, which only an API server issues.

        A pod without a service account is served without one where the configuration allows it.
        """
        wanted = self._spec.token_attributes
        if wanted is None or not (service_account or wanted.require_service_account):
            return
        raise ProviderError(
            "it is configured with tokenAttributes and needs a service account token,"
            " which this node has no API server to get from"
        )

    async def _ask(self, image: str) -> DockerConfig:
        version = self._spec.api_version
        request = provider_api.request(version, image)
        try:
            data = await programs.run(self._command, request, self._environment, self._seconds)
        except programs.ProgramError as err:
            if err.complaint:
                log.warning("Credential provider complains", provider=self.name, text=err.complaint)
            raise ProviderError(f"{self._command[0]}: {err}") from None
        answer = provider_api.answer(version, data)
        self._cache.put(image, answer, self._spec.default_cache_ns)
        return answer.config
