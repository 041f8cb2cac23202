"""probes, and what why and describe say of them, against real tables (B-5, B-6, B-9, B-18)."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from kubelet.pods.probes import PROBES, PROBING, Finding, ProbesRow, ProbingRow, Track, Verdict
from kubelet.pods.rows import STATUS, Ending, StatusRow, WorkerState
from kubeletctl import probes, unready
from kubeletctl.pods import PodView
from kubeletctl.probes import NO_ROWS, Idle, Probe, Rows
from tests.unit.kubeletctl.harness import Tree
from tests.unit.kubeletctl.podfiles import SECOND, Tables, ago, container, pod, status

NOW = time.time_ns()
MONOTONIC = 500 * SECOND
GET = {"httpGet": {"port": 80, "path": "ok"}, "periodSeconds": 5}
EXEC = {"exec": {"command": ["cat", "/ok"]}, "failureThreshold": 4, "successThreshold": 2}
READY = "http-get http://:80/ok"
SAID = "HTTP probe failed with statuscode: 503"
LONG = 84 * 3600 + 1800  # seconds: in words the same, whatever the test takes
REFUSED = "HTTP probe failed with\nstatuscode: 503"


def main(**kinds: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod whose container has these probes."""
    own = {f"{kind}Probe": probe for kind, probe in kinds.items()}
    return {"containers": [{"name": "main", "image": "busybox:1", **own}]}


def running(*, ready: bool = False, started: bool = True, id_: str = "c1") -> dict[str, Any]:
    """The status of the container."""
    return {
        **container(),
        "containerID": f"containerd://{id_}",
        "ready": ready,
        "started": started,
    }


def view(spec: dict[str, Any], *found: dict[str, Any], state: str = "sync") -> PodView:
    row = {"name": "web", "namespace": "default", "state": state}
    return PodView("uid-web", row, {"spec": spec}, {"containerStatuses": list(found)}, {})


def rows(hooked: frozenset[str] = frozenset(), **found: tuple[Finding, Track]) -> Rows:
    """What prober has written of container c1, by kind."""
    verdicts = ProbesRow("c1", "uid-web", "main", {kind: f for kind, (f, _) in found.items()})
    tracks = {kind: track for kind, (_, track) in found.items()}
    far = ProbingRow("c1", "uid-web", "main", "web", "default", tracks)
    return Rows({"c1": verdicts.to_wire()}, {"c1": far.to_wire()}, hooked)


def finding(verdict: str, seconds: float = 60) -> Finding:
    return Finding(Verdict(verdict), NOW - int(seconds * SECOND))


def failing(streak: int, said: str = REFUSED, **more: Any) -> Track:
    """A probe that was made two seconds ago, and is due in three."""
    values = {"due_ns": MONOTONIC + 3 * SECOND, "last_ns": NOW - 2 * SECOND, "took_ns": 1_400_000}
    return Track(streak=streak, failing=True, said=said, failed=streak, **{**values, **more})


def one(of: PodView, known: Rows = NO_ROWS, kind: str = "readiness") -> Probe:
    found = probes.of_pods([of], known, NOW, MONOTONIC)
    return next(probe for probe in found if probe.kind == kind)


# --- What a probe is at. ---


def test_a_probe_is_put_together_from_the_document_and_both_tables():
    """Verdict, streak, the last one and the next one, which is on another clock in the table."""
    known = rows(readiness=(finding("failure"), failing(7)))
    found = one(view(main(readiness=GET), running()), known)
    assert found == Probe(
        pod="default/web",
        uid="uid-web",
        container="main",
        container_id="c1",
        kind="readiness",
        handler="http-get http://:80/ok",
        period_seconds=5,
        success_threshold=1,
        failure_threshold=3,
        verdict="failure",
        since_ns=NOW - 60 * SECOND,
        streak=7,
        failing=True,
        last_ns=NOW - 2 * SECOND,
        took_ns=1_400_000,
        next_ns=NOW + 3 * SECOND,
        idle="",
        said=REFUSED,
        succeeded=0,
        failed=7,
        unknown=0,
    )
    assert (probes.streak(found), probes.due(found, NOW)) == ("7 failed", "in 3.0s")
    assert probes.due(found, NOW + 4 * SECOND) == "now"


STARTED = {"startup": GET, "liveness": GET, "readiness": GET}


@pytest.mark.parametrize(
    ("kind", "found", "state", "verdict", "idle"),
    [
        ("liveness", container(waiting={"reason": "x"}), "sync", "", Idle.STOPPED),
        ("startup", running(started=False), "sync", "unknown", Idle.NO),
        ("liveness", running(started=False), "sync", "success", Idle.STARTUP),
        ("readiness", running(started=False), "sync", "failure", Idle.STARTUP),
        ("startup", running(), "sync", "success", Idle.STARTED),
        ("startup", running(started=False), "sync", "failure", Idle.FAILED),
        ("liveness", running(), "sync", "success", Idle.NO),
        ("liveness", running(), "sync", "failure", Idle.FAILED),
        ("readiness", running(), "sync", "failure", Idle.NO),
        ("liveness", running(), "terminating", "success", Idle.ENDING),
        ("readiness", running(), "terminating", "success", Idle.NO),
    ],
)
def test_why_a_probe_is_not_made(kind, found, state, verdict, idle):
    """B-5, B-6, B-9: what it waits for, or that it is over; what is due then is not shown."""
    track = Track(due_ns=MONOTONIC + SECOND)
    known = rows(**{kind: (finding(verdict), track)}) if verdict else NO_ROWS
    probe = one(view(main(**STARTED), found, state=state), known, kind)
    assert probe.idle is idle
    assert bool(probe.next_ns) is (not idle)
    assert probes.due(probe, NOW) == (f"({idle})" if idle else "in 1.0s")


def test_a_container_whose_hook_runs_is_not_probed_yet():
    """P-144: the row of its status says so."""
    probe = one(view(main(readiness=GET), running()), rows(frozenset({"c1"})))
    assert probe.idle is Idle.HOOK
    assert list(probes.sentences(probe, NOW)) == [
        "it is not made before the container's postStart hook has ended"
    ]


def test_what_was_found_of_the_container_before_is_not_shown():
    """B-7: a verdict belongs to one id; rows that make no sense are as good as none."""
    known = rows(readiness=(finding("success"), failing(1)))
    for other in (known, Rows({"c2": None}, {"c2": {"tracks": 5}})):
        probe = one(view(main(readiness=GET), running(id_="c2")), other)
        assert (probe.verdict, probe.streak, probe.last_ns) == (probes.NONE_YET, 0, 0)
    assert list(probes.sentences(probe, NOW)) == ["it was not made yet"]


def test_sidecars_have_probes_and_other_init_containers_have_not():
    """B-1; and of a pod that has stopped nothing is listed."""
    side = {"name": "side", "restartPolicy": "Always", "livenessProbe": EXEC}
    spec = {"initContainers": [side, {"name": "once", "livenessProbe": EXEC}], **main(liveness=GET)}
    found = probes.of_pods([view(spec, running())], NO_ROWS, NOW, MONOTONIC)
    assert [(p.container, p.handler) for p in found] == [
        ("side", "exec [cat /ok]"),
        ("main", "http-get http://:80/ok"),
    ]
    assert probes.of_pods([view(spec, state="terminated")], NO_ROWS, NOW, MONOTONIC) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (EXEC, "exec [cat /ok]"),
        (
            {"httpGet": {"port": "web", "path": "/x?a=b", "scheme": "HTTPS", "host": "h"}},
            "http-get https://h:web/x?a=b",
        ),
        ({"tcpSocket": {"port": 6379}}, "tcp-socket :6379"),
        ({"grpc": {"port": 9, "service": "db"}}, "grpc <pod>:9 db"),
        ({"grpc": {"port": 9}}, "grpc <pod>:9"),
        ({"odd": 1}, "unknown"),
    ],
)
def test_what_a_probe_does_in_a_few_words(spec, words):
    """As kubectl describes it."""
    assert probes.action(spec) == words


# --- In sentences. ---

SCENES = [
    (
        "has never succeeded",
        {"readiness": GET},
        running(),
        {"readiness": (finding("failure"), failing(7))},
        [
            "but its readiness probe, http-get http://:80/ok, has not succeeded",
            "the last one was made 2.0s ago, took 1.4ms, and failed, 7 times in a row: HTTP probe",
            "next: it is made again at ",
        ],
    ),
    (
        "succeeded before",
        {"readiness": GET},
        running(),
        {"readiness": (finding("failure", 30), failing(3, succeeded=100))},
        ["but its readiness probe, http-get http://:80/ok, fails since ", "(30s ago)", "3 times"],
    ),
    (
        "is on its way up",
        {"readiness": EXEC},
        running(),
        {"readiness": (finding("failure"), replace(failing(1, ""), failing=False))},
        ["and succeeded, 1 of 2 times in a row"],
    ),
    (
        "waits for its start",
        {"startup": GET, "readiness": GET},
        running(started=False),
        {"startup": (finding("unknown"), failing(2, "connection refused"))},
        [
            "but its startup probe, http-get http://:80/ok, has not succeeded",
            "and failed, 2 of 3 times in a row: connection refused",
        ],
    ),
    (
        "nobody has said anything",
        {"readiness": GET},
        running(),
        {},
        ["has not succeeded", "it was not made yet"],
    ),
    (
        "could not be made",
        {"readiness": GET},
        running(),
        {"readiness": (finding("failure"), failing(0, "no address", unknown=4))},
        ["the last one was made 2.0s ago, took 1.4ms: no address"],
    ),
    (
        "is about to be restarted",
        {"liveness": EXEC},
        running(ready=True),
        {"liveness": (finding("success"), failing(3))},
        [
            "the liveness probe of container main has failed 3 times in a row, and with 4 the",
            "the container is restarted; it said: HTTP probe failed with statuscode: 503",
        ],
    ),
    (
        "is well",
        {"liveness": EXEC, "readiness": GET},
        running(ready=True),
        {"liveness": (finding("success"), Track(streak=9, last_ns=NOW))},
        [],
    ),
]


@pytest.mark.parametrize("scene", SCENES, ids=[scene[0] for scene in SCENES])
def test_what_is_told_of_a_container_that_runs(scene):
    """Which probe, what the last one said, how often in a row, since when, and what comes next."""
    _, kinds, found, known, expected = scene
    of = view(main(**kinds), found)
    all_of_them = probes.of_pods([of], rows(**known), NOW, MONOTONIC)
    told = list(unready.explain(of.document, of.status, all_of_them, NOW))
    assert [words for words in expected if words not in " ".join(told)] == []
    assert bool(told) is bool(expected)


# --- The command, and others that show probes. ---


@pytest.fixture
def node(run_dir, tables: Tables) -> Tree:
    """Two pods; the readiness probe of one fails."""
    tables.pod(pod(spec=main(liveness=EXEC, readiness=GET)), status(running(), ready=False))
    tables.pod(pod("plain"), status())
    found = {
        "liveness": Finding(Verdict.SUCCESS, ago(60)),
        "readiness": Finding(Verdict.FAILURE, ago(40), "x"),
    }
    due_ns = time.monotonic_ns() + LONG * SECOND
    tracks = {
        "liveness": Track(due_ns, 41, last_ns=ago(LONG), took_ns=2_000_000, succeeded=41),
        "readiness": Track(due_ns, 7, True, said=REFUSED, last_ns=ago(LONG), took_ns=1_000_000),
    }
    tables.put(PROBES, "c1", ProbesRow("c1", "uid-web", "main", found))
    tables.put(PROBING, "c1", ProbingRow("c1", "uid-web", "main", "web", "default", tracks))
    return Tree(run_dir)


def test_probes_are_listed_one_in_a_line(node: Tree):
    """All that counts in one look: verdict, streak, last, next, and what was said."""
    done = node.run("probes")
    assert done.code == 0
    head, *lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert head == "POD CONTAINER KIND HANDLER PERIOD VERDICT STREAK LAST TOOK NEXT SAID"
    assert lines == [
        "default/web main liveness exec [cat /ok] 10s success 41 ok 3d12h 2.0ms in 3d12h -",
        f"default/web main readiness {READY} 5s failure 7 failed 3d12h 1.0ms in 3d12h {SAID}",
    ]


def test_probes_of_one_pod_and_for_programs(node: Tree):
    """A pod is named as everywhere; -o json has all fields, with times of the wall clock."""
    done = node.run("probes", "default/web", "-o", "json")
    liveness, readiness = done.json()
    assert (liveness["kind"], liveness["streak"], liveness["failure_threshold"]) == (
        "liveness",
        41,
        4,
    )
    assert (readiness["verdict"], readiness["said"], readiness["idle"]) == ("failure", REFUSED, "")
    assert set(readiness) == set(Probe._fields)
    assert abs(readiness["next_ns"] - time.time_ns() - LONG * SECOND) < 600 * SECOND
    assert node.run("probes", "plain").out == "no probes in pod default/plain\n"
    assert node.run("probes", "-n", "other").out == "no probes\n"
    assert node.run("probes", "nobody").code == 1


def test_probes_that_are_not_made_say_why(node: Tree, tables: Tables):
    """While a pod ends only readiness is asked; while its hook runs nothing is (B-6, P-144)."""
    ending = pod(
        spec=main(liveness=EXEC, readiness=GET),
        state=WorkerState.TERMINATING,
        ending=Ending(removed=True),
    )
    tables.pod(ending, status(running()))
    assert "(pod ends)" in node.run("probes").out
    document = json.dumps(status(running())).encode()
    tables.pod(pod(spec=main(liveness=EXEC)))
    row = StatusRow("uid-web", "web", "default", 2, document, hooked=("c1",))
    tables.put(STATUS, "uid-web", row)
    assert "(postStart hook)" in node.run("probes").out


def test_why_and_describe_tell_of_the_probe(node: Tree):
    """The paragraph names the probe and what it said; the description has a line below each."""
    told = node.run("why", "web").out
    assert "but its readiness probe, http-get http://:80/ok, has not succeeded." in told
    assert "and failed, 7 times in a row: HTTP probe failed with statuscode: 503." in told
    assert "Next: it is made again at " in told
    lines = [line.strip() for line in node.run("describe", "pod", "web").out.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("Readiness:"))
    assert lines[at + 1].startswith("failure for ")
    assert "7 failed in a row, last 3d12h ago, next in " in lines[at + 1]
    assert lines[at + 1].endswith(": HTTP probe failed with statuscode: 503")
    found = node.run("describe", "pod", "web", "-o", "json").json()
    assert [probe["kind"] for probe in found["probes"]] == ["liveness", "readiness"]


def test_without_the_tables_of_probes_there_is_less_to_show(node: Tree, run_dir):
    """A table that cannot be read is said, and what is known otherwise is shown."""
    (run_dir / "tables" / PROBING).write_bytes(b"x" * 100)
    done = node.run("probes")
    assert done.code == 0
    assert "kubeletctl: Table probing is unavailable: " in done.err
    assert "readiness" in done.out
    assert " - " in done.out
