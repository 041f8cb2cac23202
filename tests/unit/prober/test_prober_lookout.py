"""Which containers are to be probed, from the rows of pods and statuses (B-1, B-5, B-6, B-15)."""

from __future__ import annotations

import pytest

from kubelet.api.handlers import Probe
from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.pods.probes import ProbeKind
from kubelet.pods.rows import PODS, STATUS, Ending, PodRow, StatusRow, WorkerState, document_of
from kubelet.process.tables import Tables
from procs.prober import lookout
from procs.prober.lookout import Lookout
from tests.unit.prober.scene import (
    UID,
    WALL,
    container_of,
    http,
    pod_of,
    running,
    status_of,
    stopped,
)

L, R, S = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP
PLAIN = pod_of(container_of(liveness=http(), readiness=http()))


def seen(pod, *containers, sidecars=(), hooked=()):
    """The containers that are to be probed, with the kinds of their probes."""
    status = {
        "podIP": "10.0.0.7",
        "containerStatuses": list(containers),
        "initContainerStatuses": list(sidecars),
    }
    found = lookout.subjects(pod, lookout.wanted(pod), status, hooked)
    return {subject.id: set(subject.jobs) for subject in found}


def test_regular_containers_and_sidecars_are_probed_and_plain_init_containers_are_not():
    """B-1: an init container has probes only if it runs on beside the others."""
    sidecar = container_of("side", restart_policy="Always", startup=http())
    plain = container_of("setup", liveness=http())
    pod = pod_of(container_of(liveness=http(), readiness=http()), sidecars=(sidecar, plain))
    inits = (running("side", "id-2"), running("setup", "id-3"))
    assert seen(pod, running(), sidecars=inits) == {"id-1": {L, R}, "id-2": {S}}


@pytest.mark.parametrize(
    "said",
    [
        stopped(),
        {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        {"name": "c", "containerID": "", "state": {"running": {"startedAt": ""}}},
        {"name": "c", "containerID": "containerd://id-1"},
        {"name": "other", "containerID": "containerd://id-1", "state": {"running": {}}},
        {},
    ],
)
def test_a_container_that_does_not_run_under_an_id_is_not_probed(said):
    """B-5: no status, no ID, not running."""
    assert seen(PLAIN, said) == {}


def test_a_container_whose_hook_still_runs_is_not_probed_yet():
    """A postStart hook is part of the start: ``StatusRow.hooked`` names its container."""
    assert seen(PLAIN, running(), hooked=("id-1",)) == {}
    assert seen(PLAIN, running(id_="id-2"), hooked=("id-1",)) == {"id-2": {L, R}}


def test_a_container_without_probes_is_none_of_ours():
    """What asks for nothing costs nothing."""
    assert lookout.wanted(pod_of(container_of())) == {}
    assert seen(pod_of(container_of()), running()) == {}


def test_a_probe_has_its_defaults_and_its_pods_address():
    """B-15: a document that did not come through the API server lacks them."""
    status = {"podIP": "fd00::7", "containerStatuses": [running(ready=True)]}
    (subject,) = lookout.subjects(PLAIN, lookout.wanted(PLAIN), status, ())
    job = subject.jobs[L]
    assert job.pod_ip == "fd00::7"
    assert job.probe == http(
        initial_delay_seconds=0,
        timeout_seconds=1,
        period_seconds=10,
        success_threshold=1,
        failure_threshold=3,
    )
    assert (subject.started_ns, subject.ready, subject.started) == (WALL, True, False)


class Watch:
    """A lookout on real tables, and what it told."""

    def __init__(self, root, quarantined=()):
        self.syncloop = Tables(root, "syncloop")
        self.tables = Tables(root, "prober")
        self.sights = []
        self.lookout = Lookout(self.tables, frozenset(quarantined), self.sights.append)

    def pod(self, pod=PLAIN, uid=UID, **fields):
        """Write a pod's row."""
        row = PodRow(uid, "web", "shop", "api", document=document_of(pod), **fields)
        self.syncloop.put(PODS, uid, row.to_wire())

    def status(self, *containers, uid=UID, **more):
        """Write a status."""
        row = StatusRow(uid, "web", "shop", 1, status_of(*containers, **more))
        self.syncloop.put(STATUS, uid, row.to_wire())

    def hint(self, table, key=ANY_KEY):
        """Pass a hint on: what was told because of it."""
        self.sights.clear()
        self.lookout.hinted(Hint(table, key, 0))
        return list(self.sights)


@pytest.fixture
def watch(tmp_path):
    """A lookout on tables of its own."""
    found = Watch(tmp_path)
    found.pod()
    found.status(running())
    yield found
    found.tables.close()
    found.syncloop.close()


def test_a_row_that_says_the_same_is_not_told_again(watch):
    """All rows are compared whenever any has changed; only what differs is decoded."""
    (sight,) = watch.hint(STATUS)
    assert [subject.id for subject in sight.subjects] == ["id-1"]
    assert (sight.uid, sight.name, sight.namespace) == (UID, "web", "shop")
    assert watch.hint(STATUS) == watch.hint(PODS) == watch.hint(STATUS, UID) == []
    watch.status(running())  # a new generation with the same text
    assert watch.hint(STATUS) == []
    watch.status(running(ready=True))
    (sight,) = watch.hint(STATUS, UID)
    assert sight.fresh
    assert sight.subjects[0].ready


def test_hints_on_other_tables_are_nobodys_business(watch):
    """Only pods and statuses matter here."""
    assert watch.hint("runtime") == []


@pytest.mark.parametrize(
    ("fields", "meta", "ending", "over"),
    [
        ({}, {}, False, False),
        ({}, {"deletion_timestamp": "2030-03-17T17:46:40Z"}, True, False),
        ({"ending": Ending(reason="Evicted")}, {}, True, False),
        ({"state": WorkerState.TERMINATING}, {}, True, False),
        ({"state": WorkerState.TERMINATED}, {}, True, True),
        ({"state": WorkerState.FINISHED}, {}, True, True),
    ],
)
def test_a_pod_that_ends_is_told_as_such(watch, fields, meta, ending, over):
    """B-6: deleted at the API server, evicted, or being stopped for any other reason."""
    watch.pod(pod_of(container_of(liveness=http()), **meta), **fields)
    (sight,) = watch.hint(PODS, UID)
    assert (sight.ending, sight.over, bool(sight.subjects)) == (ending, over, not over)


def test_a_missing_row_is_for_good_only_if_its_writer_said_so(watch):
    """A table that is rebuilt has no rows for a while; that is no reason to forget verdicts."""
    watch.hint(PODS)
    watch.syncloop.writers[PODS].delete(UID)
    (sight,) = watch.hint(PODS)
    assert (sight.absent, sight.deleted) == (True, False)
    assert watch.hint(PODS) == []
    (sight,) = watch.hint(PODS, UID)
    assert sight.deleted
    watch.pod()
    (sight,) = watch.hint(PODS)
    assert [subject.id for subject in sight.subjects] == ["id-1"]


def test_a_row_that_cannot_be_read_is_not_a_deleted_one(watch):
    """What is odd is logged, and nothing is concluded from it."""
    watch.hint(PODS)
    watch.syncloop.put(PODS, UID, {"uid": 7})
    (sight,) = watch.hint(PODS, UID)
    assert (sight.absent, sight.deleted) == (True, False)


@pytest.mark.parametrize("document", [b"{", b"[]", b"{}", b'{"containerStatuses": null}'])
def test_a_status_that_says_nothing_has_nothing_to_be_probed(watch, document):
    """Bad text from a table ends no process."""
    watch.hint(PODS)
    row = StatusRow(UID, "web", "shop", 2, document)
    watch.syncloop.put(STATUS, UID, row.to_wire())
    (sight,) = watch.hint(STATUS, UID)
    assert sight.subjects == ()


def test_a_pod_without_probes_has_its_status_left_alone(watch):
    """A status that changes often costs nothing where nobody asked for probes."""
    watch.pod(pod_of(container_of()))
    (sight,) = watch.hint(PODS, UID)
    assert sight.subjects == ()
    watch.status(running(ready=True))
    assert watch.hint(STATUS, UID) == []


def test_a_pod_in_quarantine_is_left_alone(tmp_path):
    """Its handling has killed this process too often."""
    watch = Watch(tmp_path, quarantined=[UID])
    watch.pod()
    watch.status(running())
    assert watch.hint(PODS) == watch.hint(PODS, UID) == []
    watch.tables.close()
    watch.syncloop.close()


def test_a_probe_without_any_handler_is_still_a_probe():
    """Which one it lacks is said when it is made."""
    assert seen(pod_of(container_of(liveness=Probe())), running()) == {"id-1": {L}}
