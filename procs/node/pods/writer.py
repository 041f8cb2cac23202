"""From table ``status`` to the API server: status writes and the final delete (P-13, P-41, P-131).

Each pod has at most one call under way; what changes meanwhile is one more call, with the newest.
A status is sent at once; several pods side by side, those that others wait for first.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any, Final

from kubelet import logging as klog
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.rows import STATUS, StatusRow
from kubelet.pods.wire import BadRecordError
from procs.node.apiserver.types import ApiError, Json, PatchType
from procs.node.kit import Kit
from procs.node.pods import pace, parts
from procs.node.pods.pace import Pace
from procs.node.pods.patch import contains
from procs.node.pods.steps import Backwards, Delete, Patch, Wanted, is_other, next_step
from procs.node.pods.watch import AssignedPods
from shm.codec import unpack

log = klog.get_logger(__name__)

RECONCILE_SECONDS: Final = 10.0  # T-5
STOP_SECONDS: Final = 2.0  # for what is still to be said at the end
MOST: Final = 10  # calls under way
LEDGER: Final = "status"
TROUBLE: Final = "pod status"


class StatusWriter:
    """Has the API server say of each pod what is true here."""

    def __init__(self, kit: Kit, pods: AssignedPods) -> None:
        self._kit = kit
        self._pods = pods
        self._read_as: dict[str, int] = {}  # uid -> hash of its row as it was read last
        self._wanted: dict[str, Wanted] = {}
        self._first: dict[str, None] = {}  # uids in the order of arrival, those that are urgent
        self._queue: dict[str, None] = {}  # and the others
        self._busy: set[str] = set()
        self._refused: set[str] = set()  # they wait for another status, or T-5
        self._resting: set[str] = set()  # they wait for a moment
        self._failures: dict[str, int] = {}  # uid -> how often in a row
        self._errors: dict[str, str] = {}  # uid -> what does not work
        self._kept: dict[str, Json] = {}  # patches that were taken and made no difference
        self._deleted: set[str] = set()  # pods that are about to go
        self._silent: dict[str, int] = {}  # uid -> mark of a status that goes backwards
        self._pace = Pace(MOST, kit.random)
        self._told = False
        self._idle = asyncio.Event()

    def start(self) -> None:
        """Begin to write."""
        self._kit.process.on_hint(self._hinted)
        self._pods.on_change(self._changed)
        self._pods.on_listed(self._listed)
        self._read_all()
        self._kit.process.spawn(self._reconcile(), name="pod statuses")

    async def stop(self) -> None:
        """Say what is still to be said, if that can be done in a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                while self._pace.room and (self._busy or self._first or self._queue):
                    self._idle.clear()
                    await self._idle.wait()

    # What is to be said.

    def _hinted(self, hint: Hint) -> None:
        if hint.table != STATUS:
            return
        if hint.key == ANY_KEY:
            self._read_all()
        else:
            self._read(hint.key)

    def _read_all(self) -> None:
        tables = self._kit.process.tables
        keys = frozenset(tables.keys(STATUS))
        for uid in keys:
            self._read(uid)
        if STATUS in tables.unavailable:
            return  # which says nothing about pods
        for uid in {*self._wanted, *(uid for uid, _ in self._kit.ledger.items(LEDGER))} - keys:
            self._forget(uid)

    def _read(self, uid: str) -> None:
        """Take a row that may be another now."""
        entry = self._kit.process.tables.get(STATUS, uid)
        if entry is None:
            if STATUS not in self._kit.process.tables.unavailable:
                self._forget(uid)
            return
        content = hash(entry.payload)
        if content == self._read_as.get(uid):
            return
        self._read_as[uid] = content
        try:
            wanted = Wanted.of(StatusRow.from_wire(unpack(entry.payload)))
        except (BadRecordError, ValueError) as err:
            log.error("Row cannot be read and is left out", table=STATUS, pod=uid, err=err)
            return
        self._wanted[uid] = wanted
        self._refused.discard(uid)
        self._consider(uid)

    def _forget(self, uid: str) -> None:
        self._read_as.pop(uid, None)
        self._silent.pop(uid, None)
        self._failures.pop(uid, None)
        self._deleted.discard(uid)
        self._refused.discard(uid)
        self._right(uid)
        for kept in (self._wanted, self._first, self._queue, self._kept):
            kept.pop(uid, None)
        if self._kit.ledger.get(f"{LEDGER}/{uid}") is not None:
            self._kit.ledger.delete(f"{LEDGER}/{uid}")

    # What the API server has.

    def _target(self, wanted: Wanted) -> Json | None:
        """Return the object that shows a pod; that of a static pod is its mirror (P-13)."""
        pod = self._pods.pods.get(wanted.uid)
        if pod is not None:
            return pod
        mirror = self._pods.mirrors.get((wanted.namespace, wanted.name))
        if mirror is None or parts.deleting(mirror):
            return None
        return mirror if parts.annotation(mirror, parts.MIRROR) == wanted.uid else None

    def _changed(self, uid: str) -> None:
        """Take that a pod or a mirror pod is another now."""
        if uid not in self._wanted:
            mirrors = (m for m in self._pods.mirrors.values() if parts.uid_of(m) == uid)
            mirror = next(mirrors, None)
            uid = parts.annotation(mirror, parts.MIRROR) or "" if mirror is not None else ""
        self._refused.discard(uid)
        self._consider(uid)

    def _listed(self) -> None:
        """Compare everything: the server answers, and what it has is known."""
        self._pace.worked()
        self._resting.clear()
        self._refused.clear()
        self._consider_all()

    async def _reconcile(self) -> None:
        """See each 10 s that nobody else has changed what is ours, and try again what failed."""
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            self._tell()
            self._refused.clear()
            self._deleted = set(filter(self._is_held, self._deleted))
            self._consider_all()

    def _is_held(self, uid: str) -> bool:
        """Whether it is up to others that a deleted pod is still there."""
        pod = self._pods.pods.get(uid)
        return pod is not None and bool(pod["metadata"].get("finalizers"))

    def _consider_all(self) -> None:
        for uid in list(self._wanted):
            self._consider(uid)

    # What to do about it.

    def _consider(self, uid: str) -> None:
        """Queue a pod if there is something to be said about it."""
        step = self._step(uid)
        self._first.pop(uid, None)
        if step is None or step.urgent:
            self._queue.pop(uid, None)
        if step is None and uid not in self._refused and uid not in self._resting:
            self._right(uid)  # there is nothing to be said any more
        if step is not None:
            (self._first if step.urgent else self._queue).setdefault(uid)
            self._pump()

    def _step(self, uid: str) -> Patch | Delete | None:
        wanted = self._wanted.get(uid)
        pod = self._target(wanted) if wanted is not None else None
        if wanted is None or pod is None or uid in self._refused or uid in self._resting:
            return None
        if not self._pods.listed:
            return None  # what a predecessor knew of the object is older than its own last words
        step = next_step(pod, wanted, self._kept.get(uid))
        if isinstance(step, Backwards):
            self._complain(wanted, step.container)
            return None
        if not isinstance(step, Patch):
            self._say(wanted, pod)
        return None if isinstance(step, Delete) and uid in self._deleted else step

    def _complain(self, wanted: Wanted, container: str) -> None:
        if self._silent.get(wanted.uid) != wanted.mark:
            self._silent[wanted.uid] = wanted.mark
            pod = f"{wanted.namespace}/{wanted.name}"
            log.error("Status would undo the end of a container", pod=pod, container=container)
            self._kit.process.row.count("status_backwards")

    def _said(self, uid: str) -> Any:
        """Return the mark of the status that was written last."""
        value = self._kit.ledger.get(f"{LEDGER}/{uid}")
        return value[0] if isinstance(value, (list, tuple)) and value else None

    def _say(self, wanted: Wanted, pod: Json) -> None:
        """Remember that the object says what it should."""
        if self._said(wanted.uid) != wanted.mark:
            self._kit.ledger.put(f"{LEDGER}/{wanted.uid}", [wanted.mark, parts.version_of(pod)])

    def _pump(self) -> None:
        """Send what may be sent now."""
        while len(self._busy) < self._pace.room and (uid := self._next()):
            self._first.pop(uid, None)
            self._queue.pop(uid, None)
            self._busy.add(uid)
            self._kit.process.spawn(self._write(uid), name=f"status of pod {uid}")
        self._kit.process.row.depth("statuses", len(self._first) + len(self._queue))
        self._idle.set()

    def _next(self) -> str:
        every = itertools.chain(self._first, self._queue)
        return next((uid for uid in every if uid not in self._busy), "")

    # Doing it.

    async def _write(self, uid: str) -> None:
        """Make one call for a pod, with what is newest now, and see what is left."""
        try:
            step = self._step(uid)
            if step is not None:
                with self._kit.process.doing(f"{type(step).__name__.lower()} pod", uid):
                    await self._carry_out(uid, step)
                self._pace.worked()
                self._failures.pop(uid, None)
                self._right(uid)
        except ApiError as err:
            self._failed(uid, err)
        finally:
            self._busy.discard(uid)
        self._consider(uid)
        self._pump()

    async def _carry_out(self, uid: str, step: Patch | Delete) -> None:
        wanted = self._wanted[uid]
        pod = self._target(wanted)
        assert pod is not None  # a step was found for it
        path = parts.path_of(pod)
        if isinstance(step, Delete):
            self._kit.process.row.count("pod_deletes")
            await self._kit.api.delete(path, grace=0, uid=uid)
            self._deleted.add(uid)  # the watch tells when; with finalizers, it may take its time
            self._kit.process.record("api-deleted", parts.shown(pod), uid)
            return
        self._kit.process.row.count("status_patches")
        answer = await self._kit.api.patch(f"{path}/status", step.body, PatchType.STRATEGIC)
        self._pods.answered(answer)
        self._note_rest(wanted, step)

    def _note_rest(self, wanted: Wanted, sent: Patch) -> None:
        """Remember what the server does not keep of a status: said again, it would not either.

        Only what was sent counts: where the object was another than it was known to be, there is
        more to be said.
        """
        self._kept.pop(wanted.uid, None)
        pod = self._target(wanted)
        if pod is None:
            return
        rest = next_step(pod, wanted)
        if isinstance(rest, Patch):
            if not contains(sent.body, rest.body):
                return
            self._kept[wanted.uid] = rest.body
            fields = sorted(rest.body["status"])
            log.v(1, "API server does not keep all of a status", pod=parts.shown(pod), rest=fields)
        self._say(wanted, pod)

    # What goes wrong.

    def _failed(self, uid: str, err: ApiError) -> None:
        self._kit.process.row.count("status_errors")
        wanted = self._wanted.get(uid)
        if wanted is None:
            return
        if is_other(err) or err.not_found:
            log.v(1, "Pod is gone from the API server, or another one", pod=uid, err=err)
            self._refused.add(uid)
            return
        if not err.unreachable:  # which is said elsewhere, once for all
            self._wrong(wanted, err)
        if pace.is_general(err):
            seconds = self._pace.failed(err)
            if seconds is not None:
                self._kit.process.spawn(self._pause(seconds), name="pause of pod statuses")
        elif err.passing or err.conflict:
            failures = self._failures[uid] = self._failures.get(uid, 0) + 1
            self._resting.add(uid)
            seconds = pace.delay(failures, err, self._kit.random)
            self._kit.process.spawn(self._rest(uid, seconds), name=f"pause of pod {uid}")
        else:
            self._refused.add(uid)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._pace.resume()
        self._pump()

    async def _rest(self, uid: str, seconds: float) -> None:
        """Leave one pod alone for a while: the others may fare better."""
        await asyncio.sleep(seconds)
        self._resting.discard(uid)
        self._consider(uid)

    def _wrong(self, wanted: Wanted, err: ApiError) -> None:
        self._errors[wanted.uid] = f"{wanted.namespace}/{wanted.name}: {err}"
        if not self._told:
            self._tell()

    def _right(self, uid: str) -> None:
        if self._errors.pop(uid, None) is not None and not self._errors:
            self._tell()

    def _tell(self) -> None:
        """Say which statuses the server does not take, once for all of them."""
        told = sorted(self._errors.values())
        more = f" (and {len(told) - 1} more pods)" if len(told) > 1 else ""
        self._kit.troubles.tell(TROUBLE, told[0] + more if told else None)
        self._told = bool(told)
