"""The paragraph about a pod, by table: each case has the sentences that an operator needs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kubelet.pods.rows import (
    Backoff,
    Call,
    CallStep,
    Ending,
    Event,
    PodRow,
    VolumeRow,
    VolumeState,
    Wait,
    WorkerState,
    WorkRow,
)
from kubeletctl.pods import PodView
from kubeletctl.state import Quarantined
from kubeletctl.why import Facts, explain
from tests.unit.kubeletctl.podfiles import SECOND, container, pod, status, text_ago

NOW = time.time_ns()
CRASH = "back-off 40s restarting failed container=main pod=web"


def ago(seconds: float) -> int:
    return NOW - int(seconds * SECOND)


def facts(row: PodRow, found: dict[str, Any], work: WorkRow | None = None, **more: Any) -> Facts:
    document = json.loads(row.document) if row.document else {}
    seen = PodView(row.uid, row.to_wire(), document, found, {})
    return Facts(row, work or WorkRow(row.uid), document, found, seen.summary, NOW, **more)


def waiting(**work: Any) -> WorkRow:
    return WorkRow("uid-web", **work)


def restarted() -> dict[str, Any]:
    last = {"exitCode": 1, "reason": "Error", "message": "no\nconfig", "finishedAt": text_ago(61)}
    return {**container(restarts=2), "lastState": {"terminated": last}}


CASES = [
    (
        "runs and is ready",
        facts(pod(), status()),
        [
            "Pod default/web from source file is Running and ready (1 of 1 container ready)",
            ": nothing is waited for. It is ready since ",
            ", and this node began to start it at ",
            "No container was restarted.",
        ],
        ["warning", "waits"],
    ),
    (
        "runs again",
        facts(pod(), status(restarted())),
        [
            "nothing is waited for",
            "Container main was last restarted at ",
            ", 2 restarts in all: it had ended with exit code 1 (Error), saying 'no config'.",
        ],
        [],
    ),
    (
        "image cannot be pulled (P-93)",
        facts(
            pod(),
            status(container(waiting={"reason": "ImagePullBackOff"}), ready=False, phase="Pending"),
            waiting(
                waits=(
                    Wait(
                        "image x for container main",
                        ago(192),
                        tried="connection refused",
                        next="it is pulled again",
                        next_ns=ago(-40.2),
                    ),
                ),
                reasons={"main": "ImagePullBackOff\tconnection refused"},
                backoffs={"image:x": Backoff(40 * SECOND, ago(1), ago(-40), "refused")},
            ),
            events=(Event("Warning", "Failed", "connection refused", last_ns=ago(1)),),
        ),
        [
            "is not ready: its status is ImagePullBackOff, with 0 of 1 container ready.",
            "It waits for image x for container main since ",
            "(3m12s ago).",
            "The last try: connection refused.",
            "Next: it is pulled again, at ",
            "(in 40s).",
        ],
        ["ontainer main waits", "back-off", "warning"],  # the wait has said it
    ),
    (
        "container keeps ending (P-92)",
        facts(
            pod(),
            status(container(waiting={"reason": "CrashLoopBackOff"}, restarts=5), ready=False),
            waiting(
                reasons={"main": f"CrashLoopBackOff\t{CRASH}"},
                backoffs={"default/web/uid/main/f0ac": Backoff(40 * SECOND, ago(10), ago(-30.4))},
            ),
            events=(
                Event("Warning", "BackOff", CRASH, count=7, last_ns=ago(12)),
                Event("Warning", "MissingClusterDNS", "no DNS", last_ns=ago(1)),
            ),
        ),
        [
            f"Container main waits with reason CrashLoopBackOff: {CRASH}.",
            "Container main is in a back-off of 40s; it is tried again at ",
            "(in 30s).",
            f"The last warning, 12s ago, 7 times, was BackOff: {CRASH}.",
        ],
        ["DNS"],  # it is no reason for anything
    ),
    (
        "volume cannot be mounted (P-56)",
        facts(
            pod(),
            status(container(waiting={"reason": "ContainerCreating"}), ready=False),
            waiting(step="mounting volumes", since_ns=ago(65)),
            volumes=(
                VolumeRow("data", VolumeState.FAILED, reason="no such device", retry_ns=ago(-5.4)),
                VolumeRow("tmp", VolumeState.MOUNTED),
            ),
        ),
        [
            "Its worker is at: mounting volumes, since ",
            "(1m05s ago).",
            "Volume data is failed: no such device; it is tried again at ",
        ],
        ["tmp"],
    ),
    (
        "a mount is under way and another volume hangs",
        facts(
            pod(),
            status(container(waiting={"reason": "ContainerCreating"}), ready=False),
            waiting(waits=(Wait("volume told to be mounted: mount -t nfs", ago(5)),)),
            volumes=(
                VolumeRow(
                    "data", operation="mount -t nfs", operation_ns=ago(12), claim="default/c"
                ),
                VolumeRow("told", operation="mount -t nfs", operation_ns=ago(12)),
                VolumeRow(
                    "growing", VolumeState.MOUNTED, operation="resize2fs", operation_ns=ago(30)
                ),
                VolumeRow(
                    "quick", VolumeState.MOUNTED, operation="NodeExpand", operation_ns=ago(1)
                ),
            ),
        ),
        [
            "Volume data (claim default/c) is pending.",
            "Under way for it is mount -t nfs, since ",
            "(12s ago).",
            "Volume growing is mounted.",
            "Under way for it is resize2fs, since ",
        ],
        ["quick", "Volume told is"],
    ),
    (
        "readiness probe fails",
        facts(
            pod(spec={"containers": [{"name": "main", "readinessProbe": {"exec": {}, "x": 1}}]}),
            status({**container(), "ready": False}, ready=False),
        ),
        ["Container main runs since ", "but its readiness probe has not succeeded."],
        [],
    ),
    (
        "startup probe has not passed",
        facts(
            pod(spec={"containers": [{"name": "main", "startupProbe": {"exec": {}, "x": 1}}]}),
            status({**container(), "ready": False, "started": False}, ready=False),
        ),
        ["but its startup probe has not succeeded."],
        [],
    ),
    (
        "readiness gate is closed (P-124)",
        facts(pod(spec={"readinessGates": [{"conditionType": "lb.io/up"}]}), status(ready=False)),
        ["Its readiness gates wait for conditions that others set: lb.io/up."],
        [],
    ),
    (
        "refused by the node",
        facts(
            pod(rejected="OutOfcpu\tNode has too little cpu", state=WorkerState.TERMINATED),
            {"phase": "Failed", "reason": "OutOfcpu"},
        ),
        [
            "has ended: its phase is Failed, its status OutOfcpu.",
            "This node refused it with reason OutOfcpu: Node has too little cpu.",
            "It is not tried again",
        ],
        [],
    ),
    (
        "being deleted (P-37)",
        facts(
            pod(
                state=WorkerState.TERMINATING,
                ending=Ending(grace=30, began_ns=ago(10), removed=True),
            ),
            status(),
            waiting(
                waits=(Wait("main to end", ago(10), "", "what still runs is killed", ago(-20.2)),),
                calls={
                    "main": Call(CallStep.STOP, since_ns=ago(3)),
                    "side": Call(CallStep.PRE_STOP, since_ns=ago(3)),
                },
            ),
        ),
        [
            "Pod default/web from source file is Terminating, with 1 of 1 container ready.",
            "It is being ended since ",
            "because its source does not have it any more, with 30 s of grace.",
            "Container main was told to end at ",
            "The preStop hook of side runs since ",
            "It waits for main to end since ",
            "Next: what still runs is killed, at ",
            "(in 20s).",
        ],
        ["Still running"],
    ),
    (
        "deleted, before anything is stopped",
        facts(
            pod(
                metadata={"deletionTimestamp": text_ago(0)},
                state=WorkerState.TERMINATING,
                ending=Ending(grace=30, began_ns=ago(10), removed=True),
            ),
            status(),
        ),
        ["because it was deleted", "Still running is main; what runs in 20s from now is killed."],
        [],
    ),
    (
        "init container runs (P-75)",
        facts(
            pod(spec={"initContainers": [{"name": "first"}, {"name": "next"}]}),
            status(ready=False, initContainerStatuses=[{**container("first"), "ready": False}]),
        ),
        [
            "It waits for init container first (1 of 2) to end, which runs since ",
            "Next: the next one starts as soon as it has ended with exit code 0.",
        ],
        [],
    ),
    (
        "being evicted, grace over, wanted again (P-39)",
        facts(
            pod(
                state=WorkerState.TERMINATING,
                ending=Ending("Evicted", "The node was low on memory.", 5, ago(20.2), failed=True),
                again=True,
            ),
            status(),
        ),
        [
            "because of Evicted (The node was low on memory), with 5 s of grace.",
            "its grace is over since 15s.",
            "It is wanted again",
        ],
        [],
    ),
    (
        "orphan (P-35)",
        facts(
            PodRow(
                "u", "o", "n", "", state=WorkerState.TERMINATED, ending=Ending(grace=1, orphan=True)
            ),
            {},
        ),
        ["Pod n/o is not ready", "the container runtime has it and no source wants it"],
        [],
    ),
    (
        "completed",
        facts(
            pod(state=WorkerState.TERMINATED, ending=Ending(began_ns=ago(30))),
            status(
                container(terminated={"exitCode": 0, "reason": "Completed", "message": "fine"}),
                ready=False,
                phase="Succeeded",
            ),
        ),
        [
            "has ended: its phase is Succeeded, its status Completed.",
            "because it has come to its own end.",
            "Container main ended at ",
            "with exit code 0 (Completed), saying 'fine'.",
            "it stays as it is until it is deleted.",
        ],
        ["is tried"],
    ),
    (
        "left alone, with a runtime that is down",
        facts(
            pod(),
            status(ready=False),
            runtime="containerd does not answer",
            kubelet="syncloop is backoff",
            quarantined=Quarantined("uid-web", "syncloop", 3, NOW / 1e9 - 600),
        ),
        [
            "It is left alone since 10m0",
            "'kubeletctl release uid-web' lets it be tried again.",
            "The container runtime cannot be worked with: containerd does not answer.",
            "Syncloop is backoff.",
        ],
        [],
    ),
]


@pytest.mark.parametrize(
    ("found", "said", "not_said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_paragraph_says_what_is_to_be_known(found: Facts, said: list[str], not_said: list[str]):
    """What is waited for, since when, what was tried, what comes next; in full sentences."""
    text = explain(found)
    for words in said:
        assert words in text, text
    for words in not_said:
        assert words not in text, text
    assert "\n" not in text
    assert text[0].isupper()
    assert text.endswith(".")


def test_old_warning_is_not_told():
    """A warning of an hour ago does not explain what is so now."""
    old = Event("Warning", "BackOff", "x", last_ns=ago(3600))
    assert "BackOff" not in explain(facts(pod(), status(ready=False), events=(old,)))
