"""The probes of one container as they go on, and the rows that tell of them.

What changes with each probe is kept as the plain map that its row is made of: a probe costs no
conversion, only its own few numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from kubelet.api.handlers import Probe
from kubelet.pods.probes import BUCKETS, Finding, ProbeKind, Track, Verdict
from kubelet.pods.wire import to_map
from procs.prober import track
from procs.prober.job import Job
from procs.prober.lookout import Subject
from procs.prober.schedule import SECOND, slot_of
from procs.prober.track import Standing, Thresholds

SAID_LIMIT: Final = 256  # characters in the row that is written with every probe
MESSAGE_LIMIT: Final = 1024  # in the row that is written with a verdict

HANDLERS: Final = ("exec", "http_get", "tcp_socket", "grpc")  # by the members of a Probe


def handler_of(probe: Probe) -> str:
    """Return how a probe is made; "" if it does not say."""
    return next((name for name in HANDLERS if getattr(probe, name) is not None), "")


class Course:
    """One probe of one container. Times are monotonic nanoseconds."""

    __slots__ = (
        "at",
        "began",
        "case",
        "due",
        "handler",
        "job",
        "key",
        "kind",
        "limits",
        "name",
        "owed",
        "period",
        "running",
        "slot",
        "standing",
        "tally",
        "waiting",
    )

    def __init__(self, case: Case, job: Job, standing: Standing, tally: dict[str, Any]) -> None:
        self.case = case
        self.kind = job.kind
        self.key = job.kind.value
        self.name = f"{job.kind} probe of {case.id[:12]}"
        self.standing = standing
        self.tally = tally
        self.due = tally.get("due_ns", 0)
        self.at = 0  # on the wheel for then
        self.began = 0  # the last one, in this life of the process
        self.owed = 0  # when it should have been begun, but for us
        self.running = False
        self.waiting = False  # for another command of its container to end
        self.take(job)

    def take(self, job: Job) -> None:
        """Take over what the pod's spec and address are now."""
        self.job = job
        probe = job.probe
        self.handler = handler_of(probe)
        self.period = (probe.period_seconds or 10) * SECOND
        self.slot = slot_of(f"{job.container_id}/{self.key}", self.period)
        self.limits = Thresholds(probe.success_threshold or 1, probe.failure_threshold or 3)

    @property
    def held(self) -> bool:
        """Whether there is nothing more to be asked (B-9)."""
        return track.is_held(self.kind, self.standing)

    def note(self, result: str, began_wall_ns: int, took_ns: int, said: str) -> None:
        """Count a round: ``succeeded``, ``failed`` or ``unknown`` (B-17)."""
        tally = self.tally
        tally["last_ns"] = began_wall_ns
        tally["took_ns"] = took_ns
        tally["said"] = said[:SAID_LIMIT]
        tally[result] = tally.get(result, 0) + 1
        if result != "failed":
            seconds = took_ns / SECOND
            tally["seconds"] = tally.get("seconds", 0.0) + seconds
            tally["buckets"][bisect_left(BUCKETS, seconds)] += 1

    def mark(self) -> None:
        """Write into the map how far it is."""
        tally, standing = self.tally, self.standing
        tally["due_ns"] = self.due
        tally["streak"] = standing.streak
        tally["failing"] = standing.failing
        tally["held"] = self.held


class Case:
    """One container with its probes."""

    __slots__ = (
        "commands",
        "container",
        "courses",
        "ending",
        "findings",
        "id",
        "left_ns",
        "opens_ns",
        "pod",
        "row",
        "verdicts",
    )

    def __init__(self, id_: str, pod: str, container: str, left_ns: int) -> None:
        self.id = id_
        self.pod = pod
        self.container = container
        self.courses: dict[ProbeKind, Course] = {}
        self.ending = False
        self.left_ns = left_ns  # since when it is not to be seen, or nobody cared; 0: it is
        self.opens_ns: dict[ProbeKind, int] = {}  # when its initial delays are over
        self.commands = False  # one of its exec probes is under way (at most one is)
        self.findings: dict[str, dict[str, Any]] = {}
        self.row: dict[str, Any] = {"id": id_, "pod": pod, "container": container, "tracks": {}}
        self.verdicts: dict[str, Any] = {
            "id": id_,
            "pod": pod,
            "container": container,
            "found": self.findings,
        }

    @property
    def tracks(self) -> dict[str, dict[str, Any]]:
        """How far each probe is, by kind."""
        found: dict[str, dict[str, Any]] = self.row["tracks"]
        return found

    @property
    def startup(self) -> Standing | None:
        """Where the startup probe stands; None without one."""
        course = self.courses.get(ProbeKind.STARTUP)
        return course.standing if course is not None else None

    def take(self, subject: Subject) -> list[Course]:
        """Take over what the pod is now; return the probes that were not known in this life."""
        new = []
        for kind, job in subject.jobs.items():
            course = self.courses.get(kind)
            if course is not None:
                if course.job is not job:
                    course.take(job)
                continue
            tally = self.tracks.setdefault(kind.value, {"buckets": [0] * (len(BUCKETS) + 1)})
            course = Course(self, job, self._standing(kind, subject), tally)
            self.courses[kind] = course
            new.append(course)
        return new

    def _standing(self, kind: ProbeKind, subject: Subject) -> Standing:
        found, tally = self.findings.get(kind.value), self.tracks[kind.value]
        if found is None:
            return track.initial(kind, started=subject.started, ready=subject.ready)
        finding = Finding(Verdict(found["verdict"]))
        past = Track(streak=tally.get("streak", 0), failing=tally.get("failing", False))
        return track.remembered(kind, finding, past)

    def find(self, course: Course, wall_ns: int, message: str = "") -> None:
        """Write down a verdict."""
        finding = Finding(course.standing.verdict, wall_ns, message[:MESSAGE_LIMIT])
        self.findings[course.key] = to_map(finding)

    def inherit(self, former: Case) -> None:
        """Go on with the counts of the container that this one takes the place of (B-2, B-17)."""
        for kind, tally in former.tracks.items():
            kept = {name: tally[name] for name in _COUNTS if name in tally}
            self.tracks[kind] = {**kept, "buckets": list(tally["buckets"])}


_COUNTS: Final[tuple[str, ...]] = ("succeeded", "failed", "unknown", "seconds")


def tally_of(past: Track) -> dict[str, Any]:
    """Return a predecessor's track as the map that goes on."""
    room = len(BUCKETS) + 1
    buckets = past.buckets if len(past.buckets) == room else (0,) * room
    return {**to_map(past), "buckets": list(buckets)}
