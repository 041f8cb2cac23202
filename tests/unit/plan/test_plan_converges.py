"""Whatever happens to a pod, plans lead to rest, and never to what must not be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet.api.container import is_sidecar
from procs.syncloop.gc.containers import select_extra
from procs.syncloop.gc.policy import GcPolicy
from procs.syncloop.runtime import restart
from procs.syncloop.runtime.plan import plan
from tests.unit.plan.made import (
    CREATED,
    EXITED,
    PROBE,
    RUNNING,
    UNKNOWN,
    box,
    con,
    debug,
    pod,
    rec,
    record,
    rule,
    side,
)
from tests.unit.plan.world import World

POLICIES = ("Always", "OnFailure", "Never")
CODES = st.sampled_from([0, 1, 3, 137])
RULES = st.sampled_from([(rule("Restart", 3),), (rule("RestartAllContainers", 3, 137),)])
MOST = 24  # plans to rest: a few for the sandbox, and two for each container


@st.composite
def regular(draw, name, *, rules):
    own = draw(st.sampled_from(["", "", *POLICIES]))
    given_rules = draw(RULES) if rules and own and draw(st.booleans()) else ()
    return con(name, restart_policy=own, restart_policy_rules=given_rules)


@st.composite
def init(draw, name):
    kind = draw(st.sampled_from(["init", "side", "probed"]))
    if kind == "init":
        return con(name)
    return side(name, startup_probe=PROBE if kind == "probed" else None)


@st.composite
def pods(draw, *, rules=True):
    return pod(
        *(draw(regular(name, rules=rules)) for name in "ab"[: draw(st.integers(1, 2))]),
        policy=draw(st.sampled_from(POLICIES)),
        init=[draw(init(name)) for name in "ijk"[: draw(st.integers(0, 3))]],
        ephemeral=[debug("d")][: draw(st.integers(0, 1))],
    )


def pick(data, among):
    return data.draw(st.sampled_from(among)) if among else None


def happen(data, world):
    """Let one thing happen to a pod, or to us."""
    what = data.draw(
        st.sampled_from(
            ["exit", "exit", "exit", "startup", "liveness", "unknown", "box", "die", "gc", "image"]
        )
    )
    running = pick(data, [c for c in world.containers if c.state is RUNNING])
    if what == "exit" and running:
        reason = data.draw(st.sampled_from(["", "", "OOMKilled"]))
        world.end(running, data.draw(CODES), reason)
    elif what == "startup" and running:
        world.pass_startup(running)
    elif what == "liveness" and running:
        world.liveness_failed.add(running.id)
    elif what == "unknown" and running:
        world.change(running, state=UNKNOWN)
    elif what == "box" and world.boxes:
        world.end_box()
    elif what == "die":
        how = data.draw(st.sampled_from([None, "given-up"]))
        world.die_within(data.draw(st.integers(0, 6)), how)
    elif what == "gc":
        prune(world)
    elif what == "image":
        change_image(data, world)


def prune(world):
    held = record(*world.containers, boxes=world.boxes)
    gone = {dead.container.id for dead in select_extra(held, GcPolicy())}
    world.containers = [c for c in world.containers if c.id not in gone]


def change_image(data, world):
    """Give a container another image, as an update of its pod does."""
    spec = world.pod.spec
    changed = data.draw(st.sampled_from(spec.containers))
    image = f"{changed.image}x"
    world.changes[changed.name] += 1
    containers = tuple(replace(c, image=image) if c is changed else c for c in spec.containers)
    world.pod = replace(world.pod, spec=replace(spec, containers=containers))


@settings(max_examples=120, deadline=None)
@given(data=st.data(), wanted=pods())
def test_a_pod_comes_to_rest_after_whatever_happens(data, wanted):
    """From nothing: names are free, orders are kept, kills have causes, nothing runs twice."""
    world = World(wanted)
    world.kill_code = data.draw(st.sampled_from([0, 137]))
    world.settle(MOST)
    for _ in range(data.draw(st.integers(0, 10))):
        happen(data, world)
        if data.draw(st.booleans()):
            world.settle(MOST)
    world.settle(MOST)


@settings(max_examples=120, deadline=None)
@given(data=st.data(), wanted=pods(rules=False))
def test_what_runs_once_runs_once(data, wanted):
    """Whatever happens to the pod or to us; a new image is a new container (P-78, P-80)."""
    world = World(wanted)
    world.settle(MOST)
    for _ in range(data.draw(st.integers(1, 12))):
        happen(data, world)
        world.settle(MOST)
    once = [c for c in wanted.spec.containers if restart.policy(wanted, c) == "Never"]
    if len(once) == len(wanted.spec.containers) and wanted.spec.restart_policy == "Never":
        once += [c for c in wanted.spec.init_containers if not is_sidecar(c)]
    for container in (*once, *wanted.spec.ephemeral_containers):
        assert world.runs[container.name] <= 1 + world.changes[container.name], container.name


@st.composite
def records(draw, wanted):
    """Any sandboxes, and any containers in them: duplicates, strangers, leftovers."""
    boxes = [
        box(f"s{n}", n, ready=draw(st.booleans())) for n in reversed(range(draw(st.integers(0, 3))))
    ]
    spec = wanted.spec
    names = [c.name for c in (*spec.containers, *spec.init_containers)]
    names += [c.name for c in spec.ephemeral_containers]
    containers = []
    for number in reversed(range(draw(st.integers(0, 8)))):
        name = draw(st.sampled_from([*names, "stranger"]))
        state = draw(st.sampled_from([CREATED, RUNNING, RUNNING, EXITED, EXITED, UNKNOWN]))
        containers.append(
            rec(
                name,
                state,
                f"c{number}",
                attempt=number,
                sandbox=draw(st.sampled_from(["lost", *(b.id for b in boxes)])),
                image=draw(st.sampled_from(["", "", "other"])),
                code=draw(CODES) if state is EXITED else 0,
            )
        )
    return boxes, containers


@settings(max_examples=120, deadline=None)
@given(data=st.data(), wanted=pods(), deleted=st.booleans())
def test_any_state_of_the_runtime_leads_to_rest(data, wanted, deleted):
    """However it came about; a deleted pod starts nothing on the way (P-83)."""
    boxes, containers = data.draw(records(wanted))
    world = World(wanted, boxes, containers, from_nothing=False)
    world.deleted = deleted
    world.liveness_failed = {c.id for c in containers if data.draw(st.booleans())}
    world.kill_code = data.draw(st.sampled_from([0, 137]))
    if deleted:
        world.check(first := plan(world.pod, world.observed()))
        assert first.kill == ()
        return
    world.settle(MOST)
