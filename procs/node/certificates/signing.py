"""Having a certificate signed by the cluster: one request, its wait, its result.

The key lies in a file while the request is open, and the request's name comes from the key: a
successor of a killed process asks for the same thing and goes on waiting for the same answer. So
does a round after one whose time was over: a request may be approved whenever somebody comes to it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kubelet import logging as klog
from procs.node.apiserver.types import Api, ApiError, Json, Watched
from procs.node.certificates import csr, der, files
from procs.node.certificates.client import Requested, Signed, Subject, Tool, ToolError
from procs.node.certificates.csr import Outcome, Purpose, Verdict
from procs.node.kit import Watch

log = klog.get_logger(__name__)

ROUND_SECONDS: Final = 15 * 60.0  # T-18: for an approval
PATIENCE_SECONDS: Final = 10.0  # after which somebody is told that an approval is missing
_FIRST: Final = 2.0  # N-44: 2 s, doubled up to 32 s
_LAST: Final = 32.0
_LAST_REFUSED: Final = 900.0  # whoever said no is not asked every half minute
_JITTER: Final = 0.1


class SigningError(Exception):
    """There is no certificate yet; ``refused``: asking the same again soon helps nobody."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


def pause(failures: int, error: Exception, chance: random.Random) -> float:
    """Return how long to wait after so many failures in a row (N-44), at least one."""
    refused = isinstance(error, SigningError) and error.refused
    seconds = min(_FIRST * 2.0 ** min(failures - 1, 16), _LAST_REFUSED if refused else _LAST)
    asked = error.retry_after if isinstance(error, ApiError) else None
    return max(seconds * (1 + _JITTER * chance.random()), asked or 0.0)


async def unless(change: Coroutine[Any, Any, object], work: Coroutine[Any, Any, None]) -> None:
    """Work until that is done, or until something changes: then what is under way is cancelled."""
    doing, changing = asyncio.create_task(work), asyncio.create_task(change)
    try:
        await asyncio.wait({doing, changing}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await doing
    finally:
        for task in (doing, changing):
            task.cancel()
        await asyncio.gather(doing, changing, return_exceptions=True)


class Signing:
    """Certificates of one purpose, one after the other."""

    def __init__(
        self,
        purpose: Purpose,
        directory: str,
        tool: Tool,
        pending: Callable[[str], None],
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._purpose = purpose
        self._directory = directory
        self._key_file = os.path.join(directory, purpose.key_file)
        self._tool = tool
        self._pending = pending  # is told why there is still no answer
        self._wall = wall

    async def obtain(
        self,
        api: Api,
        watch: Watch,
        subject: Subject,
        *,
        seconds: float = ROUND_SECONDS,
        used: str = "",
    ) -> Signed:
        """Ask for a certificate and wait for it; SigningError or ApiError if there is none.

        ``used`` is a key that has its certificate already. Call ``settled`` once the pair is safe.
        """
        try:
            made = await self._request(subject, used)
        except (ToolError, OSError) as err:
            raise SigningError(str(err)) from None
        name = csr.name_of(self._purpose, subject, made.digest)
        outcome = await self._create(api, name, made)
        if outcome.verdict in (Verdict.PENDING, Verdict.APPROVED):
            log.info("Waiting for a certificate", what=self._purpose.what, csr=name)
            outcome = await self._await(api, watch, name, outcome, seconds)
        return self._settle(name, made, outcome)

    def settled(self) -> None:
        """Forget the key: its certificate is kept elsewhere now."""
        files.remove(self._key_file)

    def forget(self, used: str) -> None:
        """Remove the key if it has its certificate already: a predecessor had no time for that."""
        if used and self._key().strip() == used.strip():
            self.settled()

    def _key(self) -> str:
        try:
            return files.read(self._key_file) or ""
        except (OSError, ValueError):
            return ""

    async def _request(self, subject: Subject, used: str) -> Requested:
        self.forget(used)
        key = self._key()
        try:
            made = await self._tool.request(subject, key)
        except ToolError as err:
            if not key:
                raise
            log.warning("Key is of no use, another is made", file=self._key_file, err=err)
            key = ""
            made = await self._tool.request(subject)
        if not key:
            os.makedirs(self._directory, 0o755, exist_ok=True)
            files.write(self._key_file, made.key)
        return made

    async def _create(self, api: Api, name: str, made: Requested) -> Outcome:
        """Ask, or find that it was asked before."""
        try:
            item = await api.create(csr.PATH, csr.document(self._purpose, name, made.request))
            log.info("Asked for a certificate", what=self._purpose.what, csr=name)
        except ApiError as err:
            if not err.conflict:
                raise
            item = await api.get(f"{csr.PATH}/{name}")
            if csr.signer_of(item) != self._purpose.signer:
                self.settled()
                message = f"there is a request {name} of somebody else"
                raise SigningError(message, refused=True) from None
        return csr.outcome(item)

    async def _await(
        self, api: Api, watch: Watch, name: str, before: Outcome, seconds: float
    ) -> Outcome:
        approval = _Approval(name, before)
        watched = Watched(csr.PATH, fields=f"metadata.name={name}", name="our certificate request")

        def heard(error: ApiError | None) -> None:
            if error is not None:
                self._pending(f"waiting for request {name}: {error}")

        def impatient() -> None:
            self._pending(approval.plea)

        later = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, impatient)
        watching = watch(watched, approval, heard)
        try:
            async with asyncio.timeout(seconds):
                while not await approval.settled():
                    await approval.look(api)
                return approval.outcome
        except TimeoutError:
            raise SigningError(approval.plea) from None
        finally:
            later.cancel()
            await watching.stop()

    def _settle(self, name: str, made: Requested, outcome: Outcome) -> Signed:
        if outcome.verdict is Verdict.ISSUED:
            problem = self._problem(outcome.chain)
            if not problem:
                return Signed(outcome.chain, made.key)
        else:
            problem = f"{outcome.verdict.value}{f': {outcome.text}' if outcome.text else ''}"
        if outcome.verdict is Verdict.GONE:  # it may be asked for again, with the same key
            raise SigningError(f"request {name} {problem}")
        self.settled()
        raise SigningError(f"request {name} {problem}", refused=True)

    def _problem(self, chain: str) -> str:
        try:
            certificate = der.leaf(chain)
        except der.BadCertificateError as err:
            return f"was answered with something else than a certificate: {err}"
        if certificate.expired(self._wall()):
            return "was answered with a certificate that is over already by this node's clock"
        return ""


class _Approval:
    """Waits for one request to be decided; a Watcher."""

    def __init__(self, name: str, outcome: Outcome) -> None:
        self._name = name
        self.outcome = outcome
        self._event = asyncio.Event()

    @property
    def plea(self) -> str:
        """What somebody should do for it."""
        if self.outcome.verdict is Verdict.APPROVED:
            hint = "does the controller manager sign requests?"
        else:
            hint = f"kubectl certificate approve {self._name}"
        return f"request {self._name} {self.outcome.verdict.value} ({hint})"

    async def settled(self) -> bool:
        """Wait for news; False if the request was not in a list and may be gone."""
        await self._event.wait()
        self._event.clear()
        return self.outcome.verdict not in (Verdict.PENDING, Verdict.APPROVED)

    async def look(self, api: Api) -> None:
        """Ask after it; a list from a cache may be older than the request."""
        try:
            self.changed(await api.get(f"{csr.PATH}/{self._name}"))
        except ApiError as err:
            if err.not_found:
                self._take(Outcome(Verdict.GONE))

    def listed(self, items: list[Json], _version: str) -> None:
        """Take what there is."""
        for item in items:
            self.changed(item)
        if not items:
            self._event.set()

    def changed(self, item: Json) -> None:
        """Take its state."""
        if _name(item) == self._name:
            self._take(csr.outcome(item))

    def deleted(self, item: Json) -> None:
        """Take that it is gone."""
        if _name(item) == self._name:
            self._take(Outcome(Verdict.GONE))

    def _take(self, outcome: Outcome) -> None:
        self.outcome = outcome
        if outcome.verdict not in (Verdict.PENDING, Verdict.APPROVED):
            self._event.set()


def _name(item: Json) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
