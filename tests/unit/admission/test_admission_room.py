"""What fits on a node, and who makes room for critical pods."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procs.syncloop.admission import Preempt, Refusal
from procs.syncloop.admission.preemption import preemptable
from procs.syncloop.admission.room import lacking
from tests.unit.admission.asking import answer, ask, make_pod, make_site

CRITICAL = 2_000_000_000


def too_much(name, requested, used, capacity):
    message = (
        f"Node didn't have enough resource: {name}, requested: {requested}, "
        f"used: {used}, capacity: {capacity}"
    )
    return f"OutOf{name}", message


@pytest.mark.parametrize(
    ("requests", "used", "site", "wanted"),
    [
        ({"cpu": "100m"}, {"cpu": "1900m"}, {}, None),
        ({"cpu": "101m"}, {"cpu": "1900m"}, {}, too_much("cpu", 101, 1900, 2000)),
        ({"memory": "5Gi"}, {}, {}, too_much("memory", 5 << 30, 0, 4 << 30)),
        ({"cpu": "3", "memory": "5Gi"}, {}, {}, too_much("cpu", 3000, 0, 2000)),
        (
            {"ephemeral-storage": "9Gi"},
            {"ephemeral-storage": "2Gi"},
            {},
            too_much("ephemeral-storage", 9 << 30, 2 << 30, 10 << 30),
        ),
        ({}, {"cpu": "9"}, {}, None),
        ({"example.com/gpu": "1"}, {}, {}, None),
        (
            {"example.com/gpu": "1"},
            {"example.com/gpu": "1"},
            {"allocatable": {"example.com/gpu": "1"}},
            too_much("example.com/gpu", 1, 1, 1),
        ),
        ({"hugepages-2Mi": "2Mi"}, {}, {}, too_much("hugepages-2Mi", 2 << 20, 0, 0)),
        ({"cpu": "3"}, {}, {"allocatable": {}}, too_much("cpu", 3000, 0, 2000)),
        ({"cpu": "3"}, {}, {"allocatable": {}, "cpu_milli": 0}, None),
        ({"memory": "2"}, {}, {"allocatable": {}, "memory": 1}, too_much("memory", 2, 0, 1)),
    ],
)
def test_a4_resources(requests, used, site, wanted):
    """A-4: what is asked for, what others have, and what there is."""
    pod = make_pod(requests=requests)
    assert answer(pod, [make_pod("old", requests=used)], site=make_site(**site)) == wanted


@pytest.mark.parametrize(
    ("others", "site", "wanted"),
    [
        (1, {"max_pods": 2}, None),
        (2, {"max_pods": 2}, too_much("pods", 1, 2, 2)),
        (2, {"pods_per_core": 1}, too_much("pods", 1, 2, 2)),
        (1, {"pods_per_core": 1}, None),
        (2, {"max_pods": 2, "pods_per_core": 50}, too_much("pods", 1, 2, 2)),
    ],
)
def test_a4_the_number_of_pods(others, site, wanted):
    """A-4: maxPods, and podsPerCore if that is less."""
    running = [make_pod(f"old{i}") for i in range(others)]
    assert answer(make_pod(), running, site=make_site(**site)) == wanted


def names(found):
    return sorted(pod.name for pod in found.victims)


VICTIMS = [
    # what is asked for, the others, victims
    ({"cpu": "1"}, {"a": {"cpu": "1"}, "b": {"cpu": "1"}}, ["a"]),
    # one that covers it is better than two; the smaller of two that do is enough
    ({"cpu": "1"}, {"a": {"cpu": "500m"}, "b": {"cpu": "500m"}, "c": {"cpu": "1"}}, ["c"]),
    ({"cpu": "500m"}, {"a": {"cpu": "1200m"}, "b": {"cpu": "800m"}}, ["b"]),
    ({"cpu": "2"}, {"a": {"cpu": "1"}, "b": {"cpu": "1"}}, ["a", "b"]),
]


@pytest.mark.parametrize(("requests", "others", "wanted"), VICTIMS)
def test_a5_few_victims(requests, others, wanted):
    """A-5: as few as possible, and the smaller ones."""
    running = [make_pod(name, requests=asked) for name, asked in others.items()]
    found = ask(make_pod(requests=requests, priority=CRITICAL), running)
    assert isinstance(found, Preempt)
    assert names(found) == wanted
    assert found.resource == "cpu"
    assert found.reason == "Preempting"
    assert found.message == "Preempted in order to admit critical pod"


def test_a5_who_matters_least_goes_first():
    """A-5: a Guaranteed pod only when all others together would not do."""
    half = {"cpu": "500m", "memory": "1Mi"}
    guaranteed = make_pod("guaranteed", requests=half, limits=half)
    burstable = make_pod("burstable", requests={"cpu": "1500m"})
    small = ask(make_pod(requests={"cpu": "1"}, priority=CRITICAL), [guaranteed, burstable])
    assert names(small) == ["burstable"]
    large = ask(make_pod(requests={"cpu": "2"}, priority=CRITICAL), [guaranteed, burstable])
    assert names(large) == ["burstable", "guaranteed"]


def test_a5_for_a_place_best_effort_pods_go():
    """A-5: a pod without requests takes the place of one pod."""
    running = [make_pod("a", requests={"cpu": "1"}), make_pod("b")]
    found = ask(make_pod(source="file"), running, site=make_site(max_pods=2))
    assert names(found) == ["b"]
    assert found.resource == "pods"


def test_a5_when_nobody_can_make_room():
    """A-5: other critical pods stay; the refusal says what is missing."""
    running = [make_pod("old", requests={"cpu": "2"}, source="file")]
    found = ask(make_pod(requests={"cpu": "1"}, priority=CRITICAL), running)
    assert found == Refusal(
        "UnexpectedAdmissionError",
        "Unexpected error while attempting to recover from admission failure: preemption: error "
        "finding a set of pods to preempt: no set of running pods found to reclaim resources: "
        "[(res: cpu, q: 1000), ]",
    )


def test_a5_not_for_what_room_would_not_help():
    """A-5: a critical pod with another problem is refused for that one."""
    running = [make_pod("old", requests={"cpu": "2"})]
    pod = make_pod(requests={"cpu": "1"}, priority=CRITICAL, nodeName="there")
    assert ask(pod, running).reason == "NodeName"
    plain = make_pod(requests={"cpu": "1"}, nodeName="there")
    assert ask(plain, running).reason == "OutOfcpu"


@pytest.mark.parametrize(
    ("pod", "other", "wanted"),
    [
        (make_pod(source="file"), make_pod(), True),
        (make_pod(source="file"), make_pod(source="file"), False),
        (make_pod(priority=CRITICAL + 1), make_pod(priority=CRITICAL), True),
        (make_pod(priority=CRITICAL), make_pod(priority=CRITICAL), False),
        (make_pod(priority=5), make_pod(priority=4), True),
        (make_pod(), make_pod(), False),
    ],
)
def test_a5_who_may_be_ended_for_whom(pod, other, wanted):
    """A-5: critical before others, and higher priority before lower."""
    assert preemptable(pod, other) is wanted


amounts = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["100m", "500m", "1"]), "memory": st.just("1Gi")}
)


@settings(max_examples=100, deadline=None)
@given(amounts, st.lists(st.tuples(amounts, st.booleans()), max_size=5), st.integers(1, 4))
def test_a5_with_its_victims_gone_a_pod_fits(asked, others, places):
    """What is let in fits then; what is refused would not fit if everybody it may end went."""
    site = make_site(max_pods=places)
    running = [
        make_pod(f"o{i}", requests=requests, source="file" if static else "")
        for i, (requests, static) in enumerate(others)
    ]
    pod = make_pod(requests=asked, priority=CRITICAL)
    found = ask(pod, running, site=site)
    gone = {victim.uid for victim in found.victims} if isinstance(found, Preempt) else set()
    left = tuple(other for other in running if other.uid not in gone)
    if isinstance(found, Refusal):
        staying = tuple(o for o in running if not preemptable(pod, o))
        assert lacking(pod, staying, site)
    else:
        assert not lacking(pod, left, site)
        assert bool(gone) == bool(lacking(pod, tuple(running), site))
