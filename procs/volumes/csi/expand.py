"""Having a driver take up the room that a claim was given (L-16).

While a volume is being mounted, a failure keeps its pod waiting; in a volume that is in use it is
told, and tried again later. What was done, or is not to be tried again here, is remembered for as
long as the volume is on the node, since the claim's status takes its time to say so.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Literal

from kubelet import quantities
from kubelet.channels.errors import ChannelError
from kubelet.channels.messages import NoteClaimResize
from kubelet.process import Process
from procs.volumes.csi import events, requests
from procs.volumes.csi.calls import Call
from procs.volumes.csi.errors import CsiError
from procs.volumes.csi.events import Events
from procs.volumes.csi.requests import Terms
from procs.volumes.csi.wire import csi_pb2
from procs.volumes.errors import VolumeError
from procs.volumes.wants import CsiWant, Growth

AGAIN_SECONDS: Final = 30.0
_NOTE_SECONDS: Final = 15.0
_INVALID, _NOT_FOUND, _PRECONDITION, _OUT_OF_RANGE = 3, 5, 9, 11  # of gRPC
_INFEASIBLE: Final = frozenset({_INVALID, _NOT_FOUND, _OUT_OF_RANGE})


class _Outcome(Enum):
    GROWN = auto()  # and the claim says so
    UNSAID = auto()  # but the claim does not say so yet
    REFUSED = auto()  # not while the volume is in use, or not at all


class Expander:
    """Grows volumes; of one volume there is one call at a time, which its lock sees to."""

    def __init__(self, process: Process, told: Events, node: str) -> None:
        self._process = process
        self._events = told
        self._node = node
        self._known: dict[tuple[str, str], tuple[str, _Outcome]] = {}

    def forget(self, key: tuple[str, str]) -> None:
        """Know nothing of a volume that has left the node."""
        self._known.pop(key, None)

    def needed(self, want: CsiWant) -> bool:
        """Tell whether anything is to be done."""
        growth = want.growth
        if growth is None or not growth.pending or want.ephemeral:
            return False
        return self._outcome(want, growth) not in (_Outcome.GROWN, _Outcome.REFUSED)

    def _outcome(self, want: CsiWant, growth: Growth) -> _Outcome | None:
        size, outcome = self._known.get((want.driver, want.handle), ("", None))
        return outcome if size == growth.wanted else None

    async def in_use(self, call: Call) -> float:
        """Grow a volume that is in use; the seconds after which to try again, 0 for never."""
        try:
            await self.grow(call)
        except VolumeError as err:
            what = "NodeExpandVolume.NodeExpandVolume failed"
            text = f'{what} for volume "{call.place.spec}" : {err}'
            await self._tell(call.terms, "Warning", events.NOT_GROWN, text)
        return AGAIN_SECONDS if self.needed(call.terms.want) else 0.0

    async def grow(self, call: Call) -> None:
        """Grow a volume; a VolumeError says why it could not be."""
        want, growth = call.terms.want, call.terms.want.growth
        assert growth is not None
        if self._outcome(want, growth) is not _Outcome.UNSAID:
            if want.of.read_only:
                await self._refuse(call.terms, growth)
                return
            size = _size(growth)
            await self._note(want, "begun")
            if not await self._ask(call, size):
                return
        self._remember(want, growth, _Outcome.UNSAID)
        await self._note(want, "done", capacity=growth.wanted)
        self._remember(want, growth, _Outcome.GROWN)

    async def _ask(self, call: Call, size: int) -> bool:
        """Have the driver do it; False: it does not while the volume is in use (as it is then)."""
        terms, want = call.terms, call.terms.want
        call.say(f"NodeExpandVolume of {want.driver}")
        try:
            _check(terms)
            request = requests.expand(terms, call.place.target, call.staged, size)
            await call.driver.call("NodeExpandVolume", request, csi_pb2.NodeExpandVolumeResponse)
        except CsiError as err:
            if not err.final:
                raise
            infeasible = err.code in _INFEASIBLE
            await self._note(want, "failed", error=str(err), infeasible=infeasible)
            if err.code != _PRECONDITION:
                raise
            assert want.growth is not None
            self._remember(want, want.growth, _Outcome.REFUSED)
            return False
        except VolumeError as err:
            await self._note(want, "failed", error=str(err))
            raise
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{want.of.spec}" {self._node}'
        await self._tell(terms, "Normal", events.GROWN, text)
        return True

    async def _refuse(self, terms: Terms, growth: Growth) -> None:
        """Say that what is read-only is not changed; its pod has it as it is."""
        text = (
            f'MountVolume.NodeExpandVolume failed for volume "{terms.want.of.spec}"'
            " requested read-only file system"
        )
        await self._tell(terms, "Warning", events.READ_ONLY, text)
        self._remember(terms.want, growth, _Outcome.REFUSED)

    def _remember(self, want: CsiWant, growth: Growth, outcome: _Outcome) -> None:
        self._known[want.driver, want.handle] = growth.wanted, outcome

    async def _tell(
        self, terms: Terms, type_: Literal["Normal", "Warning"], reason: str, text: str
    ) -> None:
        await self._events.on_pod(terms.pod, type_, reason, text)
        await self._events.on_claim(terms.want.of.claim, type_, reason, text)

    async def _note(
        self,
        want: CsiWant,
        step: Literal["begun", "done", "failed"],
        *,
        capacity: str = "",
        error: str = "",
        infeasible: bool = False,
    ) -> None:
        namespace, _, name = want.of.claim.partition("/")
        note = NoteClaimResize(namespace, name, step, capacity, error, infeasible)
        try:
            noted = await self._process.channels.ask("node", note, timeout=_NOTE_SECONDS)
        except ChannelError as err:
            raise VolumeError(f"the status of claim {want.of.claim} is not written: {err}") from err
        if noted.error:
            raise VolumeError(f"the status of claim {want.of.claim} is not written: {noted.error}")


def _check(terms: Terms) -> None:
    if not terms.expands:
        raise VolumeError(f"NodeExpand is not supported by the CSI driver {terms.want.driver}")
    if terms.want.expand_secrets is None:
        raise VolumeError(
            f"the secret in spec.csi.nodeExpandSecretRef of persistent volume"
            f" {terms.want.of.spec} could not be read"
        )


def _size(growth: Growth) -> int:
    try:
        return quantities.parse(growth.wanted).value
    except ValueError as err:
        raise VolumeError(f'the size that is asked for, "{growth.wanted}", {err}') from err
