"""Whose part of a status is whose, and the patch from one to the other (P-115, P-128, P-131)."""

from __future__ import annotations

import copy
import json

import pytest
from apipods_scene import applied, condition, mirror, pod
from hypothesis import given
from hypothesis import strategies as st

from kubelet.api import codec
from kubelet.api.status import PodStatus
from kubelet.pods.rows import StatusRow
from procs.node.apiserver.types import ApiError
from procs.node.pods import merge
from procs.node.pods.merge import backwards, foreign, merged, urgent
from procs.node.pods.parts import bare
from procs.node.pods.patch import status_patch
from procs.node.pods.steps import Backwards, Delete, Patch, Wanted, is_other, next_step
from procs.syncloop.status import conditions

OTHERS = {
    "nominatedNodeName",
    "resize",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "volumeHealth",
}
LATER = "2026-02-02T00:00:00Z"
EARLIER = "2026-01-01T00:00:00Z"


def ended(code=0):
    return {"state": {"terminated": {"exitCode": code}}}


RUNS = {"state": {"running": {"startedAt": EARLIER}}}


def test_each_field_of_a_status_is_somebodys():
    """P-128: the fields that the kubelet computes are its own, all others are others'."""
    known = {name for _, name in codec._names(PodStatus)}
    assert known - merge.OWN_FIELDS - {merge.CONDITIONS} == OTHERS
    assert known > merge.OWN_FIELDS


def test_both_sides_agree_on_whose_a_condition_is():
    """P-128: what computes conditions and what writes them own the same ones."""
    assert merge.OWN_CONDITIONS == conditions.OWN
    assert (merge.DISRUPTION, merge.BY_KUBELET) == (conditions.DISRUPTION, conditions.BY_KUBELET)


@pytest.mark.parametrize(
    ("api", "ours", "result"),
    [
        pytest.param(
            {"phase": "Pending", "reason": "x", "podIP": "1"},
            {"phase": "Running"},
            {"phase": "Running"},
            id="P-128 own fields are ours, also where we say nothing",
        ),
        pytest.param(
            {"resourceClaimStatuses": [{"name": "a"}], "newField": {"a": 1}},
            {"phase": "Running", "resourceClaimStatuses": [{"name": "old"}]},
            {"phase": "Running", "resourceClaimStatuses": [{"name": "a"}], "newField": {"a": 1}},
            id="P-128 others' fields stay as they are there",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted", "message": "m"},
            {"phase": "Running", "podIP": "1"},
            {"phase": "Failed", "reason": "Evicted", "message": "m", "podIP": "1"},
            id="P-115 a terminal phase never reverts",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted"},
            {"phase": "Succeeded"},
            {"phase": "Succeeded"},
            id="P-115 what is terminal for us is ours to name",
        ),
        pytest.param(
            {"conditions": [condition("gate"), condition("Ready", "False")]},
            {"conditions": [condition("old-gate"), condition("Ready")]},
            {"conditions": [condition("gate"), condition("Ready")]},
            id="P-128 others' conditions first, as they are there",
        ),
        pytest.param(
            {"conditions": [condition("Ready", lastTransitionTime=EARLIER)]},
            {"conditions": [condition("Ready", reason="x", lastTransitionTime=LATER)]},
            {"conditions": [condition("Ready", reason="x", lastTransitionTime=EARLIER)]},
            id="P-127 the same status is so since it was",
        ),
        pytest.param(
            {"conditions": [condition("Ready", "False", lastTransitionTime=EARLIER)]},
            {"conditions": [condition("Ready", lastTransitionTime=LATER)]},
            {"conditions": [condition("Ready", lastTransitionTime=LATER)]},
            id="P-127 another status is so since we say",
        ),
        pytest.param(
            {"conditions": [condition("DisruptionTarget", reason="PreemptionByScheduler")]},
            {"conditions": [condition("DisruptionTarget", reason="old")]},
            {"conditions": [condition("DisruptionTarget", reason="PreemptionByScheduler")]},
            id="P-125 a disruption that others name stays theirs",
        ),
        pytest.param(
            {"conditions": [condition("DisruptionTarget", reason="PreemptionByScheduler")]},
            {"conditions": [condition("DisruptionTarget", reason="TerminationByKubelet")]},
            {"conditions": [condition("DisruptionTarget", reason="TerminationByKubelet")]},
            id="P-125 ours is ours",
        ),
        pytest.param(
            {"conditions": [5, {"type": 7}, None], "phase": 3},
            {"phase": "Running"},
            {"phase": "Running"},
            id="odd conditions are no conditions",
        ),
    ],
)
def test_two_statuses_become_one(api, ours, result):
    """Each writer's part is kept."""
    assert bare(merged(api, ours)) == bare({"conditions": [], **result})


@pytest.mark.parametrize(
    ("policy", "old", "new", "named"),
    [
        ("Never", ended(0), RUNS, "c"),
        ("Never", ended(1), RUNS, "c"),
        ("Never", ended(1), ended(2), ""),
        ("OnFailure", ended(0), RUNS, "c"),
        ("OnFailure", ended(1), RUNS, ""),
        ("Always", ended(0), RUNS, ""),
        ("Never", RUNS, ended(0), ""),
        ("Never", ended(0), {"state": 5}, "c"),
        ("Never", {"state": []}, RUNS, ""),
    ],
)
def test_no_container_that_ended_for_good_runs_again(policy, old, new, named):
    """P-115: what was said to have ended is not unsaid."""
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    before = {"containerStatuses": [{"name": "c", **old}]}
    after = {"containerStatuses": [{"name": "c", **new}]}
    assert backwards(spec, before, after) == named


@pytest.mark.parametrize(
    ("container", "policy", "kind", "named"),
    [
        ({"restartPolicy": "Always"}, "Never", "containers", ""),  # P-80
        ({"restartPolicyRules": [{"action": "Restart"}]}, "Never", "containers", ""),
        ({"restartPolicy": "Always"}, "Never", "initContainers", ""),  # P-76: a sidecar
        ({}, "Never", "initContainers", "c"),
        ({}, "OnFailure", "initContainers", ""),  # P-72: they run again in a new sandbox
    ],
)
def test_what_may_run_again_may_be_shown_so(container, policy, kind, named):
    """Rules of containers and new sandboxes are no steps back."""
    spec = {"restartPolicy": policy, kind: [{"name": "c", **container}]}
    field = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[kind]
    before, after = {field: [{"name": "c", **ended()}]}, {field: [{"name": "c", **RUNS}]}
    assert backwards(spec, before, after) == named


def test_all_containers_may_run_again_where_a_rule_says_so():
    """P-81: a rule of one container restarts the others too."""
    rule = {"name": "b", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c"}, rule]}
    before = {"containerStatuses": [{"name": "c", **ended()}]}
    assert backwards(spec, before, {"containerStatuses": [{"name": "c", **RUNS}]}) == ""


@pytest.mark.parametrize(
    ("api", "wanted", "soon"),
    [
        ({"phase": "Running"}, {"phase": "Failed"}, True),
        ({"phase": "Running"}, {"phase": "Succeeded"}, True),
        ({"phase": "Pending"}, {"phase": "Running"}, False),
        ({"conditions": [condition("Ready", "False")]}, {"conditions": [condition("Ready")]}, True),
        ({"conditions": [condition("Ready")]}, {"conditions": []}, True),
        ({"conditions": []}, {"conditions": [condition("Ready", "False")]}, False),
        ({"conditions": [condition("Ready")]}, {"conditions": [condition("Ready", x=1)]}, False),
    ],
)
def test_what_others_wait_for_is_urgent(api, wanted, soon):
    """P-131: readiness and the end of a pod go first."""
    assert urgent(api, wanted) is soon


# --- The patch. ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        pytest.param({"phase": "Running"}, {"phase": "Running"}, None, id="nothing"),
        pytest.param(
            {
                "containerStatuses": [{"name": "c", "lastState": {}, "imageID": ""}],
                "conditions": [{**condition("Ready"), "lastProbeTime": None}],
            },
            {"containerStatuses": [{"name": "c"}], "conditions": [condition("Ready")]},
            None,
            id="what the server fills in is no difference",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "c", "restartCount": 0}]},
            {"containerStatuses": [{"name": "c", "restartCount": 1}]},
            {"containerStatuses": [{"name": "c", "restartCount": 1}]},
            id="lists of containers as a whole",
        ),
        pytest.param(
            {"reason": "x", "podIP": "1"},
            {"reason": "", "podIP": None},
            {"reason": None, "podIP": None},
            id="what is not said any more goes",
        ),
        pytest.param(
            {"conditions": [condition("gate"), condition("Ready", "False", reason="r")]},
            {"conditions": [condition("gate"), condition("Ready")]},
            {
                "conditions": [{"type": "Ready", "status": "True", "reason": None}],
                "$setElementOrder/conditions": [{"type": "gate"}, {"type": "Ready"}],
            },
            id="conditions by type, and what of them differs",
        ),
        pytest.param(
            {"conditions": [condition("PodResizePending"), condition("Ready")]},
            {"conditions": [condition("Ready")]},
            {
                "conditions": [{"$patch": "delete", "type": "PodResizePending"}],
                "$setElementOrder/conditions": [{"type": "Ready"}],
            },
            id="P-126 a condition that goes",
        ),
        pytest.param(
            {"podIP": "a", "podIPs": [{"ip": "a"}]},
            {"podIP": "b", "podIPs": [{"ip": "b"}]},
            {
                "podIP": "b",
                "podIPs": [{"ip": "b"}, {"$patch": "delete", "ip": "a"}],
                "$setElementOrder/podIPs": [{"ip": "b"}],
            },
            id="P-129 another address",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}},
            {"resources": {"requests": {"memory": "1"}, "limits": {"cpu": "2"}}},
            {"resources": {"requests": {"cpu": None, "memory": "1"}}},
            id="P-130 maps by key",
        ),
        pytest.param(
            {"conditions": [condition("a"), condition("b")]},
            {"conditions": [condition("b"), condition("a")]},
            None,
            id="another order alone is not worth a write",
        ),
    ],
)
def test_the_patch_has_what_differs(old, new, change):
    """P-131: guarded by the UID, and nothing more than is needed."""
    expected = None if change is None else {"metadata": {"uid": "u"}, "status": change}
    assert status_patch("u", old, new) == expected


texts = st.sampled_from(["", "a", "b"])
types = st.sampled_from(["Ready", "Initialized", "gate", "other"])
a_condition = st.fixed_dictionaries(
    {"type": types, "status": st.sampled_from(["True", "False"])},
    optional={"reason": texts, "message": texts, "observedGeneration": st.integers(0, 2)},
)
a_status = st.fixed_dictionaries(
    {},
    optional={
        "phase": texts,
        "podIP": texts,
        "podIPs": st.lists(st.builds(lambda ip: {"ip": ip}, st.sampled_from("abc")), max_size=2),
        "conditions": st.lists(a_condition, max_size=4, unique_by=lambda c: c["type"]),
        "containerStatuses": st.lists(st.fixed_dictionaries({"name": texts}), max_size=2),
        "resources": st.dictionaries(texts, st.dictionaries(texts, texts, max_size=2), max_size=2),
        "observedGeneration": st.integers(0, 2),
    },
)


@given(a_status, a_status)
def test_a_patched_status_is_the_wanted_one(old, new):
    """P-131: applied as the API server applies it, each patch leads to what was wanted."""
    old, new = copy.deepcopy(old), copy.deepcopy(new)
    for status in (old, new):
        status["podIPs"] = list({ip["ip"]: ip for ip in status.get("podIPs", ())}.values())
    body = status_patch("u", old, new)
    result = applied(old, body["status"]) if body else old
    assert status_patch("u", result, new) is None
    if body and "conditions" in body["status"]:
        kept = [c["type"] for c in result["conditions"]]
        assert kept == [c["type"] for c in new.get("conditions", ())]


# --- The next step. ------------------------------------------------------------------------------


def wanted(status, *, finished=False):
    text = json.dumps(status).encode()
    return Wanted.of(StatusRow("uid-web", "web", "default", 1, text, finished))


DELETED = {"deletionTimestamp": LATER}
DONE = {"phase": "Succeeded", "conditions": []}


@pytest.mark.parametrize(
    ("found", "ours", "finished", "step"),
    [
        (pod(status=DONE, metadata=DELETED), DONE, True, Delete),
        (pod(status=DONE, metadata=DELETED), DONE, False, type(None)),  # not finished here
        (pod(status=DONE), DONE, True, type(None)),  # nobody wants it deleted
        (pod(metadata=DELETED), DONE, True, Patch),  # its status is written first
        (pod(metadata=DELETED), {"phase": "Pending"}, True, type(None)),  # not terminal there
        (mirror("web", status=DONE, metadata=DELETED), DONE, True, type(None)),
    ],
)
def test_an_object_goes_when_all_is_said_and_done(found, ours, finished, step):
    """P-41: deleted, no mirror, terminal there, and nothing of it left here."""
    assert type(next_step(found, wanted(ours, finished=finished))) is step


def test_a_step_back_is_refused_until_all_is_over():
    """P-115: nothing is said that undoes an end; the last word of a pod is always said."""
    found = pod(spec={"restartPolicy": "Never"})
    found["status"]["containerStatuses"] = [{"name": "c", **ended()}]
    ours = {"phase": "Running", "containerStatuses": [{"name": "c", **RUNS}]}
    assert next_step(found, wanted(ours)) == Backwards("c")
    assert isinstance(next_step(found, wanted(ours, finished=True)), Patch)


@pytest.mark.parametrize(
    ("err", "other"),
    [
        (ApiError('Pod "p" is invalid: metadata.uid: field is immutable', status=422), True),
        (ApiError("Precondition failed: UID in precondition: a", status=409), True),
        (ApiError("the object has been modified", status=409), False),
        (ApiError("status.phase: Invalid value", status=422), False),
        (ApiError("uid", status=500), False),
    ],
)
def test_another_pod_of_that_name_is_recognised(err, other):
    """The answers of a server that holds another UID, as it words them."""
    assert is_other(err) is other


def test_foreign_parts_leave_out_what_is_ours():
    """P-124, P-128: nothing but others' parts, and an end that others may have written."""
    own = {"phase": "Running", "podIP": "1", "conditions": [condition("Ready")]}
    assert foreign(own) == foreign({})
    gate = {"conditions": [condition("gate"), condition("Ready")]}
    assert foreign(gate) == {"conditions": [condition("gate")]}
    assert foreign({"phase": "Failed"}) != foreign({"phase": "Running"})
