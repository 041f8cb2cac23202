"""The words that kubectl prints for a pod, by table."""

from __future__ import annotations

from typing import Any

import pytest

from kubeletctl.podstate import Summary, summarize
from kubeletctl.words import kube_age
from tests.unit.kubeletctl.podfiles import container

RUNS = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
SPEC = {"containers": [{"name": "a"}, {"name": "b"}]}
INIT = {**SPEC, "initContainers": [{"name": "i"}, {"name": "j"}]}
SIDECAR = {
    "containers": [{"name": "a"}],
    "initContainers": [{"name": "s", "restartPolicy": "Always"}],
}


def waiting(name: str, reason: str, restarts: int = 0) -> dict[str, Any]:
    return container(name, restarts, waiting={"reason": reason} if reason else {})


def ended(name: str, code: int, reason: str = "", restarts: int = 0, **more) -> dict[str, Any]:
    state = {"exitCode": code, **({"reason": reason} if reason else {}), **more}
    return container(name, restarts, terminated=state)


def status(phase: str, *containers: Any, init: tuple = (), **more) -> dict[str, Any]:
    conditions = [{"type": kind, "status": value} for kind, value in more.pop("true", {}).items()]
    return {
        "phase": phase,
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        "conditions": conditions,
        **more,
    }


READY = {"Ready": "True", "Initialized": "True"}
CASES = [
    ("nothing known yet", SPEC, {}, "Pending", (0, 2, 0)),
    (
        "runs",
        SPEC,
        status("Running", container("a"), container("b"), true=READY),
        "Running",
        (2, 2, 0),
    ),
    (
        "one of two is not ready",
        SPEC,
        status("Running", container("a"), {**container("b"), "ready": False}),
        "Running",
        (1, 2, 0),
    ),
    (
        "creating (P-100)",
        SPEC,
        status("Pending", waiting("a", "ContainerCreating"), waiting("b", "ContainerCreating")),
        "ContainerCreating",
        (0, 2, 0),
    ),
    (
        "the first container's word counts",
        SPEC,
        status("Running", waiting("a", "CrashLoopBackOff", 3), waiting("b", "ImagePullBackOff", 1)),
        "CrashLoopBackOff",
        (0, 2, 4),
    ),
    (
        "a container that runs has no word (P-101)",
        SPEC,
        status("Running", container("a"), waiting("b", "CrashLoopBackOff", 3)),
        "CrashLoopBackOff",
        (1, 2, 3),
    ),
    (
        "image that cannot be pulled (P-102)",
        SPEC,
        status("Pending", waiting("a", "ErrImagePull")),
        "ErrImagePull",
        (0, 2, 0),
    ),
    ("ended well", SPEC, status("Succeeded", ended("a", 0, "Completed")), "Completed", (0, 2, 0)),
    ("ended badly (P-105)", SPEC, status("Failed", ended("a", 1, "Error")), "Error", (0, 2, 0)),
    (
        "out of memory (P-105)",
        SPEC,
        status("Failed", ended("a", 137, "OOMKilled")),
        "OOMKilled",
        None,
    ),
    ("no reason, exit code", SPEC, status("Failed", ended("a", 3)), "ExitCode:3", None),
    ("no reason, signal", SPEC, status("Failed", ended("a", 137, signal=9)), "Signal:9", None),
    (
        "one is done, the other one runs and is ready",
        SPEC,
        status("Running", ended("a", 0, "Completed"), container("b"), true=READY),
        "Running",
        (1, 2, 0),
    ),
    (
        "one is done, the other one runs, the pod is not ready",
        SPEC,
        status("Running", ended("a", 0, "Completed"), container("b")),
        "NotReady",
        (1, 2, 0),
    ),
    ("evicted", SPEC, status("Failed", reason="Evicted"), "Evicted", (0, 2, 0)),
    (
        "past its deadline (P-117)",
        SPEC,
        status("Failed", reason="DeadlineExceeded"),
        "DeadlineExceeded",
        None,
    ),
    (
        "the first init container runs",
        INIT,
        status("Pending", init=(container("i"), waiting("j", "PodInitializing"))),
        "Init:0/2",
        (0, 2, 0),
    ),
    (
        "the second init container runs",
        INIT,
        status("Pending", init=(ended("i", 0, "Completed"), container("j"))),
        "Init:1/2",
        None,
    ),
    (
        "an init container waits for its turn",
        INIT,
        status("Pending", init=(waiting("i", "PodInitializing"),)),
        "Init:0/2",
        None,
    ),
    (
        "an init container cannot be started",
        INIT,
        status("Pending", init=(waiting("i", "CrashLoopBackOff", 4), waiting("j", "", 9))),
        "Init:CrashLoopBackOff",
        (0, 2, 4),
    ),
    (
        "an init container failed (P-77)",
        INIT,
        status("Failed", init=(ended("i", 1, "Error"),)),
        "Init:Error",
        None,
    ),
    (
        "an init container failed, without a reason",
        INIT,
        status("Failed", init=(ended("i", 7),)),
        "Init:ExitCode:7",
        None,
    ),
    (
        "an init container was killed, without a reason",
        INIT,
        status("Failed", init=(ended("i", 137, signal=9),)),
        "Init:Signal:9",
        None,
    ),
    (
        "initialised, containers not begun (P-100)",
        INIT,
        status(
            "Pending",
            waiting("a", "PodInitializing"),
            init=(ended("i", 0, "Completed"), ended("j", 0, "Completed")),
        ),
        "PodInitializing",
        (0, 2, 0),
    ),
    (
        "a sidecar counts (P-76)",
        SIDECAR,
        status("Running", container("a", 1), init=(container("s", 2),), true=READY),
        "Running",
        (2, 2, 3),
    ),
    (
        "a sidecar that has not started yet (P-75)",
        SIDECAR,
        status("Pending", init=({**container("s"), "started": False, "ready": False},)),
        "Init:0/1",
        (0, 2, 0),
    ),
    (
        "restarts of init containers do not count once the pod is initialised",
        INIT,
        status(
            "Running",
            container("a", 1),
            container("b"),
            init=(ended("i", 0, "Completed", 5), ended("j", 0, "Completed")),
            true=READY,
        ),
        "Running",
        (2, 2, 1),
    ),
    (
        "initialised, and an init container is looked for again",
        INIT,
        status("Running", container("a"), container("b"), init=(waiting("i", ""),), true=READY),
        "Init:0/2",
        (2, 2, 0),
    ),
]


@pytest.mark.parametrize(
    ("spec", "found", "word", "numbers"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_word_is_the_one_that_kubectl_prints(spec, found, word, numbers):
    """Status word, ready containers and restarts follow from spec and status."""
    summary = summarize({"spec": spec}, found)
    assert summary.word == word
    if numbers:
        assert (summary.ready, summary.total, summary.restarts) == numbers


@pytest.mark.parametrize(
    ("phase", "metadata", "ending", "word"),
    [
        ("Running", {"deletionTimestamp": "2026-01-02T03:04:05Z"}, False, "Terminating"),
        ("Running", {}, True, "Terminating"),
        ("Pending", {}, True, "Terminating"),
        ("Failed", {"deletionTimestamp": "2026-01-02T03:04:05Z"}, True, "Failed"),
        ("Succeeded", {}, True, "Succeeded"),
    ],
)
def test_pod_that_ends_is_terminating_until_its_phase_is_terminal(phase, metadata, ending, word):
    """Deleted, or ended by the node: the word is Terminating while something may still run."""
    document = {"metadata": metadata, "spec": SPEC}
    assert summarize(document, status(phase), ending=ending).word == word


def test_last_restart_is_the_newest_end():
    """Of several containers the one that ended last tells when the last restart was."""
    old = {**container("a", 1), "lastState": {"terminated": {"finishedAt": "2026-01-02T03:00:00Z"}}}
    new = {**container("b", 1), "lastState": {"terminated": {"finishedAt": "2026-01-02T04:00:00Z"}}}
    assert (
        summarize({"spec": SPEC}, status("Running", old, new)).restarted == "2026-01-02T04:00:00Z"
    )


@pytest.mark.parametrize(
    "garbage",
    [
        {},
        {"containerStatuses": 1, "initContainerStatuses": {}, "conditions": "x", "phase": None},
        {"containerStatuses": [None, 1, {"state": []}], "phase": 3},
        {"initContainerStatuses": [{"state": {"terminated": "x"}, "restartCount": "many"}]},
    ],
)
def test_garbage_is_no_error(garbage):
    """A status that makes no sense gives some word, never an exception."""
    assert isinstance(summarize({"spec": garbage}, garbage), Summary)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (303, "5m3s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (18_720, "5h12m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (352_800, "4d2h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (64_108_800, "2y12d"),
        (252_288_000, "8y"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: float, text: str):
    """Two units while the larger one is small, then one."""
    assert kube_age(seconds) == text
