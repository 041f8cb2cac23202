"""Certificates of pods: a key, a request to a signer, and its answer, again and again (L-28).

The key is in the row from the moment that it is asked with, so a successor of a killed process goes
on waiting for the same request. Of a certificate that is only replaced, the old key is the one that
pods have: a successor then asks again, with another new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

from kubelet import logging as klog
from kubelet.cluster.names import possible
from kubelet.cluster.rows import CertificateRow
from procs.node.apiserver.types import ApiError, Json
from procs.node.certificates.client import Requested, Tool, ToolError
from procs.node.kit import Kit
from procs.node.objects import patience
from procs.node.objects import podcert_request as requests
from procs.node.objects.keeping import Rounds
from procs.node.objects.patience import Tries
from procs.node.objects.podcert_request import Outcome, Owner, Verdict
from procs.node.objects.references import CertificateReference
from procs.node.objects.served import POD_CERTIFICATES, Served
from procs.node.objects.store import Store

log = klog.get_logger(__name__)

NO_API: Final = (
    "podCertificate projection is not supported: the API server has no podcertificaterequests"
)
GATE: Final = "PodCertificateRequest"
GATE_OFF: Final = f"podCertificate projection is not supported: feature gate {GATE} is off"
OVERDUE_NS: Final = 600 * 10**9  # after which somebody is told that no new one comes
_OVERDUE: Final = "CertificateOverdueForRefresh"
_NS: Final = 10**9
_AT_ONCE: Final = 2  # keys that are made side by side: each takes a program, and some take seconds
_LONGEST_REST: Final = 86400.0
_REFUSED: Final = frozenset({Verdict.DENIED, Verdict.FAILED})


class Makes(Protocol):
    """Makes keys with their requests."""

    async def pod_request(self, key_type: str, key: str = "") -> Requested:
        """Make a request, of a new key or of the one given; ToolError."""


class KeyMaker:
    """Has keys made, a few at a time however many pods come together."""

    def __init__(self, tool: Makes | None = None) -> None:
        self._tool = tool or Tool()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def make(self, key_type: str, key: bytes) -> Requested:
        """Make a request, of a new key or of the one given; ToolError."""
        async with self._turns:
            try:
                return await self._tool.pod_request(key_type, key.decode())
            except ToolError as err:
                if not key:
                    raise
                log.warning("Key of a pod is of no use, another is made", err=err)
                return await self._tool.pod_request(key_type)


class PodCertificate:
    """Keeps the row of one pod's certificate."""

    lingers = False  # it is the pod's own

    def __init__(
        self,
        kit: Kit,
        store: Store,
        served: Served,
        maker: KeyMaker,
        reference: CertificateReference,
    ) -> None:
        self._kit = kit
        self._store = store
        self._served = served
        self._maker = maker
        self._reference = reference
        self._tries = Tries()
        self._told: set[str] = set()  # reasons of events about the certificate that there is
        self._rounds = Rounds(kit, f"certificate of pod {reference.pod_uid}", self._round)

    def start(self) -> None:
        """Ask for it, unless a predecessor's is still fresh."""
        if self._kit.process.config.gate(GATE):
            self._rounds.start()
        else:
            row = CertificateRow(self._reference.pod_uid, error=GATE_OFF)
            self._store.put(self._reference.key, row)

    def wanted(self) -> None:
        """Do nothing: no other pod has it."""

    def stop(self) -> None:
        """Ask for it no more."""
        self._rounds.stop()

    async def _round(self) -> float:
        row, now = self._row(), self._kit.wall()
        if row.fatal:
            return _LONGEST_REST
        if row.chain_pem and now < row.refresh_ns:
            return min((row.refresh_ns - now) / _NS, _LONGEST_REST)
        try:
            with self._alarms(row):
                return await self._obtain(row)
        except (ApiError, ToolError) as err:
            return self._failed(err)

    async def _obtain(self, row: CertificateRow) -> float:
        """Ask for a certificate, wait for the answer and write it down; how long to rest then."""
        version = await self._served.version(POD_CERTIFICATES)
        if not version:
            raise ApiError(NO_API, status=404)
        owner = await self._owner()
        pending = b"" if row.chain_pem else row.key_pem
        made = await self._maker.make(self._reference.key_type, pending)
        if not row.chain_pem:
            row = replace(row, key_pem=made.key.encode())
            self._store.put(self._reference.key, row)
        name = requests.name_of(made.digest)
        first = await self._create(version, name, owner, made)
        self._well()
        return self._settle(name, made, await self._answer(version, name, first))

    async def _owner(self) -> Owner:
        """Return who asks."""
        reference, view = self._reference, self._kit.view
        if not possible(reference.account):  # it must not become part of a request
            text = f'serviceaccounts "{reference.account}" not found'
            raise ApiError(text, status=404, reason="NotFound")
        if not view.uid:
            raise ApiError("this node has no object at the API server yet", status=503)
        path = f"/api/v1/namespaces/{reference.namespace}/serviceaccounts/{reference.account}"
        account = (await self._kit.api.get(path)).get("metadata")
        uid = account.get("uid") if isinstance(account, dict) else ""
        return Owner(self._kit.process.node, view.uid, str(uid or ""))

    async def _create(self, version: str, name: str, owner: Owner, made: Requested) -> Outcome:
        """Ask, or find that it was asked before."""
        reference = self._reference
        path = requests.path_of(reference, version)
        wish = requests.document(reference, owner, version, name, made.request)
        try:
            return requests.outcome(await self._kit.api.create(path, wish))
        except ApiError as err:
            if err.not_found and not err.details:  # not the pod: the path
                self._served.forget(POD_CERTIFICATES)
            if not err.already_exists:
                raise
        item = await self._kit.api.get(f"{path}/{name}")
        if not requests.is_mine(reference, item):
            raise ApiError(f"there is a request {name} of somebody else", status=409)
        return requests.outcome(item)

    async def _answer(self, version: str, name: str, first: Outcome) -> Outcome:
        """Wait until the signer has answered, for as long as it takes."""
        if first.verdict is not Verdict.PENDING:
            return first
        reference, node = self._reference, self._kit.process.node
        waiting = _Answer(name)
        what = requests.watched(reference, version, name, node)
        watching = self._kit.watch(what, waiting, self._watch_told)
        try:
            while True:
                found = await waiting.news()
                if found.verdict is not Verdict.PENDING:
                    return found
                # A list may come from a cache that is older than the request.
                await self._look(f"{requests.path_of(reference, version)}/{name}", waiting)
        finally:
            await watching.stop()

    async def _look(self, path: str, waiting: _Answer) -> None:
        """Ask after a request that was not in a list."""
        try:
            waiting.changed(await self._kit.api.get(path))
        except ApiError as err:
            if err.not_found:
                waiting.take(requests.GONE)

    def _watch_told(self, error: ApiError | None) -> None:
        """Take what is wrong with the watch, which goes on by itself; None: nothing."""
        if error is None:
            self._well()
        else:
            self._failed(error)

    def _well(self) -> None:
        """Take that nothing stands against the request, which is answered by and by."""
        row = self._row()
        if row.error and not row.fatal:
            self._store.put(self._reference.key, replace(row, error=""))

    def _settle(self, name: str, made: Requested, outcome: Outcome) -> float:
        reference, row = self._reference, self._row()
        if outcome.verdict is Verdict.ISSUED:
            self._tries = Tries()
            self._told.clear()
            due = requests.refresh_at(outcome.life, self._kit.random)
            fresh = CertificateRow(
                reference.pod_uid,
                made.key.encode(),
                outcome.chain,
                not_after_ns=outcome.life.not_after_ns,
                refresh_ns=due,
            )
            self._store.put(reference.key, fresh)
            return max((due - self._kit.wall()) / _NS, 1.0)
        if outcome.verdict in _REFUSED:  # what the pod has it keeps
            keyless = row if row.chain_pem else replace(row, key_pem=b"")
            self._store.put(reference.key, replace(keyless, error=outcome.error, fatal=True))
            text = f"PodCertificateRequest {reference.namespace}/{name} {outcome.event}"
            self._tell(outcome.verdict.value.capitalize(), text)
            return _LONGEST_REST
        if not row.chain_pem:  # that key has had its request
            self._store.put(reference.key, replace(row, key_pem=b""))
        error = outcome.error or f"PodCertificateRequest {name} was deleted before it was answered"
        raise ApiError(error, status=404)

    def _failed(self, err: ApiError | ToolError) -> float:
        """Keep what there is, or say why there is none."""
        clock = self._kit.clock()
        self._tries = self._tries.failed(clock)
        error = err if isinstance(err, ApiError) else ApiError(str(err), status=500)
        row = self._row()
        if not row.chain_pem and patience.counts(self._tries, error, clock):
            self._store.refused(self._reference.key, error)
            self._store.put(self._reference.key, replace(row, error=str(error)))
        return patience.delay(self._tries, error) * self._kit.random.uniform(1.0, 1.1)

    @contextmanager
    def _alarms(self, row: CertificateRow) -> Iterator[None]:
        """Tell of a certificate that should have been replaced, while that is tried."""
        if not row.chain_pem:
            yield
            return
        now, loop = self._kit.wall(), asyncio.get_running_loop()
        alarms = [
            loop.call_later(max(at_ns - now, 0) / _NS, self._tell_once, reason, text)
            for at_ns, reason, text in (
                (row.refresh_ns + OVERDUE_NS, _OVERDUE, "PodCertificate refresh overdue"),
                (row.not_after_ns, "CertificateExpired", "PodCertificate expired"),
            )
        ]
        try:
            yield
        finally:
            for alarm in alarms:
                alarm.cancel()

    def _tell_once(self, reason: str, text: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            self._tell(reason, text)

    def _tell(self, reason: str, text: str) -> None:
        self._kit.emit(requests.pod_of(self._reference), "Warning", reason, text)

    def _row(self) -> CertificateRow:
        found = self._store.certificate(self._reference.key)
        return found or CertificateRow(self._reference.pod_uid)


class _Answer:
    """Waits for one request to be answered; a Watcher."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._outcome = requests.PENDING
        self._event = asyncio.Event()

    async def news(self) -> Outcome:
        """Wait for an answer; PENDING if the request was not in a list and may be gone."""
        await self._event.wait()
        self._event.clear()
        return self._outcome

    def listed(self, items: list[Json], version: str) -> None:
        """Take what there is."""
        del version
        for item in items:
            self.changed(item)
        if not items:
            self._event.set()

    def changed(self, item: Json) -> None:
        """Take its state."""
        if _name(item) == self._name:
            self.take(requests.outcome(item))

    def deleted(self, item: Json) -> None:
        """Take that it is gone."""
        if _name(item) == self._name:
            self.take(requests.GONE)

    def take(self, outcome: Outcome) -> None:
        """Take what became of it."""
        self._outcome = outcome
        if outcome.verdict is not Verdict.PENDING:
            self._event.set()


def _name(item: Json) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
