"""The rows of the tables about pods: ``pods``, ``status``, ``events`` and ``mounts``.

The pod itself travels as the JSON text of its API document: whoever only passes it on does not
take it apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.api.status import PodStatus
from kubelet.pods.wire import Record

PODS: Final = "pods"
STATUS: Final = "status"
EVENTS: Final = "events"
MOUNTS: Final = "mounts"
WORK: Final = "inflight"

# Where a pod came from (P-1); `local` was submitted over the kubelet's own socket.
FILE: Final = "file"
HTTP: Final = "http"
API: Final = "api"
LOCAL: Final = "local"


class WorkerState(StrEnum):
    """Where a pod is in its life (P-30); it never goes back."""

    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FINISHED = "finished"  # nothing of it is left but this row


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often something failed in a row, and when it may be tried again."""

    delay_ns: int = 0
    last_ns: int = 0  # wall clock: when the delay was last raised
    until_ns: int = 0  # wall clock: when it may be tried again
    error: str = ""  # the last failure, in words


@dataclass(frozen=True, slots=True)
class Wait:
    """What a pod waits for, for ``kubeletctl why``."""

    what: str  # in words: "image registry.local/x:1 to be pulled"
    since_ns: int = 0  # wall clock
    tried: str = ""  # what was tried, and how it ended
    next: str = ""  # what happens next
    next_ns: int = 0  # wall clock: when; 0 is "as soon as what it waits for is there"


@dataclass(frozen=True, slots=True)
class Ending:
    """Why and how a pod ends; grace may only shrink (P-37)."""

    reason: str = ""  # of the pod's status: Evicted, DeadlineExceeded, ...
    message: str = ""
    grace: int = 0  # seconds
    began_ns: int = 0  # wall clock
    orphan: bool = False  # found in the runtime without a pod that wants it (P-35)
    failed: bool = False  # its status is Failed with that reason
    disruption: str = ""  # message of the DisruptionTarget condition (P-125)
    removed: bool = False  # nobody wants it any more: nothing of it is to stay on the node


@dataclass(frozen=True, slots=True)
class PodRow(Record):
    """One pod, as syncloop knows it."""

    uid: str
    name: str
    namespace: str
    source: str
    state: WorkerState = WorkerState.SYNC
    version: int = 0  # of the document: counts up with each change that is to be acted on
    document: bytes = b""  # the pod's JSON; empty for an orphan
    seen_ns: int = 0  # wall clock: first seen
    started: str = ""  # status.startTime, once it was admitted
    admitted: bool = False
    rejected: str = ""  # reason and message of admission, if it was refused
    ending: Ending | None = None
    again: bool = False  # it is wanted again, once this life of it has ended (P-39)

    @property
    def pod(self) -> Pod:
        """The pod."""
        return pod_of(self.document)


class CallStep(StrEnum):
    """How far the start or stop of a container or sandbox has come."""

    SANDBOX = "sandbox"  # RunPodSandbox was sent
    PULLED = "pulled"  # its image is here
    CREATE = "create"  # CreateContainer was sent
    CREATED = "created"  # and answered
    START = "start"  # StartContainer was sent
    STARTED = "started"  # and answered; its postStart hook runs
    BROKEN_OFF = "broken-off"  # StartContainer was sent by somebody who died before the answer
    PRE_STOP = "pre-stop"  # its preStop hook runs
    STOP = "stop"  # its hook is over; StopContainer was sent


@dataclass(frozen=True, slots=True)
class Call:
    """Something under way in the runtime, so that a successor neither repeats nor forgets it."""

    step: CallStep
    attempt: int = 0
    image_ref: str = ""
    container_id: str = ""
    since_ns: int = 0  # wall clock
    image: str = ""  # as the pod spells it: what the reference was had for


@dataclass(frozen=True, slots=True)
class WorkRow(Record):
    """What the worker of a pod is at, in table ``inflight``; it changes with each step."""

    uid: str
    step: str = ""  # what it does now, "" when there is nothing to do
    since_ns: int = 0  # wall clock: since when
    waits: tuple[Wait, ...] = ()
    backoffs: dict[str, Backoff] = field(default_factory=dict)  # by container, or image:<image>
    reasons: dict[str, str] = field(default_factory=dict)  # container -> "Reason\tmessage" (P-102)
    calls: dict[str, Call] = field(default_factory=dict)  # by container, "" for the sandbox
    restarting: bool = False  # all containers are being restarted in place (P-81)


@lru_cache(maxsize=512)
def pod_of(document: bytes) -> Pod:
    """Return the pod in a row's document."""
    return codec.read(Pod, json.loads(document)) if document else Pod()


def document_of(pod: Pod) -> bytes:
    """Return a pod as a row's document."""
    return json.dumps(codec.encode(pod), separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class StatusRow(Record):
    """The status of a pod as the API shows it."""

    uid: str
    name: str
    namespace: str
    version: int  # counts up with each change
    document: bytes  # the PodStatus's JSON
    finished: bool = False  # all of it is gone from the node: the API object may go (P-34, P-41)
    hooked: tuple[str, ...] = ()  # ids of containers whose postStart hook still runs: no probe yet

    @property
    def status(self) -> PodStatus:
        """The status."""
        return codec.read(PodStatus, json.loads(self.document))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a pod, with how often it did."""

    type: str  # Normal or Warning
    reason: str
    message: str
    field_path: str = ""  # spec.containers{name}, or "" for the pod
    count: int = 1
    first_ns: int = 0  # wall clock
    last_ns: int = 0


@dataclass(frozen=True, slots=True)
class EventsRow(Record):
    """The events of one pod, oldest first; a bounded number of them."""

    uid: str
    name: str
    namespace: str
    events: tuple[Event, ...] = ()


SOURCES_KEY: Final = "sources"  # of table events: no pod has this uid


@dataclass(frozen=True, slots=True)
class SourcesRow(Record):
    """Where pods come from, and what is wrong there; under ``sources`` in table ``events``."""

    delivered: dict[str, bool] = field(default_factory=dict)  # source -> gave its pods once (P-4)
    problems: tuple[str, ...] = ()  # one sentence for each file, field and value


class VolumeState(StrEnum):
    """Where a volume of a pod is."""

    PENDING = "pending"
    MOUNTED = "mounted"
    FAILED = "failed"  # it is tried again
    UNMOUNTING = "unmounting"


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """One volume of a pod."""

    name: str
    state: VolumeState = VolumeState.PENDING
    plugin: str = ""  # kubernetes.io/empty-dir, ...
    host_path: str = ""  # what containers mount; "" until it is mounted
    read_only: bool = False  # the volume itself is
    selinux_relabel: bool = False
    gid: int = 0  # a group that containers need for it (P-160); 0: none
    reason: str = ""  # why it is not mounted, in words
    since_ns: int = 0  # wall clock: in this state
    retry_ns: int = 0  # wall clock: tried again then
    operation: str = ""  # what is under way: "mount -t nfs", "NodePublishVolume of <driver>"
    operation_ns: int = 0  # wall clock: since when
    spec: str = ""  # the name of its directory, where that is not its own: a persistent volume's
    block: bool = False  # host_path is a device, for volumeDevices
    device: str = ""  # of what a controller attaches: its name in the node's status (L-13)
    claim: str = ""  # namespace/name of the claim that it is for
    fatal: str = ""  # the pod is to fail with this reason, for which ``reason`` is the message


@dataclass(frozen=True, slots=True)
class VolumeStats:
    """How full one volume of a pod is (L-50); -1: not known."""

    name: str
    at_ns: int = 0  # wall clock: when it was looked at
    capacity: int = -1  # bytes
    available: int = -1
    used: int = -1
    inodes: int = -1
    inodes_free: int = -1
    inodes_used: int = -1
    claim: str = ""  # namespace/name
    medium: str = ""  # of an emptyDir: "", Memory, HugePages
    size_limit: int = 0  # of an emptyDir, bytes; 0: none
    ephemeral: bool = False  # it is the pod's own use of the node's disk
    abnormal: bool | None = None  # what a CSI driver says of its condition; None: nothing
    message: str = ""  # and in which words
    error: str = ""  # why nothing newer is known


VOLUME_STATS: Final = "volumestats"


@dataclass(frozen=True, slots=True)
class VolumeStatsRow(Record):
    """How full the volumes of one pod are."""

    uid: str
    name: str
    namespace: str
    volumes: tuple[VolumeStats, ...] = ()


@dataclass(frozen=True, slots=True)
class MountsRow(Record):
    """The volumes of one pod; ``version`` is that of the pod's row which they are for.

    The row goes away when everything is unmounted and the pod's volume directories are gone.
    """

    uid: str
    version: int = 0
    volumes: tuple[VolumeRow, ...] = ()

    @property
    def mounted(self) -> bool:
        """Whether every volume is there."""
        return all(v.state is VolumeState.MOUNTED for v in self.volumes)
