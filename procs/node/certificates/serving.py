"""The certificate that this node's own servers show.

Three ways, of which the configuration chooses one: files that are given (tlsCertFile), a
certificate of the cluster (serverTLSBootstrap), or one that vouches for itself (N-40).

The servers run without root and cannot read the key. They ask for the pair with request
``serving-certificate`` when they start, and again when ``serving_expiry_ns`` under ``connection``
in table ``cluster`` is another: it changes with each new certificate.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final

from kubelet import durations
from kubelet import logging as klog
from kubelet.channels.errors import HandlerError
from kubelet.channels.messages import ServingCertificate, ServingPair
from kubelet.channels.server import Caller
from kubelet.config import Effective
from kubelet.process import Process
from procs.node.apiserver.types import ApiError, Json
from procs.node.certificates import csr, der, files
from procs.node.certificates.client import Subject, Tool, ToolError
from procs.node.certificates.rotation import renewal_ns, rest_seconds
from procs.node.certificates.signing import Signing, SigningError, pause, unless
from procs.node.certificates.store import SERVER, BadPairError, Pair, Store, load
from procs.node.kit import Kit
from procs.node.troubles import Troubles

log = klog.get_logger(__name__)

WHAT: Final = csr.SERVING.what
SELF_SIGNED_SECONDS: Final = 365 * 24 * 3600
_AUTHORITY: Final = "-ca@"  # in the issuer's name of what we signed ourselves
# A sleep is measured without the time that a machine is suspended; the wall clock may be set.
_LOOK_NS: Final = durations.HOUR
_RETRY_SECONDS: Final = 32.0
_DNS_KINDS: Final = ("InternalDNS", "ExternalDNS")
_IP_KINDS: Final = ("InternalIP", "ExternalIP")


class Way(Enum):
    """Where the serving certificate comes from."""

    FILES = "tlsCertFile"
    CLUSTER = "serverTLSBootstrap"
    SELF_SIGNED = "self-signed"


def way_of(config: Effective, *, connected: bool) -> Way:
    """Choose the way; without an API server nobody signs requests."""
    if config.bool("serverTLSBootstrap") and connected:
        return Way.CLUSTER
    return Way.FILES if config.str("tlsCertFile") else Way.SELF_SIGNED


def cluster_subject(node: str, document: Json | None, *, dns_only: bool = False) -> Subject | None:
    """Return whom the certificate is for, by the node's addresses (N-44); None if none is known."""
    dns: set[str] = set()
    ips: set[str] = set()
    status = (document or {}).get("status")
    addresses = status.get("addresses") if isinstance(status, dict) else None
    for one in addresses if isinstance(addresses, list) else []:
        if not isinstance(one, dict):
            continue
        kind, text = str(one.get("type")), str(one.get("address") or "")
        ip = _ip(text)
        if ip and kind in (*_IP_KINDS, "Hostname"):
            ips.add(ip)
        elif text and not ip and kind in (*_DNS_KINDS, "Hostname"):
            dns.add(text)
    if not ips and not (dns and dns_only):
        return None
    who = csr.node_subject(node)
    return Subject(who.common_name, who.organizations, tuple(sorted(dns)), tuple(sorted(ips)))


def own_subject(node: str, node_ip: str) -> Subject:
    """Return whom a certificate that vouches for itself is for: the name, and --node-ip (N-40)."""
    ips = [_ip(part.strip()) for part in node_ip.split(",")]
    known = {ip for ip in ips if ip and not ipaddress.ip_address(ip).is_unspecified}
    name = _ip(node)
    dns = () if name else (node,)
    return Subject(node, (), dns, tuple(sorted(known | {name} - {""})))


def covers(certificate: der.Certificate, subject: Subject) -> bool:
    """Tell whether a certificate is for all names and addresses of a subject."""
    return set(subject.dns) <= set(certificate.dns) and set(subject.ips) <= set(certificate.ips)


def due_ns(certificate: der.Certificate, subject: Subject) -> int:
    """Return when another certificate is to be asked for; 0: at once."""
    return renewal_ns(certificate) if covers(certificate, subject) else 0


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


class Serving:
    """Keeps the serving certificate; also without an API server, with ``kit`` None."""

    def __init__(
        self,
        process: Process,
        troubles: Troubles,
        tool: Tool,
        kit: Kit | None = None,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        config = process.config
        self._process = process
        self._troubles = troubles
        self._tool = tool
        self._wall = wall
        self._directory = os.path.abspath(config.flag("cert-dir"))
        self._given = (config.str("tlsCertFile"), config.str("tlsPrivateKeyFile"))
        self._own = tuple(os.path.join(self._directory, f"kubelet.{end}") for end in ("crt", "key"))
        self._way = way_of(config, connected=kit is not None)
        if config.bool("serverTLSBootstrap") and kit is None:
            log.warning("No API server for serverTLSBootstrap", instead=self._way.value)
        self._requested = Requested(kit, tool, wall) if kit and self._way is Way.CLUSTER else None

    def start(self) -> None:
        """Begin, and answer those who need the pair."""
        self._process.channels.handle(ServingCertificate, self.hand_over)
        work: Coroutine[Any, Any, None] = self._requested.run() if self._requested else self._run()
        self._process.spawn(work, name=WHAT)

    async def hand_over(self, _request: ServingCertificate, _caller: Caller) -> ServingPair:
        """Give the servers their certificate with its key."""
        try:
            pair = self._pair()
        except BadPairError as err:
            raise HandlerError(f"there is no serving certificate: {err}") from None
        return ServingPair(pair.chain, pair.key, pair.certificate.not_after_ns)

    def _pair(self) -> Pair:
        if self._requested is not None:
            found = self._requested.pair()
            if found is not None:
                return found
            if not all(self._given):
                raise BadPairError("the cluster has not signed one yet (serverTLSBootstrap)")
        return load(*(self._own if self._way is Way.SELF_SIGNED else self._given))

    async def _run(self) -> None:
        """Look after files that are given, or that are made here."""
        paths = self._own if self._way is Way.SELF_SIGNED else self._given
        changes = files.Changes(paths)
        try:
            while True:
                await changes.wait(await self._look())
        finally:
            changes.close()

    async def _look(self) -> float:
        """Look once; the seconds until the next look."""
        try:
            if self._way is Way.SELF_SIGNED:
                await self._ensure()
            pair = self._pair()
        except (BadPairError, ToolError, OSError) as err:
            self._troubles.tell(WHAT, err)
            return _RETRY_SECONDS
        end = pair.certificate.not_after_ns
        self._troubles.note(serving_expiry_ns=end)
        over = pair.certificate.expired(self._wall())
        self._troubles.tell(WHAT, f"{pair.path} has expired" if over else None)
        left = _LOOK_NS if over else min(end - self._wall(), _LOOK_NS)
        return max(left, durations.SECOND) / 1e9

    async def _ensure(self) -> None:
        """Make the pair that vouches for itself, if there is none, or ours has expired."""
        try:
            certificate = load(*self._own).certificate
        except BadPairError as err:
            problem = str(err)
        else:
            # One that somebody put there is his to renew.
            ours = _AUTHORITY in certificate.issuer
            if not (ours and certificate.expired(self._wall())):
                return
            problem = f"{self._own[0]} has expired"
        subject = own_subject(self._process.node, self._process.config.flag("node-ip"))
        signed = await self._tool.self_sign(subject, self._wall() // 10**9, SELF_SIGNED_SECONDS)
        os.makedirs(self._directory, 0o755, exist_ok=True)
        # The key first: a certificate without its key is seen as no pair, and made again.
        files.write(self._own[1], signed.key)
        files.write(self._own[0], signed.chain, 0o644)
        log.info("Serving certificate made", file=self._own[0], because=problem)


class Requested:
    """The serving certificate that the cluster signs."""

    def __init__(self, kit: Kit, tool: Tool, wall: Callable[[], int]) -> None:
        directory = os.path.abspath(kit.process.config.flag("cert-dir"))
        self._kit = kit
        self._wall = wall
        self._store = Store(directory, SERVER)
        self._signing = Signing(csr.SERVING, directory, tool, self._pending, wall)
        self._dns_only = kit.process.config.gate("AllowDNSOnlyNodeCSR")
        self._changed = asyncio.Event()
        self._asking: Subject | None = None
        self._failures = 0

    def pair(self) -> Pair | None:
        """Return the pair in use, even if it has expired; None if there is none."""
        return self._store.load(self._wall()).pair

    async def run(self) -> None:
        """Keep it fresh, and right for the node's addresses."""
        self._kit.view.on_heard(self._heard)
        while True:
            self._changed.clear()
            self._asking = self._subject()
            pair = self._look()
            await self._turn(pair, self._asking)

    def _heard(self) -> None:
        if self._asking is None or self._subject() != self._asking:
            self._changed.set()

    def _subject(self) -> Subject | None:
        view = self._kit.view
        return cluster_subject(view.name, view.document, dns_only=self._dns_only)

    def _look(self) -> Pair | None:
        found = self._store.load(self._wall())
        for problem in found.problems:
            log.warning("Serving certificate on disk", problem=problem)
        if found.pair is not None:
            self._kit.troubles.note(serving_expiry_ns=found.pair.certificate.not_after_ns)
        return found.pair

    async def _turn(self, pair: Pair | None, subject: Subject | None) -> None:
        now = self._wall()
        if subject is None:
            # Before the node's object was heard of, its addresses are only not known yet.
            if pair is None and self._kit.view.document is not None:
                message = "the node has no IP address that it could be asked for"
                self._kit.troubles.tell(WHAT, message)
            await self._sleep(_LOOK_NS)
            return
        due = due_ns(pair.certificate, subject) if pair else 0
        if now < due:
            self._kit.troubles.tell(WHAT, None)
            await self._sleep(due - now)
        else:
            await unless(self._changed.wait(), self._renew(pair, subject))

    async def _sleep(self, duration_ns: int) -> None:
        try:
            async with asyncio.timeout(max(durations.SECOND, min(duration_ns, _LOOK_NS)) / 1e9):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _renew(self, old: Pair | None, subject: Subject) -> None:
        """Try once; on failure, say why and let some time pass."""
        kit = self._kit
        used = old.key if old else ""
        try:
            signed = await self._signing.obtain(kit.api, kit.watch, subject, used=used)
            pair = self._store.save(signed.chain, signed.key, self._wall())
            self._signing.settled()
            _check(pair, subject)
        except (ApiError, SigningError, BadPairError, OSError) as err:
            self._failures += 1
            kit.process.row.count("serving_cert_renew_errors")  # N-47
            self._pending(str(err))
            await asyncio.sleep(pause(self._failures, err, kit.random))
            return
        self._failures = 0
        kit.troubles.tell(WHAT, None)
        kit.process.record("serving certificate signed", pair.path)
        log.info("Serving certificate signed", file=pair.path)
        await asyncio.sleep(rest_seconds(pair.certificate, self._wall()))

    def _pending(self, why: str) -> None:
        self._kit.troubles.tell(WHAT, f"it is not signed by the cluster yet: {why}")


def _check(pair: Pair, subject: Subject) -> None:
    """Refuse to be content with a certificate for less than was asked: soon asked for again."""
    if not covers(pair.certificate, subject):
        missing = {*subject.dns, *subject.ips} - {*pair.certificate.dns, *pair.certificate.ips}
        raise SigningError(f"it was signed without {', '.join(sorted(missing))}", refused=True)
