"""What holds for every pod, whatever its containers do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet.pods.rows import Ending
from procs.syncloop.status.closing import publishable
from procs.syncloop.status.compute import ProbeView
from tests.unit.podstatus.scenes import NOW, SECOND, box, conditions, held, make_pod, ran, status_of

PROBE = {"tcpSocket": {"port": 1}}
POLICIES = ("", "Always", "OnFailure", "Never")
TERMINAL = ("Succeeded", "Failed")


@st.composite
def containers(draw, prefix, least):
    found = []
    for index in range(draw(st.integers(least, 2))):
        container = {"name": f"{prefix}{index}", "restartPolicy": draw(st.sampled_from(POLICIES))}
        for probe in ("readinessProbe", "startupProbe"):
            if draw(st.booleans()):
                container[probe] = PROBE
        found.append(container)
    return found


@st.composite
def pods(draw):
    metadata = {"generation": draw(st.integers(0, 3))}
    if draw(st.integers(0, 5)) == 0:
        metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    api = draw(st.sampled_from(["", "", "", "Pending", "Running", "Succeeded", "Failed"]))
    return make_pod(
        *draw(containers("c", 1)),
        init=draw(containers("i", 0)),
        metadata=metadata,
        status={"phase": api, "reason": draw(st.sampled_from(["", "Told"]))},
        restartPolicy=draw(st.sampled_from(POLICIES[1:])),
        ephemeralContainers=[{"name": "e", "image": "e:1"}] if draw(st.booleans()) else [],
        hostNetwork=draw(st.booleans()),
        readinessGates=[{"conditionType": "g"}] if draw(st.integers(0, 4)) == 0 else [],
    )


def names(pod):
    spec = pod.spec
    return [c.name for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]


@st.composite
def records(draw, pod):
    found = []
    states = st.sampled_from(["created", "running", "exited", "exited", "unknown"])
    for name in names(pod):
        attempt = draw(st.integers(0, 3))
        for back in range(draw(st.integers(0, 2))):
            if back > attempt:
                break
            state = "exited" if back else draw(states)
            code = draw(st.sampled_from([0, 0, 1, 137])) if state == "exited" else 0
            sandbox = draw(st.sampled_from(["s", "s", "t"]))
            found.append(ran(name, state, code, attempt - back, sandbox_id=sandbox))
    boxes = draw(
        st.sampled_from(
            [(), (box(),), (box(ready=False),), (box(), box("t", ready=False)), (box(), box("t"))]
        )
    )
    return None if draw(st.integers(0, 9)) == 0 else held(*found, boxes=boxes)


@st.composite
def contexts(draw, pod):
    ids = [f"{name}-{attempt}" for name in names(pod) for attempt in range(4)]
    flags = st.sampled_from([None, True, False])
    reasons = st.sampled_from([("CrashLoopBackOff", "m"), ("ErrImagePull", "")])
    context = {
        "now_ns": NOW + draw(st.integers(0, 100)) * SECOND,
        "reasons": draw(st.dictionaries(st.sampled_from(names(pod)), reasons, max_size=2)),
        "probes": draw(
            st.dictionaries(st.sampled_from(ids), st.builds(ProbeView, flags, flags), max_size=3)
        ),
        "unstarted": draw(st.frozensets(st.sampled_from(ids), max_size=1)),
        "ignored": draw(st.frozensets(st.sampled_from(ids), max_size=1)),
        "static": draw(st.booleans()),
        "restarting_all": draw(st.integers(0, 9)) == 0,
    }
    ending = draw(
        st.sampled_from(
            [
                None,
                None,
                Ending(grace=30),
                Ending(reason="Evicted", message="m", failed=True, disruption="d"),
            ]
        )
    )
    context["ending"] = ending
    context["stopped"] = ending is not None and draw(st.booleans())
    context["rejected"] = "OutOfcpu\tm" if draw(st.integers(0, 19)) == 0 else ""
    return context


@st.composite
def lives(draw, moments=3):
    """Return a pod and what is seen of it at some moments."""
    pod = draw(pods())
    return pod, [(draw(records(pod)), draw(contexts(pod))) for _ in range(moments)]


def computed(pod, seen):
    """Return the statuses at each moment, each computed after the one before."""
    statuses, previous = [], None
    for record, context in seen:
        previous = status_of(pod, record, previous=previous, **context)
        statuses.append(previous)
    return statuses


@settings(max_examples=100, deadline=None)
@given(lives())
def test_computing_again_changes_nothing(life):
    """The same input gives the same status, and a status does not change by itself."""
    pod, seen = life
    previous = None
    for record, context in seen:
        status = status_of(pod, record, previous=previous, **context)
        assert status_of(pod, record, previous=previous, **context) == status
        later = {**context, "now_ns": context["now_ns"] + 60 * SECOND}
        assert status_of(pod, record, previous=status, **later) == status
        previous = status


@settings(max_examples=50, deadline=None)
@given(lives(moments=4))
def test_p115_a_terminal_phase_is_never_left(life):
    """P-115: once Succeeded or Failed, for ever; and with the reason it had."""
    pod, seen = life
    found = ""
    for status in computed(pod, seen):
        if found:
            assert status.phase == found
        found = status.phase if status.phase in TERMINAL else found


@settings(max_examples=50, deadline=None)
@given(lives())
def test_each_container_has_one_status(life):
    """One for each of the spec, in order, each in exactly one state; none for refused pods."""
    pod, seen = life
    for (_, context), status in zip(seen, computed(pod, seen), strict=True):
        init, regular = status.init_container_statuses, status.container_statuses
        every = (*init, *regular, *status.ephemeral_container_statuses)
        if context["rejected"] and not every:
            continue
        assert [c.name for c in init] == [c.name for c in pod.spec.init_containers]
        assert [c.name for c in regular] == sorted(c.name for c in pod.spec.containers)
        assert len(every) == len(names(pod))
        for one in every:
            state = one.state
            assert sum(s is not None for s in (state.waiting, state.running, state.terminated)) == 1


@settings(max_examples=50, deadline=None)
@given(lives())
def test_conditions_agree_with_each_other(life):
    """Ready needs ContainersReady, that needs every container ready, and none is in the end."""
    pod, seen = life
    for status in computed(pod, seen):
        found = conditions(status)
        if not status.container_statuses:
            continue
        assert len(found) == len(status.conditions)
        if found["Ready"][0] == "True":
            assert found["ContainersReady"][0] == "True"
        if found["ContainersReady"][0] == "True":
            assert all(c.ready and c.started for c in status.container_statuses)
            assert found["Initialized"][0] == "True"
        if status.phase in TERMINAL:
            assert found["ContainersReady"][0] == "False"
        assert found["PodScheduled"][0] == "True"
        for one in status.container_statuses:
            assert not one.ready or one.state.running is not None


@settings(max_examples=50, deadline=None)
@given(lives())
def test_restart_counts_never_fall(life):
    """Nobody sees a container restart fewer times than before; a refused pod never had any."""
    pod, seen = life
    seen = [(record, {**context, "rejected": ""}) for record, context in seen]
    before = {}
    for status in computed(pod, seen):
        for one in (*status.init_container_statuses, *status.container_statuses):
            assert one.restart_count >= before.get(one.name, 0)
            before[one.name] = one.restart_count


@settings(max_examples=50, deadline=None)
@given(lives())
def test_p116_what_is_told_never_goes_back(life):
    """What the API server was told of a phase is terminal at most once, and then for good."""
    pod, seen = life
    pod = replace(pod, status=replace(pod.status, phase=""))
    told = None
    for (record, context), status in zip(seen, computed(pod, seen), strict=True):
        stopped = context["stopped"]
        next_told = publishable(status, record, told, stopped=stopped)
        if told is not None and told.phase in TERMINAL:
            assert next_told.phase == told.phase
        told = next_told
