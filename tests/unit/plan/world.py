"""A tiny model of a runtime that carries plans out, and checks each step against what must hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kubelet.api.container import is_sidecar
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.actions import KillReason
from procs.syncloop.runtime.hashing import HASH_ANNOTATION, container_hash
from procs.syncloop.runtime.kinds import StartKind, find, find_or_none, kind_of, names
from procs.syncloop.runtime.plan import Observed, plan
from procs.syncloop.runtime.sandboxes import why_new
from tests.unit.plan.made import CREATED, EXITED, RUNNING, UNKNOWN, box, broken, rec, record

LIVE = (RUNNING, UNKNOWN)


class World:
    """What a runtime holds of one pod, newest first, and what happens to it."""

    def __init__(self, pod, boxes=(), containers=(), *, from_nothing=True):
        self.pod = pod
        self.boxes = list(boxes)
        self.containers = list(containers)
        self.from_nothing = from_nothing  # all history is known, so orders can be checked
        self.counter = 1000
        self.started = {}
        self.liveness_failed = set()
        self.broken_off = set()
        self.deleted = False
        self.runs = Counter()  # name -> how often it ran
        self.changes = Counter()  # name -> how often its image changed
        self.through = set()  # (sandbox, init container): ended well or started there
        self.finished = False
        self.kill_code = 137

    def observed(self):
        return Observed(
            record(*self.containers, boxes=self.boxes),
            started=dict(self.started),
            liveness_failed=frozenset(self.liveness_failed),
            broken_off=frozenset(self.broken_off),
            deleted=self.deleted,
        )

    # What happens by itself.

    def index(self, found):
        return next(i for i, c in enumerate(self.containers) if c.id == found.id)

    def change(self, found, **changes):
        self.containers[self.index(found)] = replace(found, **changes)

    def end(self, found, code, reason=""):
        self.change(found, state=EXITED, exit_code=code, reason=reason)
        if code == 0 and reason != "OOMKilled":
            self.through.add((found.sandbox_id, found.name))

    def kill(self, found):
        """Stop a container; an init container that is killed has not done its work."""
        is_init = kind_of(self.pod, found.name) is StartKind.INIT
        code = self.kill_code if found.state is RUNNING and not is_init else 137
        self.change(found, state=EXITED, exit_code=code)

    def end_box(self):
        self.boxes[0] = box(self.boxes[0].id, self.boxes[0].attempt, ready=False)

    # Plans.

    def settle(self, most):
        """Carry out plans until nothing is left to do, within so many steps."""
        for _ in range(most):
            found = plan(self.pod, self.observed())
            self.check(found)
            if found.nothing:
                self.check_single()
                return
            for act in self.actions(found):
                act()
        raise AssertionError(f"no rest after {most} plans: {found}")

    def die_within(self, steps, how):
        """Carry out a plan for some steps; the last, if it is a start, is left in one of states."""
        found = plan(self.pod, self.observed())
        self.check(found)
        for act in self.actions(found, how)[:steps]:
            act()

    def actions(self, found, cut_start=None):
        """Return the single steps of a plan, in the order of an executor (P-73)."""
        acts = []
        if found.kill_pod:
            acts += [lambda c=c: self.kill(c) for c in self.containers if c.state in LIVE]
            acts += [self._stop_boxes]
        by_id = {c.id: c for c in self.containers}
        acts += [lambda k=k: self.kill(by_id[k.id]) for k in found.kill]
        acts += [lambda id_=id_: self._remove(id_) for id_ in found.remove]
        if found.restart_all:
            acts += [self.through.clear]
        if found.new_sandbox:
            acts += [lambda: self._new_box(found.sandbox_attempt)]
        for start in found.start:
            if not start.adopt:
                acts += [lambda s=start: self._create(s)]
            acts += [lambda s=start: self._start(s, cut_start)]
        return acts

    def _stop_boxes(self):
        self.boxes = [box(b.id, b.attempt, ready=False) for b in self.boxes]

    def _remove(self, id_):
        (gone,) = [c for c in self.containers if c.id == id_]
        assert gone.state not in LIVE, f"{gone} is removed while it may run"
        self.containers.remove(gone)

    def _new_box(self, attempt):
        assert attempt not in {b.attempt for b in self.boxes}, "the sandbox's name is taken"
        self.counter += 1
        self.boxes.insert(0, box(f"s{self.counter}", attempt))

    def _create(self, start):
        taken = {(c.name, c.attempt) for c in self.containers}
        assert (start.name, start.attempt) not in taken, f"the name of {start} is taken"
        self.counter += 1
        hashed = {HASH_ANNOTATION: container_hash(find(self.pod, start.name))}
        made = rec(
            start.name,
            CREATED,
            f"c{self.counter}",
            attempt=start.attempt,
            sandbox=self.boxes[0].id,
            annotations=hashed,
            created_at_ns=self.counter,
        )
        self.containers.insert(0, made)

    def _start(self, start, cut):
        """Start what was made for it, or have that cut off: it ran, or it is given up."""
        (found,) = [
            c
            for c in self.containers
            if c.name == start.name and c.attempt == start.attempt and c.state is CREATED
        ]
        assert start.adopt in {"", found.id}
        live = [c for c in self.containers if c.name == start.name and c.state in LIVE]
        assert not live, f"{start} beside {live}"
        self.check_order(start)
        if cut == "given-up":
            given_up = broken("x")
            self.broken_off.add(found.id)
            self.change(found, state=EXITED, exit_code=128, reason=given_up.reason)
            return
        self.change(found, state=RUNNING)
        self.runs[start.name] += 1
        self._note_started(find(self.pod, start.name), found)

    def _note_started(self, container, found):
        if container.startup_probe is None and is_sidecar(container):
            self.through.add((found.sandbox_id, container.name))

    def pass_startup(self, found):
        self.started[found.id] = True
        self.through.add((found.sandbox_id, found.name))

    # What must hold.

    def check(self, found):
        """A plan has a cause for each kill, and starts nothing of a pod that is over."""
        if self.finished or self.deleted:
            assert not found.start, f"a finished pod starts {found.start}"
            assert not found.new_sandbox
        self.finished = self.finished or found.finished
        ids = [k.id for k in found.kill]
        assert len(set(ids)) == len(ids), "killed twice"
        assert len(set(found.remove)) == len(found.remove), "removed twice"
        for kill in found.kill:
            self._check_kill(kill)
        if found.kill_pod:
            self._check_kill_pod(found)
        if found.new_sandbox:
            assert why_new(self.pod, self.observed().record)

    def _check_kill(self, kill):
        (found,) = [c for c in self.containers if c.id == kill.id]
        assert found.state in LIVE, f"{kill} of what does not run"
        here = bool(self.boxes) and found.sandbox_id == self.boxes[0].id
        causes = {
            KillReason.CHANGED: here and not self._matches(found),
            KillReason.LIVENESS: found.id in self.liveness_failed,
            KillReason.STARTUP: False,
            KillReason.UNKNOWN: found.state is UNKNOWN,
            KillReason.DUPLICATE: here and self._newer_runs(found),
            KillReason.OLD_SANDBOX: not here,
            KillReason.NOT_IN_SPEC: found.name not in names(self.pod),
            KillReason.RESTART_ALL: self._all_restart(),
        }
        assert causes[kill.reason], f"{kill} of {found} has no cause"

    def _check_kill_pod(self, found):
        assert found.cause
        assert not found.kill
        if why_new(self.pod, self.observed().record):
            return
        runs = [
            c
            for c in self.containers
            if c.state is RUNNING
            and c.sandbox_id == self.boxes[0].id
            and kind_of(self.pod, c.name) is StartKind.REGULAR
        ]
        assert not runs, f"{found.cause}, and yet there is {runs}"

    def _matches(self, found):
        wanted = find_or_none(self.pod, found.name)
        return wanted is None or found.annotations[HASH_ANNOTATION] == container_hash(wanted)

    def _newer_runs(self, found):
        newer = self.containers[: self.index(found)]
        return any(
            c.name == found.name and c.state is RUNNING and c.sandbox_id == found.sandbox_id
            for c in newer
        )

    def _all_restart(self):
        return any(
            restart.restarts_all(find(self.pod, c.name), c)
            for c in self.containers
            if c.state is EXITED and c.name in names(self.pod)
        )

    def check_single(self):
        """At rest nothing runs twice, and nothing runs outside of the sandbox."""
        running = [c for c in self.containers if c.state is RUNNING]
        assert max(Counter(c.name for c in running).values(), default=0) <= 1
        assert all(c.sandbox_id == self.boxes[0].id for c in running)

    def check_order(self, start):
        """All init containers before it are through, in this sandbox."""
        if not self.from_nothing or start.kind is StartKind.EPHEMERAL:
            return
        for container in self.pod.spec.init_containers:
            if container.name == start.name:
                return
            assert (self.boxes[0].id, container.name) in self.through, (
                f"{start} before {container.name} is through"
            )
