"""All probes of all containers: taken up, made in time, written down, let go.

What is to be probed comes from the lookout, when from the schedule, what it means from the track;
this is where they meet. Nothing here waits but the tasks that make a probe each.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kubelet import logging as klog
from kubelet.pods.probes import ProbeKind, Verdict
from kubelet.process import Process
from kubelet.process.operations import remember_pod
from procs.prober import rounds, schedule, track
from procs.prober.book import Book
from procs.prober.clock import Alarm, Clock
from procs.prober.course import Case, Course
from procs.prober.events import Teller, event_of
from procs.prober.job import Outcome, ProbeError, Result
from procs.prober.lookout import Lookout, Sight, Subject
from procs.prober.schedule import SECOND, Plan, Wheel

log = klog.get_logger(__name__)

OLD_NS: Final = 10 * SECOND  # before our start: such a container is not a new one (B-7)
FORGET_SECONDS: Final = 60.0  # for a pod's row to come back: its table may have been rebuilt
COMMAND: Final = "exec"
_LATE: Final = (
    (SECOND, "probes_late_1s"),
    (100_000_000, "probes_late_100ms"),
    (10_000_000, "probes_late_10ms"),
)


class Prober:
    """Makes the probes of this node."""

    def __init__(
        self,
        process: Process,
        handlers: rounds.Handlers,
        clock: Clock | None = None,
    ) -> None:
        self._process = process
        self._handlers = handlers
        clock = clock or Clock()
        self._clock, self._wall, self._later = clock.mono, clock.wall, clock.later
        self._born_ns = self._wall()
        self._row = process.row
        self._book = Book(process, self._clock)
        self._teller = Teller(process)
        self._lookout = Lookout(process.tables, process.quarantined, self._seen)
        self._wheel: Wheel[Course] = Wheel()
        self._pods: dict[str, dict[str, Case]] = {}  # by uid and container
        self._forgetting: dict[str, Alarm] = {}  # pods without a row
        self._timer: Alarm | None = None
        self._rings_ns = 0  # what the timer is set for
        self._flying = 0  # probes under way
        self._commands = 0  # those of them that are commands

    def start(self) -> None:
        """Take over what a predecessor left, and begin."""
        for case in self._book.load():
            self._pods.setdefault(case.pod, {})[case.container] = case
        self._teller.start()
        self._process.on_hint(self._lookout.hinted)
        self._lookout.start()
        for uid in self._pods:
            if uid not in self._process.quarantined and not self._lookout.knows(uid):
                self._forget_later(uid)
        self._arm()

    def close(self) -> None:
        """Begin nothing more."""
        for timer in (self._timer, *self._forgetting.values()):
            if timer is not None:
                timer.cancel()

    # What there is to be probed.

    def _seen(self, sight: Sight) -> None:
        """Take over what is to be probed of a pod now."""
        if sight.over or sight.deleted:
            self._forget(sight.uid)
        elif sight.absent:
            self._rest_all(sight.uid, set())
            self._forget_later(sight.uid)
        else:
            timer = self._forgetting.pop(sight.uid, None)
            if timer is not None:
                timer.cancel()
            for subject in sight.subjects:
                self._take_up(sight, subject)
            self._rest_all(sight.uid, {subject.name for subject in sight.subjects})
        self._arm()

    def _take_up(self, sight: Sight, subject: Subject) -> None:
        """Begin to probe a container, or go on with it."""
        cases = self._pods.setdefault(sight.uid, {})
        case = cases.get(subject.name)
        former = None
        if case is None or case.id != subject.id:
            former, case = case, Case(subject.id, sight.uid, subject.name, left_ns=0)
            case.row.update(name=sight.name, namespace=sight.namespace)
            cases[subject.name] = case
        if former is not None:
            case.inherit(former)
            self._drop(former)
        case.ending = sight.ending
        now = self._clock()
        new = self._open(case, subject, now)
        left, case.left_ns = case.left_ns, 0
        for course in case.courses.values():
            self._plan(course, subject, now, left)
        if new:
            self._write_first(case, new)
        if case.ending:
            self._end(case)
        elif sight.fresh and not (new or left):
            self._hurry(case, now)

    def _open(self, case: Case, subject: Subject, now: int) -> list[Course]:
        """Return those probes of a container that are new in this life of the process."""
        new = case.take(subject)
        # The status has full seconds: a delay is counted from the next, unless that is to come.
        wall = self._wall()
        started = min(subject.started_ns + SECOND, wall)
        for course in new:
            delay = (course.job.probe.initial_delay_seconds or 0) * SECOND
            case.opens_ns[course.kind] = now + started + delay - wall
        return new

    def _write_first(self, case: Case, new: list[Course]) -> None:
        """Write what a successor must know of probes that have not been made yet."""
        unknown = [course for course in new if course.key not in case.findings]
        for course in unknown:
            case.find(course, self._wall())
        if unknown:
            self._book.open(case)
        elif self._book.lost:
            self._book.put(case)

    def _plan(self, course: Course, subject: Subject, now: int, left: int) -> None:
        """Have a probe made at its time, unless it already is to be or there is nothing to ask."""
        if course.running or course.waiting or course.at or self._is_idle(course):
            return
        if course.due:
            plan = schedule.resumed(course.due, now, left or now, course.period, course.slot)
            if plan.due > course.due:
                self._row.count("probes_missed", (plan.due - course.due) // course.period or 1)
            self._put(course, plan, owed=plan.due)
            return
        opens = course.case.opens_ns[course.kind]
        old = self._book.lost and subject.started_ns < self._born_ns - OLD_NS and opens <= now
        if old:
            plan = schedule.spread(now, course.period, course.slot)
        else:
            plan = schedule.first(opens, now)
        self._put(course, plan, owed=plan.at)

    def _is_idle(self, course: Course) -> bool:
        """Tell whether there is nothing to be asked for now (B-5, B-6, B-9)."""
        case, kind = course.case, course.kind
        if case.left_ns or (case.ending and kind is not ProbeKind.READINESS):
            return True
        return course.held or track.waits(kind, case.startup)

    def _end(self, case: Case) -> None:
        """Stop what is not asked of a pod that ends (B-6)."""
        changed = False
        for course in case.courses.values():
            standing = track.ended(course.kind, course.standing)
            if course.kind is ProbeKind.READINESS:
                continue
            self._wheel.drop(course)
            course.waiting = False
            if standing.verdict is not course.standing.verdict:
                course.standing, changed = standing, True
                case.find(course, self._wall())
        if changed:
            self._book.tell(case)
            self._wake(case, self._clock())

    def _hurry(self, case: Case, now: int) -> None:
        """Ask at once whether a container is ready that is not, as its status is news (B-11)."""
        course = case.courses.get(ProbeKind.READINESS)
        if course is None or not course.at or course.standing.verdict is Verdict.SUCCESS:
            return
        at = max(now, course.began + schedule.TRIGGER_NS, case.opens_ns[course.kind])
        if at < course.at:
            self._put(course, Plan(at, at), owed=at)

    # What there is no longer.

    def _rest_all(self, uid: str, seen: set[str]) -> None:
        """Ask nothing of the containers of a pod that are not to be seen, and keep their rows."""
        for name, case in self._pods.get(uid, {}).items():
            if name not in seen and not case.left_ns:
                self._rest(case)

    def _rest(self, case: Case) -> None:
        case.left_ns = self._clock()
        for course in case.courses.values():
            self._wheel.drop(course)
            course.waiting = False

    def _drop(self, case: Case) -> None:
        self._rest(case)
        self._book.drop(case)

    def _forget_later(self, uid: str) -> None:
        if uid in self._pods and uid not in self._forgetting:
            alarm = self._later(FORGET_SECONDS, partial(self._forget, uid))
            self._forgetting[uid] = alarm

    def _forget(self, uid: str) -> None:
        """Take away all that there is of a pod."""
        timer = self._forgetting.pop(uid, None)
        if timer is not None:
            timer.cancel()
        for case in self._pods.pop(uid, {}).values():
            self._drop(case)

    # Time.

    def _put(self, course: Course, plan: Plan, owed: int) -> None:
        course.owed = owed
        self._wheel.put(course, plan)
        course.mark()

    def _arm(self) -> None:
        """Have the timer ring for the next probe."""
        self._row.depth("probes", len(self._wheel) + self._flying)
        earliest = self._wheel.earliest()
        if self._timer is not None:
            if earliest == self._rings_ns:
                return
            self._timer.cancel()
            self._timer = None
        if earliest:
            self._rings_ns = earliest
            seconds = max(0, earliest - self._clock()) / SECOND
            self._timer = self._later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock()
        for course in self._wheel.take(now):
            self._begin(course, now)
        self._arm()

    # One probe.

    def _begin(self, course: Course, now: int) -> None:
        """Make a probe beside; commands of one container are run one after the other."""
        if course.handler == COMMAND:
            if course.case.commands:
                course.waiting = True
                return
            course.case.commands = True
            self._commands += 1
            self._row.depth("exec", self._commands)
        late = now - course.owed
        if late >= _LATE[-1][0]:
            self._row.count(next(name for limit, name in _LATE if late >= limit))
        self._row.count("probes_begun")
        self._flying += 1
        course.running, course.began = True, now
        self._process.spawn(self._run(course, course.handler), name=course.name)

    async def _run(self, course: Course, handler: str) -> None:
        wall = self._wall()
        try:
            found = await rounds.make(self._handlers.get(handler), course.job)
            self._over(course, command=handler == COMMAND)
            if not self._is_idle(course):  # it may be gone by now, or its pod end
                self._found(course, found, wall)
        except Exception as err:
            remember_pod(err, course.case.pod)
            raise
        self._arm()

    def _over(self, course: Course, *, command: bool) -> None:
        """Go on after a probe has ended, with a command that had to wait for it."""
        course.running = False
        self._flying -= 1
        if not command:
            return
        self._commands -= 1
        self._row.depth("exec", self._commands)
        case = course.case
        case.commands = False
        for other in case.courses.values():
            if other.waiting:
                other.waiting = False
                other.owed = now = self._clock()  # its container was busy, not we
                self._begin(other, now)

    def _found(self, course: Course, found: Outcome | ProbeError, wall: int) -> None:
        """Draw conclusions from a probe, and have the next one made."""
        was, now = course.standing, self._clock()
        said = self._note(course, found, wall, now - course.began)
        if isinstance(found, Outcome):
            failed = found.result is Result.FAILURE
            course.standing = track.after(course.kind, was, course.limits, failed=failed)
        if course.standing.verdict is not was.verdict:
            self._verdict(course, was.verdict, said)
        if course.held:
            course.mark()
        else:
            settled = course.standing.settled
            plan = schedule.following(course.due, now, course.period, course.slot, settled=settled)
            self._put(course, plan, owed=plan.at)
        self._book.put(course.case)

    def _note(self, course: Course, found: Outcome | ProbeError, wall: int, took: int) -> str:
        """Count what came of a probe, and have an event told of what is worth one."""
        event = event_of(course.case.pod, course.job, found)
        if event is not None:
            self._teller.tell(event)
            log.v(
                1,
                "Probe did not succeed",
                pod=event.pod,
                container=event.container,
                text=event.message,
            )
        if isinstance(found, ProbeError):
            self._row.count("probes_unknown")
            said = str(found)
            course.note("unknown", wall, took, said)
            return said
        if found.late_ns > 0:
            self._row.count("probes_ours_late")
        if found.result is Result.FAILURE:
            self._row.count("probes_failed")
            if took >= course.job.seconds * SECOND:
                self._row.count("probes_app_timeout")
            course.note("failed", wall, took, found.output)
            return found.output
        warned = found.result is Result.WARNING
        self._row.count("probes_warned" if warned else "probes_succeeded")
        said = found.output if warned else ""
        course.note("succeeded", wall, took, said)
        return said

    def _verdict(self, course: Course, was: Verdict, said: str) -> None:
        case, now = course.case, course.standing.verdict
        failed = now is Verdict.FAILURE
        case.find(course, self._wall(), said if failed else "")
        self._book.tell(case)
        self._row.count("verdicts")
        fields = {"pod": case.pod, "container": case.container, "probe": course.key}
        if failed:
            log.info("Probe failed often enough", **fields, was=was.value, said=said[:200])
        else:
            log.v(2, "Probe succeeded often enough", **fields, was=was.value)
        if course.kind is ProbeKind.STARTUP:
            self._wake(case, self._clock())

    def _wake(self, case: Case, now: int) -> None:
        """Begin at once what has waited for the container to start (B-5, B-11)."""
        for course in case.courses.values():
            if not (course.running or course.at or course.waiting or self._is_idle(course)):
                plan = schedule.first(case.opens_ns[course.kind], now)
                self._put(course, plan, owed=plan.at)
