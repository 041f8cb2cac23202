"""The one table of requests: name, version, body, reply, who handles it, who may send it.

A new request is a frozen dataclass for the reply, one for the body, and the ``request`` line
above the latter. Ranges are checked in ``__post_init__`` by raising ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar, get_args

from supervisor.kinds import NAMES

CTL: Final = "ctl"  # kubeletctl: root, or the supervisor's user, from outside the tree
KINDS: Final = frozenset(NAMES)
ANYONE: Final = KINDS | {CTL}
ONLY_CTL: Final = frozenset({CTL})

R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound="type[Request[Any]]")


class Request(Generic[R_co]):
    """The body of a request that is answered by an ``R_co``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one request."""

    name: str
    schema: int  # raised when the body or the reply changes; both sides must agree
    body: type[Request[Any]]
    reply: type[Any]
    handled_by: frozenset[str]
    allowed: frozenset[str]


BY_NAME: Final[dict[str, Row]] = {}
BY_TYPE: Final[dict[type[Request[Any]], Row]] = {}


def request(
    name: str,
    *,
    allowed: Collection[str],
    handled_by: Collection[str] = KINDS,
    schema: int = 1,
) -> Callable[[C], C]:
    """Enter a request into the table; stands above the body's dataclass."""

    def enter(body: C) -> C:
        unknown = (set(allowed) - ANYONE) | (set(handled_by) - KINDS)
        if unknown or name in BY_NAME:
            raise ValueError(f"request {name!r}: unknown kinds {sorted(unknown)} or entered twice")
        (reply,) = get_args(body.__orig_bases__[0])  # type: ignore[attr-defined]
        row = Row(name, schema, body, reply, frozenset(handled_by), frozenset(allowed))
        BY_NAME[name] = BY_TYPE[body] = row
        return body

    return enter


@dataclass(frozen=True, slots=True)
class Pong:
    """The process answers."""

    kind: str
    pid: int


@request("ping", allowed=ANYONE)
@dataclass(frozen=True, slots=True)
class Ping(Request[Pong]):
    """Asks whether the process answers at all."""


@dataclass(frozen=True, slots=True)
class TaskStacks:
    """Where each asyncio task of the process stands, as text."""

    text: str


@request("tasks", allowed=ONLY_CTL)
@dataclass(frozen=True, slots=True)
class Tasks(Request[TaskStacks]):
    """Asks what the tasks of the process are doing."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """Collapsed stacks (frames joined by ``;``, outermost first) with their sample counts."""

    samples: int
    stacks: dict[str, int]


@request("profile", allowed=ONLY_CTL)
@dataclass(frozen=True, slots=True)
class Profile(Request[Profiled]):
    """Has the process sample itself; ``cpu`` counts running time, ``wall`` waiting too."""

    seconds: float
    hertz: int = 99
    mode: Literal["cpu", "wall"] = "cpu"

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 300:
            raise ValueError(f"seconds is {self.seconds}, allowed is above 0 up to 300")
        if not 1 <= self.hertz <= 1000:
            raise ValueError(f"hertz is {self.hertz}, allowed is 1 to 1000")


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The process's counters and gauges at this moment."""

    counters: dict[str, int]
    gauges: dict[str, float]


@request("metrics", allowed=ONLY_CTL)
@dataclass(frozen=True, slots=True)
class Metrics(Request[MetricsSnapshot]):
    """Asks what the process has counted."""


@dataclass(frozen=True, slots=True)
class TableChecked:
    """The state of a table as its writer finds it; ``problem`` is None if it is sound."""

    table: str
    generation: int
    problem: str | None


@request("check-table", allowed=KINDS)
@dataclass(frozen=True, slots=True)
class CheckTable(Request[TableChecked]):
    """Has a writer look at its table, of which a reader could make no sense."""

    table: str


@dataclass(frozen=True, slots=True)
class Restarting:
    """The process will exit now, to be started again."""

    pid: int


@request("restart", allowed=ONLY_CTL)
@dataclass(frozen=True, slots=True)
class Restart(Request[Restarting]):
    """Has the process exit in good order, to be started again."""

    reason: str


@dataclass(frozen=True, slots=True)
class VerbositySet:
    """The level before."""

    previous: int


@request("set-verbosity", allowed=ONLY_CTL)
@dataclass(frozen=True, slots=True)
class SetVerbosity(Request[VerbositySet]):
    """Sets the level at which the process logs from now on."""

    level: int

    def __post_init__(self) -> None:
        if not 0 <= self.level <= 10:
            raise ValueError(f"level is {self.level}, allowed is 0 to 10")


@dataclass(frozen=True, slots=True)
class Relisted:
    """A look at the pod that began at ``stamp_ns``, after the request; what it found is cached."""

    stamp_ns: int
    changed: bool  # False also if another look, which began after the request, had found it


@request("relist", allowed={"syncloop", CTL}, handled_by={"pleg"})
@dataclass(frozen=True, slots=True)
class Relist(Request[Relisted]):
    """Has pleg look at one pod at once."""

    pod: str

    def __post_init__(self) -> None:
        if not 0 < len(self.pod.encode()) <= 256:
            raise ValueError(f"pod has {len(self.pod.encode())} bytes, allowed is 1 to 256")


@dataclass(frozen=True, slots=True)
class Submitted:
    """The pod is taken; ``result`` is what became of it, ``warnings`` what was odd in it."""

    uid: str
    name: str
    namespace: str
    result: Literal["created", "configured", "unchanged"]
    warnings: tuple[str, ...] = ()


@request("submit-pod", allowed=ONLY_CTL, handled_by={"syncloop"})
@dataclass(frozen=True, slots=True)
class SubmitPod(Request[Submitted]):
    """Has the node run a pod, given as the JSON of its document; the same again changes nothing."""

    document: bytes


@dataclass(frozen=True, slots=True)
class Deleting:
    """The pod is on its way out; its end is seen in the tables."""

    uid: str
    grace: int


@request("delete-pod", allowed=ONLY_CTL, handled_by={"syncloop"})
@dataclass(frozen=True, slots=True)
class DeletePod(Request[Deleting]):
    """Has the node end a pod that was submitted to it; ``grace`` None is the pod's own."""

    namespace: str
    name: str
    grace: int | None = None

    def __post_init__(self) -> None:
        if self.grace is not None and not 0 <= self.grace <= 1 << 31:
            raise ValueError(f"grace is {self.grace}, allowed is 0 to 2147483648")


@dataclass(frozen=True, slots=True)
class PodCgroupReady:
    """The pod's cgroup is there with these limits; ``created``: it was not there before."""

    created: bool


@request("ensure-pod-cgroup", allowed={"syncloop"}, handled_by={"eviction"})
@dataclass(frozen=True, slots=True)
class EnsurePodCgroup(Request[PodCgroupReady]):
    """Has the cgroup of a pod made, or set to these limits; 0 is "no limit of its own"."""

    pod: str
    path: str  # below the mount of each hierarchy, with a leading slash
    cpu_shares: int = 2
    cpu_quota: int = 0  # microseconds in each period; -1: switched off
    cpu_period: int = 100_000
    memory: int = 0
    pids: int = 0
    hugepages: dict[str, int] = field(default_factory=dict)  # page size ("2MB") -> bytes
    unified: dict[str, str] = field(default_factory=dict)  # files of cgroup v2 -> value


@dataclass(frozen=True, slots=True)
class PodCgroupRemoved:
    """The pod's cgroup is gone."""

    killed: int  # processes that were still in it


@request("remove-pod-cgroup", allowed={"syncloop"}, handled_by={"eviction"})
@dataclass(frozen=True, slots=True)
class RemovePodCgroup(Request[PodCgroupRemoved]):
    """Has the cgroup of a pod removed, with whatever still runs in it (P-34)."""

    pod: str
    path: str


@dataclass(frozen=True, slots=True)
class NodeImage:
    """One image of the node: digests first, then tags (N-18)."""

    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class NodeImages:
    """The largest images of the node, largest first."""

    images: tuple[NodeImage, ...]


@request("list-images", allowed={"node"}, handled_by={"syncloop"})
@dataclass(frozen=True, slots=True)
class ListImages(Request[NodeImages]):
    """Asks which images the runtime has; at most ``limit`` of them, all if that is -1."""

    limit: int = 50


@dataclass(frozen=True, slots=True)
class EventNoted:
    """The event is on its way, or was too much; a node without an API server has it in its log."""


@request("record-event", allowed=KINDS, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class RecordEvent(Request[EventNoted]):
    """Has an event told to the API server; kind Node with an empty name is this node."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    kind: str = "Node"
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""
    at_ns: int = 0  # wall clock; 0 is now


@dataclass(frozen=True, slots=True)
class TokenReviewed:
    """Who a token belongs to; ``error`` says why nobody knows."""

    authenticated: bool
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)
    error: str = ""


@request("review-token", allowed={"api"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class ReviewToken(Request[TokenReviewed]):
    """Asks the API server whose a bearer token is (H-20)."""

    token: str
    audiences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessReviewed:
    """Whether it is allowed; denied is stronger than merely not allowed."""

    allowed: bool
    denied: bool = False
    reason: str = ""
    error: str = ""


@request("review-access", allowed={"api"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class ReviewAccess(Request[AccessReviewed]):
    """Asks the API server whether somebody may do something to this node."""

    user: str
    verb: str
    subresource: str = ""  # of nodes: proxy, stats, log, metrics, ...
    path: str = ""  # set: not about the node but about this path
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class ServingPair:
    """A certificate with those that vouch for it, its key, and when it ends (wall clock)."""

    cert_pem: str
    key_pem: str
    expires_ns: int


@request("serving-certificate", allowed={"api"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class ServingCertificate(Request[ServingPair]):
    """Asks for what this node's servers show: they have no right to read the key themselves."""


@dataclass(frozen=True, slots=True)
class SubPathPrepared:
    """Where a part of a volume is bound to; ``error`` says why it is not."""

    path: str
    error: str = ""


@request("prepare-subpath", allowed={"syncloop"}, handled_by={"volumes"})
@dataclass(frozen=True, slots=True)
class PrepareSubPath(Request[SubPathPrepared]):
    """Has a part of a mounted volume bound to a place that no container can change (L-32)."""

    pod: str
    container: str
    index: int  # of the container's volume mounts
    volume: str
    path: str  # inside the volume, already expanded


@dataclass(frozen=True, slots=True)
class FileKeyRead:
    """The value of a variable that stands in a file; None: the file has no such key."""

    value: str | None = None
    error: str = ""


@request("read-file-key", allowed={"syncloop"}, handled_by={"volumes"})
@dataclass(frozen=True, slots=True)
class ReadFileKey(Request[FileKeyRead]):
    """Asks for a variable out of a file in an emptyDir of a pod (P-174)."""

    pod: str
    volume: str
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class AllPodsKnown:
    """Whether every source has delivered its pods once (P-4): who is not known then is gone."""

    known: bool


@request("pods-known", allowed={"volumes"}, handled_by={"syncloop"})
@dataclass(frozen=True, slots=True)
class PodsKnown(Request[AllPodsKnown]):
    """Asks whether table pods holds all pods of this node."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """What the API server has of a VolumeAttachment (L-44)."""

    found: bool
    attached: bool = False
    metadata: dict[str, str] = field(default_factory=dict)  # the publish context
    attach_error: str = ""  # what the attacher said last
    attach_code: int = 0  # and the gRPC code of it, where it is given; 8: no room (L-17)
    error: str = ""  # why the API server did not say


@request("get-attachment", allowed={"volumes"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class GetAttachment(Request[Attachment]):
    """Asks for a VolumeAttachment by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class CsiDriverNoted:
    """The API server knows of it; ``error`` says why it does not."""

    error: str = ""


@request("register-csi-driver", allowed={"volumes"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class RegisterCsiDriver(Request[CsiDriverNoted]):
    """Has CSINode, the node's annotation and its topology labels name a driver (L-41)."""

    name: str
    node_id: str
    max_volumes: int = 0  # 0: no limit
    topology: dict[str, str] = field(default_factory=dict)


@request("unregister-csi-driver", allowed={"volumes"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class UnregisterCsiDriver(Request[CsiDriverNoted]):
    """Has CSINode and the node's annotation name a driver no more."""

    name: str


@dataclass(frozen=True, slots=True)
class ClaimNoted:
    """The claim's status says so now; ``error`` says why it does not."""

    error: str = ""


@request("note-claim-resize", allowed={"volumes"}, handled_by={"node"})
@dataclass(frozen=True, slots=True)
class NoteClaimResize(Request[ClaimNoted]):
    """Has a claim's status say how growing its file system went (L-16)."""

    namespace: str
    name: str
    step: Literal["begun", "done", "failed"]
    capacity: str = ""  # of the claim now, where it is done
    error: str = ""
    infeasible: bool = False  # of what failed: trying again is of no use
