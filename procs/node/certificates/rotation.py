"""The client certificate while it is in use: when it ends, and its renewal in time (N-44, N-45)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kubelet import durations
from kubelet import logging as klog
from kubelet.process.process import RestartWantedError
from procs.node.apiserver.types import ApiError, Endpoint
from procs.node.certificates import csr, der, files
from procs.node.certificates.bootstrap import DISK
from procs.node.certificates.client import Tool
from procs.node.certificates.signing import Signing, SigningError, pause
from procs.node.certificates.store import BadPairError, Pair, Store
from procs.node.kit import Kit

log = klog.get_logger(__name__)

WHAT: Final = csr.CLIENT.what
_EARLIEST: Final = 0.7  # of its life: renewed between this
_SPREAD: Final = 0.2  # and so much later
DEAD_NS: Final = 5 * durations.MINUTE  # T-18: expired so long, with no renewal
# A sleep is measured without the time that a machine is suspended; the wall clock may be set.
_LOOK_NS: Final = durations.HOUR
_LEAST_NS: Final = durations.SECOND


def renewal_ns(certificate: der.Certificate) -> int:
    """Return when to renew a certificate: at 70 to 90 % of its life (N-44).

    The place between comes from the certificate itself: as good as chance over many nodes, and
    the same after each restart.
    """
    share = _EARLIEST + _SPREAD * int(certificate.digest[:8], 16) / (1 << 32)
    life = certificate.not_after_ns - certificate.not_before_ns
    return certificate.not_before_ns + int(life * share)


def rest_seconds(certificate: der.Certificate, wall_ns: int) -> float:
    """Return how long to leave a new certificate alone, though it should be renewed at once.

    A signer may give it a short life that began in the past; the next would be no better.
    """
    if wall_ns < renewal_ns(certificate):
        return 0.0
    return max(2.0, (certificate.not_after_ns - wall_ns) / 2e9)


class Step(Enum):
    """What is to be done about a certificate."""

    WAIT = "wait"
    RENEW = "renew"
    SAY_EXPIRED = "say that it has expired"
    BEGIN_AGAIN = "begin again with the bootstrap kubeconfig"


@dataclass(frozen=True, slots=True)
class Situation:
    """What the decision depends on."""

    certificate: der.Certificate
    rotates: bool  # renewals are wanted
    bootstrap: bool = False  # there is a bootstrap kubeconfig to go back to
    rejected: bool = False  # the API server knows us no more: it is not only our clock that says so
    since_ns: int = 0  # wall clock: when this process began to look after it


def decide(situation: Situation, wall_ns: int) -> tuple[Step, int]:
    """Return what is to be done now, and when to look again (wall clock)."""
    certificate = situation.certificate
    expired = certificate.expired(wall_ns)
    if not situation.rotates:
        return (Step.SAY_EXPIRED if expired else Step.WAIT), certificate.not_after_ns
    # N-45; counted in this life, so that a bootstrap that leads nowhere is not a quick circle.
    dead_ns = max(certificate.not_after_ns, situation.since_ns) + DEAD_NS
    if situation.bootstrap and situation.rejected and wall_ns >= dead_ns:
        return Step.BEGIN_AGAIN, wall_ns
    due = renewal_ns(certificate)
    return (Step.RENEW, wall_ns) if wall_ns >= due else (Step.WAIT, due)


class ClientRotation:
    """Keeps the client certificate fresh; without rotateCertificates it only says when it ends."""

    def __init__(
        self,
        kit: Kit,
        *,
        tool: Tool,
        store: Store,
        endpoint: Endpoint,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        config = kit.process.config
        self._kit = kit
        self._store = store
        self._endpoint = endpoint
        self._renewed = renewed
        self._rotates = config.bool("rotateCertificates")
        self._bootstrap = config.flag("bootstrap-kubeconfig")
        self._signing = Signing(csr.CLIENT, store.directory, tool, self._pending, kit.wall)
        self._expired = False
        self._failures = 0
        self._rejected = False
        self._since_ns = kit.wall()

    def start(self) -> None:
        """Begin, if there is a client certificate at all."""
        has_one = self._endpoint.client_cert_pem or self._endpoint.client_cert_file
        if not has_one:
            self._kit.troubles.note(client_expiry_ns=0)
            if self._rotates:
                log.info("No client certificate in the kubeconfig, so none is renewed")
            return
        self._kit.process.spawn(self._run(), name=WHAT)

    async def _run(self) -> None:
        changes = files.Changes((self._path(),))
        try:
            while True:
                await self._turn(changes)
        finally:
            changes.close()

    async def _turn(self, changes: files.Changes) -> None:
        certificate = self._certificate()
        if certificate is None:  # said already; somebody must put it right
            await changes.wait(_LOOK_NS / 1e9)
            return
        now = self._kit.wall()
        step, again = decide(self._situation(certificate), now)
        match step:
            case Step.BEGIN_AGAIN:
                raise RestartWantedError(
                    "the client certificate expired and was not renewed: back to the bootstrap"
                )
            case Step.RENEW:
                await self._renew(certificate)
                return
            case Step.SAY_EXPIRED:
                self._kit.troubles.tell(WHAT, "it has expired, and rotateCertificates is off")
                again = now + _LOOK_NS
            case Step.WAIT:
                self._kit.troubles.tell(WHAT, None)
        await changes.wait(max(_LEAST_NS, min(again - now, _LOOK_NS)) / 1e9)

    def _situation(self, certificate: der.Certificate) -> Situation:
        bootstrap = bool(self._bootstrap) and os.path.exists(self._bootstrap)
        return Situation(certificate, self._rotates, bootstrap, self._rejected, self._since_ns)

    def _path(self) -> str:
        return self._store.current if self._rotates else self._endpoint.client_cert_file

    def _certificate(self) -> der.Certificate | None:
        """Return the certificate in use, and note when it ends."""
        path = self._path()
        try:
            text = (files.read(path) if path else None) or self._endpoint.client_cert_pem
            certificate = der.leaf(text)
        except (OSError, ValueError) as err:
            self._kit.troubles.tell(WHAT, f"{path} cannot be read: {err}")
            return None
        self._kit.troubles.note(client_expiry_ns=certificate.not_after_ns)
        return certificate

    async def _renew(self, certificate: der.Certificate) -> None:
        """Try once; on failure, say why and let some time pass."""
        try:
            pair = await self._ask()
        except (ApiError, SigningError, BadPairError, OSError) as err:
            self._failures += 1
            self._rejected = isinstance(err, ApiError) and err.unauthorized
            self._kit.process.row.count("client_certificate_renew_errors")  # N-47
            self._expired = certificate.expired(self._kit.wall())
            self._pending(str(err))
            await asyncio.sleep(pause(self._failures, err, self._kit.random))
            return
        self._failures, self._rejected = 0, False
        for what in (WHAT, DISK):
            self._kit.troubles.tell(what, None)
        self._kit.process.record("client certificate renewed", pair.path)
        log.info("Client certificate renewed", file=pair.path)
        self._renewed()
        await asyncio.sleep(rest_seconds(pair.certificate, self._kit.wall()))

    def _pending(self, why: str) -> None:
        how = "it has expired and is not renewed" if self._expired else "it is not renewed yet"
        self._kit.troubles.tell(WHAT, f"{how}: {why}")

    async def _ask(self) -> Pair:
        kit = self._kit
        found = self._store.load(kit.wall()).pair
        signed = await self._signing.obtain(
            kit.api,
            kit.watch,
            csr.node_subject(kit.process.node),
            used=found.key if found else "",
        )
        pair = self._store.save(signed.chain, signed.key, kit.wall())
        self._signing.settled()
        return pair
