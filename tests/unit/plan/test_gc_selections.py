"""What is garbage (I-1..I-5, I-41): selections over invented records."""

from __future__ import annotations

import pytest

from kubelet.config.loader import load
from kubelet.pods.rows import WorkerState
from kubelet.pods.runtime import PodRecord
from procs.syncloop.gc import logs
from procs.syncloop.gc.containers import select_containers, select_extra
from procs.syncloop.gc.policy import GcPolicy, KnownPod, Owners
from procs.syncloop.gc.sandboxes import select_sandboxes
from procs.syncloop.site import Site
from tests.unit.plan.made import CREATED, RUNNING, SECOND, UNKNOWN, box, done, rec

NOW = 1000 * SECOND
SITE = Site("n", ("10.0.0.1",), "/root", "/logs", "/links")


def held(*containers, uid="u", boxes=(), **more):
    return PodRecord(uid, "web", "default", tuple(boxes), containers, **more)


def owned(ready=True, **known):
    return Owners(known, ready)


SYNC = KnownPod(WorkerState.SYNC)
HERE = owned(u=SYNC, v=SYNC, w=SYNC)


def selected(pods, owners=HERE, **policy):
    found = select_containers(pods, owners, GcPolicy(**policy), NOW)
    return sorted(dead.container.id for dead in found)


def aged(name, attempt, **more):
    return done(name, attempt=attempt, created_at_ns=attempt * SECOND, **more)


DEAD = [aged("a", 3), aged("a", 2), aged("a", 1), aged("b", 1)]


def test_one_dead_instance_of_each_container_is_kept():
    """The newest (I-1)."""
    assert selected([held(*DEAD)]) == ["a-1", "a-2"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(2, ["a-1"]), (3, []), (-1, []), (0, ["a-1", "a-2"])],
)
def test_how_many_are_kept_can_be_set(limit, expected):
    """Negative is no limit. The last memory of what does not run is kept in any case."""
    assert selected([held(*DEAD)], per_container=limit) == expected


@pytest.mark.parametrize(("limit", "expected"), [(1, []), (0, ["a-1"])])
def test_beside_a_running_one_a_dead_one_is_no_memory(limit, expected):
    """The one that runs remembers."""
    assert selected([held(rec("a", attempt=2), aged("a", 1))], per_container=limit) == expected


def test_what_runs_or_is_about_to_is_not_dead():
    """One that was created counts neither as dead nor as the memory of what ran."""
    pods = [held(rec("a", CREATED, attempt=4), aged("a", 3), rec("b", RUNNING))]
    assert selected(pods, per_container=0) == []


def test_an_unknown_one_is_dead():
    """It may be running, so it is stopped first (I-5)."""
    assert selected([held(aged("a", 2), rec("a", UNKNOWN, attempt=1))]) == ["a-1"]


def test_the_young_are_kept():
    """The age counts from the end where it is known, else from the creation (I-1)."""
    young = aged("a", 2, finished_at_ns=NOW - 9 * SECOND)
    old = aged("a", 1, finished_at_ns=NOW - 10 * SECOND)
    listed = aged("a", 0, inspected=False)
    pods = [held(aged("a", 3), young, old, listed)]
    assert selected(pods, min_age_ns=10 * SECOND) == ["a-0", "a-1"]


def test_everything_dead_of_a_pod_that_nobody_wants_goes():
    """Deleted and terminated, or not known at all, once every source has spoken (I-2)."""
    pod = held(rec("a", attempt=5), rec("a", CREATED, attempt=4), *DEAD)
    everything = ["a-1", "a-2", "a-3", "a-4", "b-1"]
    assert selected([pod], owned()) == everything
    assert selected([pod], owned(u=KnownPod(WorkerState.TERMINATED, deleted=True))) == everything
    assert selected([pod], owned(u=KnownPod(WorkerState.FINISHED, deleted=True))) == everything
    kept = ["a-1", "a-2"]
    assert selected([pod], owned(ready=False)) == kept
    assert selected([pod], owned(u=KnownPod(WorkerState.TERMINATED))) == kept
    assert selected([pod], owned(u=KnownPod(WorkerState.TERMINATING, deleted=True))) == kept


def running(uid, *attempts):
    """A pod with a container that runs and such dead instances of it."""
    dead = [aged("a", n, id_=f"{uid}{n}") for n in attempts]
    return held(rec("a", attempt=99, id_=f"{uid}r"), *dead, uid=uid)


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (-1, []),
        (6, []),
        (5, ["u1", "u2"]),
        (4, ["u1", "u2"]),
        (3, ["u1", "u2", "u3", "v2"]),
        (2, ["u1", "u2", "u3", "v2"]),
        (1, ["u1", "u2", "u3", "u4", "v2"]),
        (0, ["u1", "u2", "u3", "u4", "v2", "v5"]),
    ],
)
def test_a_limit_for_all_is_shared_evenly_and_then_the_oldest_go(total, expected):
    """I-1: two groups of four and two; an even share first, then whatever is oldest."""
    pods = [running("u", 4, 3, 2, 1), running("v", 5, 2)]
    assert selected(pods, per_container=-1, total=total) == expected


def test_a_limit_for_all_takes_no_last_memory():
    """Otherwise a container that has done its work would run again."""
    pods = [held(aged("a", 1), uid="u"), running("v", 9)]
    assert selected(pods, total=0) == ["v9"]


def test_a_death_makes_older_instances_go_at_once():
    """Of that container, or of all of the pod (I-5)."""
    pod = held(*DEAD, aged("b", 0))
    ids = [d.container.id for d in select_extra(pod, GcPolicy(), "a")]
    assert ids == ["a-2", "a-1"]
    assert [d.container.id for d in select_extra(pod, GcPolicy())] == ["a-2", "a-1", "b-0"]


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, ["a-2", "a-1"]), (2, ["a-1"]), (-1, []), (9, [])]
)
def test_at_a_death_one_is_kept_at_least(limit, expected):
    """I-5."""
    found = select_extra(held(*DEAD), GcPolicy(per_container=limit), "a")
    assert [d.container.id for d in found] == expected


def test_limits_come_from_the_flags():
    """With their names."""
    config = load(
        [
            "--minimum-container-ttl-duration=1m",
            "--maximum-dead-containers-per-container=3",
            "--maximum-dead-containers=7",
        ]
    ).config
    assert GcPolicy.of(config) == GcPolicy(60 * SECOND, 3, 7)
    assert GcPolicy.of(load([]).config) == GcPolicy(0, 1, -1)


# Sandboxes (I-3).

BOXES = [box("s3", 3, ready=False), box("s2", 2, ready=False), box("s1", 1, ready=False)]


def test_the_newest_sandbox_of_a_pod_is_kept():
    """Older ones go, the oldest first."""
    assert select_sandboxes([held(boxes=BOXES)], HERE) == ("s1", "s2")


def test_of_a_pod_that_nobody_wants_all_sandboxes_go():
    """Once every source has spoken."""
    assert select_sandboxes([held(boxes=BOXES)], owned()) == ("s1", "s2", "s3")
    assert select_sandboxes([held(boxes=BOXES)], owned(ready=False)) == ("s1", "s2")


def test_a_sandbox_that_is_ready_or_in_use_is_never_removed():
    """Unless what used it is gone by now."""
    pod = held(done("a", sandbox="s1"), boxes=[BOXES[0], box("s2", 2), BOXES[2]])
    assert select_sandboxes([pod], owned()) == ("s3",)
    assert select_sandboxes([pod], owned(), frozenset({"a-0"})) == ("s1", "s3")


def test_where_not_every_container_is_listed_no_sandbox_goes():
    """To remove one removes all that is in it."""
    assert select_sandboxes([held(boxes=BOXES, left_out=1)], owned()) == ()


# Logs (I-4, I-41).


def test_log_directories_of_pods_that_nobody_wants_go():
    """Not those of pods with containers, and not what is not ours."""
    names = ["ns_a_u", "ns_b_x", "ns_c_y", "lost+found", "a_b", "a_b_c_d", "__x"]
    assert logs.select_log_directories(names, HERE, frozenset({"y"})) == ("ns_b_x",)
    assert logs.select_log_directories(names, owned(ready=False), frozenset()) == ()


def test_links_to_nothing_go_unless_their_container_has_not_ended():
    """Its log may be moved away just now; a very long name holds only a part of the id."""
    pods = [held(rec("a", id_="abc123"), done("b", id_="def456"))]
    names = ["w_d_a-abc123.log", "w_d_a-abc.log", "w_d_b-def456.log", "w_d_c-999.log", "other"]
    assert logs.select_links(names, pods) == ("w_d_b-def456.log", "w_d_c-999.log")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("1.log", True),
        ("1.log.20260102-030405", True),
        ("1.log.20260102-030405.gz", True),
        ("1.log.20260102-030405.tmp", True),
        ("11.log", False),
        ("0.log", False),
        ("1.logs", False),
    ],
)
def test_a_container_s_logs_are_those_with_its_number(file, expected):
    """Rotated ones included (I-41)."""
    assert logs.is_log_of(file, done("a", attempt=1)) is expected


def test_names_lead_to_files_in_their_place_alone():
    """A name that is more than a step of a path is not followed."""
    good = done("a", id_="abc")
    assert logs.log_directory(SITE, held(), good) == "/logs/default_web_u/a"
    assert logs.link_name(held(), good) == "web_default_a-abc.log"
    for odd in ("..", "x/../../y", "", "a\0b"):
        assert logs.log_directory(SITE, held(uid=odd), good) is None
        assert logs.log_directory(SITE, held(), done(odd)) is None
        assert logs.link_name(held(), done(odd, id_="abc")) is None


def test_a_link_s_name_fits_into_a_directory():
    """255 bytes, with its suffix (P-154)."""
    name = logs.link_name(held(), done("é" * 200, id_="abc"))
    assert name is not None
    assert len(name.encode()) <= 255
    assert name.endswith(".log")
