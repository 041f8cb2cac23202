"""The pod status cache as its readers use it: what a pod is, and as of when.

The rule
    Everything in table ``runtime`` was seen at or after its stamp, and a stamp is the moment at
    which the look *began*. A pod's entry carries the stamp of the last look that found it changed
    or that somebody asked for. The entry ``runtime`` carries the stamp of the last full look,
    which speaks for every pod, for those that are not in the table as well, but not for those
    that its record names as unseen. So a pod was seen at the newer of the two stamps, and one
    without an entry was gone at the stamp of the full look.

    The entry ``runtime`` is read first. The other way round, a full look between the two reads
    would give its stamp to the pod as it was before.

    When a look at one pod finds nothing of it, that is news before the next full look: an empty
    record stands in its place until a newer full look speaks for it. Readers get None for it too.

    A table that cannot be read, or is new, says nothing: its stamp is 0, older than any action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kubelet import logging as klog
from kubelet.channels.messages import Relist, Relisted
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.runtime import RUNTIME_KEY, TABLE, BadRecordError, PodRecord, RuntimeRecord
from kubelet.process import Process
from shm.codec import DecodeError, unpack
from shm.table import Entry

log = klog.get_logger(__name__)

PLEG: Final = "pleg"
Get = Callable[[str], Entry | None]


class Seen(NamedTuple):
    """A pod as of a moment; no record: the runtime has nothing of it."""

    record: PodRecord | None
    stamp_ns: int  # 0: nobody has looked


UNKNOWN: Final = Seen(None, 0)


class View:
    """The rule above over anything that returns entries of the table."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._payload: bytes | None = None
        self._runtime: RuntimeRecord | None = None
        self._unseen: frozenset[str] = frozenset()
        self._complaint = klog.every(60)

    def runtime(self) -> tuple[RuntimeRecord | None, int]:
        """Return what is known of the runtime, and when the last full look began."""
        entry = self._get(RUNTIME_KEY)
        if entry is None:
            return None, 0
        if entry.payload != self._payload:  # mostly only the stamp moves
            try:
                self._runtime = RuntimeRecord.from_wire(unpack(entry.payload))
            except (BadRecordError, DecodeError) as err:
                self._odd(RUNTIME_KEY, err)
                return None, 0
            self._unseen = frozenset(self._runtime.unseen)
            self._payload = entry.payload
        return self._runtime, entry.stamp_ns

    def stamp(self, uid: str) -> int:
        """Return the moment as of which ``pod`` would speak, without decoding the pod."""
        _, full_ns = self.runtime()
        entry = self._get(uid)
        return self._combined(uid, entry, full_ns)

    def pod(self, uid: str) -> Seen:
        """Return what is known of a pod."""
        _, full_ns = self.runtime()  # first: see above
        entry = self._get(uid)
        stamp_ns = self._combined(uid, entry, full_ns)
        if entry is None:
            return Seen(None, stamp_ns)
        try:
            record = PodRecord.from_wire(unpack(entry.payload))
        except (BadRecordError, DecodeError) as err:
            self._odd(uid, err)
            return UNKNOWN
        return Seen(None if record.gone else record, stamp_ns)

    def _combined(self, uid: str, entry: Entry | None, full_ns: int) -> int:
        own_ns = entry.stamp_ns if entry is not None else 0
        return own_ns if uid in self._unseen else max(own_ns, full_ns)

    def _odd(self, key: str, err: Exception) -> None:
        if self._complaint.ready():
            log.error("Entry of the pod status cache is no record", key=key, err=err)


class RuntimeCache:
    """The cache in a process that reads it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._view = View(self._entry)
        process.on_hint(self._hinted)

    def get(self, uid: str) -> Seen:
        """Return what is known of a pod, and as of when."""
        return self._trusted(self._view.pod(uid))

    def raw(self, uid: str) -> bytes | None:
        """Return a pod's entry as it is written: to see cheaply whether it is another one now."""
        entry = self._entry(uid)
        return entry.payload if entry is not None else None

    def runtime(self) -> RuntimeRecord | None:
        """Return what is known of the runtime."""
        return self._view.runtime()[0]

    def full_look_ns(self) -> int:
        """Return when the last full look began; 0: there was none."""
        return self._view.runtime()[1]

    def uids(self) -> list[str]:
        """Return the pods of which the runtime holds something."""
        keys = (key for key in self._process.tables.keys(TABLE) if key != RUNTIME_KEY)
        return [uid for uid in keys if self.get(uid).record is not None]

    async def get_newer_than(self, uid: str, stamp_ns: int, seconds: float) -> Seen:
        """Wait until a pod was looked at after a moment; TimeoutError when it was not in time.

        This waits for looks, it does not ask for one: see ``look``.
        """

        def check() -> Seen | None:
            if self._view.stamp(uid) <= stamp_ns:
                return None
            seen = self.get(uid)
            return seen if seen.stamp_ns > stamp_ns else None

        return await self._process.waiters.wait(TABLE, uid, check, seconds)

    async def look(self, uid: str, seconds: float = 5.0) -> Relisted:
        """Have pleg look at a pod now; a ChannelError says why it did not."""
        looked = await self._process.channels.ask(PLEG, Relist(uid), timeout=seconds)
        # A look that began in time may have been under way already; there is no hint of that.
        self._process.waiters.notify(TABLE, uid)
        return looked

    def _entry(self, key: str) -> Entry | None:
        return self._process.tables.get(TABLE, key)

    def _trusted(self, seen: Seen) -> Seen:
        """A table with damage in it says nothing: absence there is not news."""
        return UNKNOWN if TABLE in self._process.tables.unavailable else seen

    def _hinted(self, hint: Hint) -> None:
        if hint.table == TABLE and hint.key == RUNTIME_KEY:
            self._process.waiters.notify(TABLE, ANY_KEY)  # a full look concerns every pod
