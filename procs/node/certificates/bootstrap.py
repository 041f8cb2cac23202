"""The first credential: from a bootstrap token to a certificate and a kubeconfig (N-41).

A kubeconfig that works wins. Otherwise the bootstrap kubeconfig is used to ask for a client
certificate, and a kubeconfig that points to it is written. Files that are not there yet are waited
for: kubeadm writes them after the kubelet was started (K-7). A kill at any point is harmless: the
key is on the disk before the request is made, and removed after the kubeconfig is written.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from kubelet import logging as klog
from kubelet.process import Process
from procs.node.apiserver.kubeconfig import KubeconfigError
from procs.node.apiserver.types import Api, ApiError, Endpoint
from procs.node.certificates import csr, der, files, kubeconfig
from procs.node.certificates.client import Tool
from procs.node.certificates.signing import Signing, SigningError, pause, unless
from procs.node.certificates.store import BadPairError, Pair, Store, key_of
from procs.node.kit import Watch
from procs.node.troubles import Troubles

log = klog.get_logger(__name__)

WAIT_SECONDS: Final = 3600.0  # N-41: for an approval
# Files behind links or on network file systems change without a word, and so does the wall clock.
LOOK_SECONDS: Final = 30.0
WHAT: Final = "bootstrap"
DISK: Final = "certificates on disk"

# Reads a kubeconfig; KubeconfigError if that cannot be done.
ReadEndpoint = Callable[[str], Awaitable[Endpoint]]
# Opens the API server as a kubeconfig says, for as long as the block lasts.
OpenApi = Callable[[str], AbstractAsyncContextManager[tuple[Api, Watch]]]


class State(Enum):
    """What a kubeconfig is worth."""

    ABSENT = "is not there"
    BROKEN = "cannot be used"
    WEAK = "has no credentials that are good for now"
    GOOD = "is good"


class Step(Enum):
    """What to do about the two kubeconfigs."""

    USE = "use"
    BOOTSTRAP = "bootstrap"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Seen:
    """A kubeconfig as it was found; the text says what is wrong with it."""

    state: State
    text: str = ""
    endpoint: Endpoint | None = None


def decide(kubeconfig: State, bootstrap: State) -> Step:
    """Choose between the kubeconfig and the one for the bootstrap (N-41).

    Without the latter, a kubeconfig whose certificate is over by our clock is used all the same:
    it is the server's clock that counts, and the server will say so.
    """
    if kubeconfig is State.GOOD:
        return Step.USE
    if bootstrap in (State.GOOD, State.WEAK):
        return Step.BOOTSTRAP
    return Step.USE if kubeconfig is State.WEAK else Step.WAIT


def judge(endpoint: Endpoint, wall_ns: int) -> Seen:
    """Tell what the credentials of a kubeconfig are worth."""
    if _has_certificate(endpoint):
        try:
            certificate = der.leaf(_certificate_text(endpoint))
        except (OSError, ValueError) as err:
            return Seen(State.BROKEN, f"its client certificate cannot be read: {err}", endpoint)
        if certificate.expired(wall_ns):
            return Seen(State.WEAK, "its client certificate has expired", endpoint)
        return Seen(State.GOOD, "", endpoint)
    others = (endpoint.token, endpoint.token_file, endpoint.exec_command, endpoint.username)
    if any(others):
        return Seen(State.GOOD, "", endpoint)
    return Seen(State.WEAK, "it has no credentials", endpoint)


def _certificate_text(endpoint: Endpoint) -> str:
    if not endpoint.client_cert_file:
        return endpoint.client_cert_pem
    text = files.read(endpoint.client_cert_file)
    if text is None:
        raise FileNotFoundError(f"{endpoint.client_cert_file} is not there")
    return text


def with_stored(endpoint: Endpoint, store: Store, wall_ns: int) -> Endpoint:
    """Return the endpoint with the certificate of the store, if that is good and not the older.

    For rotation: kubeadm writes the first certificate into the kubeconfig itself, where no
    renewal can replace it. A kubeconfig of a new cluster has a newer one than an old store.
    """
    if not _has_certificate(endpoint):
        return endpoint
    pair = store.load(wall_ns).pair
    if pair is None or pair.certificate.expired(wall_ns):
        return endpoint
    try:
        own = der.leaf(_certificate_text(endpoint))
    except (OSError, ValueError):
        return _stored(endpoint, store, pair)
    newer = own.not_before_ns > pair.certificate.not_before_ns and not own.expired(wall_ns)
    return endpoint if newer else _stored(endpoint, store, pair)


def _has_certificate(endpoint: Endpoint) -> bool:
    return bool(endpoint.client_cert_pem or endpoint.client_cert_file)


def _stored(endpoint: Endpoint, store: Store, pair: Pair) -> Endpoint:
    return replace(
        endpoint,
        client_cert_pem=pair.chain,
        client_key_pem=pair.key,
        client_cert_file=store.current,
        client_key_file=store.current,
    )


class Bootstrap:
    """Waits until there is a kubeconfig that works, and makes one if it can."""

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        process: Process,
        troubles: Troubles,
        *,
        tool: Tool,
        store: Store,
        read_endpoint: ReadEndpoint,
        open_api: OpenApi,
        wall: Callable[[], int] = time.time_ns,
        chance: random.Random | None = None,
        seconds: float = WAIT_SECONDS,
    ) -> None:
        config = process.config
        self._process = process
        self._troubles = troubles
        self._kubeconfig = config.flag("kubeconfig")
        self._bootstrap = config.flag("bootstrap-kubeconfig")
        self._rotates = config.bool("rotateCertificates")
        self._store = store
        self._read_endpoint = read_endpoint
        self._open_api = open_api
        self._wall = wall
        self._random = chance or random.Random()  # noqa: S311 - spreads retries
        self._seconds = seconds
        self._signing = Signing(csr.BOOTSTRAP, store.directory, tool, self._pending, wall)
        self._failures = 0

    async def run(self) -> Endpoint:
        """Return how to reach the API server, once that is known."""
        changes = files.Changes((self._kubeconfig, self._bootstrap))
        try:
            while True:
                own, first = await self._look(self._kubeconfig), Seen(State.ABSENT)
                if own.state is not State.GOOD:
                    first = await self._look(self._bootstrap)
                step = decide(own.state, first.state)
                if step is Step.USE:
                    assert own.endpoint is not None
                    self._troubles.tell(WHAT, None)
                    self._settle(own)
                    return self._adopted(own.endpoint)
                await self._make(step, own, first, changes)
        finally:
            changes.close()

    def _settle(self, seen: Seen) -> None:
        pair = self._store.load(self._wall()).pair
        if pair is not None:
            self._signing.forget(pair.key)
        if seen.state is State.WEAK:
            log.warning("Kubeconfig is used as it is", file=self._kubeconfig, problem=seen.text)

    def _adopted(self, endpoint: Endpoint) -> Endpoint:
        """Keep the kubeconfig's own pair where renewals go, as kubeadm expects after an init."""
        if not self._rotates or not _has_certificate(endpoint):
            return endpoint
        if endpoint.client_cert_file == self._store.current:
            return endpoint
        try:
            # Both texts may be those of one file, with certificate and key.
            chain, key = der.chain(endpoint.client_cert_pem), key_of(endpoint.client_key_pem)
            pair = self._store.save(chain, key, self._wall())
        except (BadPairError, OSError) as err:
            message = f"the client certificate cannot be kept in {self._store.directory}: {err}"
            self._troubles.tell(DISK, message)
            return endpoint
        log.info("Client certificate of the kubeconfig is kept", file=pair.path)
        self._troubles.tell(DISK, None)
        return _stored(endpoint, self._store, pair)

    async def _look(self, path: str) -> Seen:
        if not path or not _is_there(path):
            return Seen(State.ABSENT)
        # A pair that a kubeconfig refers to is mended, if need be, before it is judged.
        for problem in self._store.load(self._wall()).problems:
            log.warning("Client certificate on disk", problem=problem)
        try:
            endpoint = await self._read_endpoint(path)
        except KubeconfigError as err:
            return Seen(State.BROKEN, str(err))
        if path == self._kubeconfig and self._rotates:
            endpoint = with_stored(endpoint, self._store, self._wall())
        return judge(endpoint, self._wall())

    async def _make(self, step: Step, own: Seen, first: Seen, changes: files.Changes) -> None:
        if step is Step.WAIT or not self._kubeconfig:
            missing = self._missing(own, first)
            self._troubles.tell(WHAT, missing)
            if self._troubles.row.connected:  # by a predecessor, with what was there then
                self._troubles.connected(missing)
            await changes.wait(LOOK_SECONDS)
            return
        assert first.endpoint is not None
        why = own.text or own.state.value
        log.info("Asking for a client certificate", kubeconfig=self._kubeconfig, because=why)
        await unless(_changed(changes), self._round(first.endpoint))

    def _missing(self, own: Seen, first: Seen) -> str:
        """Say what is wrong with the files, each by its name and reason."""
        if not self._kubeconfig:
            return "--bootstrap-kubeconfig is given without --kubeconfig, which is to be written"
        parts = [f"{self._kubeconfig} {own.state.value}{own.text and ': ' + own.text}"]
        if self._bootstrap:
            parts.append(f"{self._bootstrap} {first.state.value}{first.text and ': ' + first.text}")
        else:
            parts.append("there is no --bootstrap-kubeconfig")
        return "; ".join(parts)

    async def _round(self, endpoint: Endpoint) -> None:
        """Try once; on failure, say why and let some time pass."""
        try:
            await self._join(endpoint)
        except (ApiError, KubeconfigError, SigningError, BadPairError, OSError) as err:
            self._failures += 1
            self._pending(str(err))
            await asyncio.sleep(pause(self._failures, err, self._random))
        else:
            self._failures = 0

    async def _join(self, endpoint: Endpoint) -> None:
        subject = csr.node_subject(self._process.node)
        with self._process.doing("bootstrap"):
            async with self._open_api(self._bootstrap) as (api, watch):
                signed = await self._signing.obtain(api, watch, subject, seconds=self._seconds)
        pair = self._store.save(signed.chain, signed.key, self._wall())
        self._write(endpoint)
        self._signing.settled()
        self._process.record("bootstrapped", f"certificate in {pair.path}")
        log.info("Joined the cluster", server=endpoint.server, kubeconfig=self._kubeconfig)

    def _write(self, endpoint: Endpoint) -> None:
        path = os.path.abspath(self._kubeconfig)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.write(path, kubeconfig.text_for(endpoint, self._store.current))

    def _pending(self, why: str) -> None:
        self._troubles.tell(WHAT, f"no client certificate yet: {why}")


def _is_there(path: str) -> bool:
    return os.path.exists(path)


async def _changed(changes: files.Changes) -> None:
    while not await changes.wait(LOOK_SECONDS):
        pass
