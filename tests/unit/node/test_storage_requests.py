"""What is answered about attachments and claims that grow (L-16, L-17, L-44)."""

from __future__ import annotations

import contextlib

import pytest

from kubelet.channels.messages import (
    Attachment,
    ClaimNoted,
    CsiDriverNoted,
    GetAttachment,
    NoteClaimResize,
    RegisterCsiDriver,
    UnregisterCsiDriver,
)
from procs.node.reviews import NO_API
from procs.node.storage import resize
from procs.node.storage.alone import StorageAlone
from tests.unit.node.events_scene import Standing
from tests.unit.node.loopback import story
from tests.unit.node.storage_scene import on_stage

ATTACHMENT = "/apis/storage.k8s.io/v1/volumeattachments/csi-1"
CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/data"
NOW = "2023-11-14T22:13:20Z"
BEGUN = NoteClaimResize("ns", "data", "begun")
DONE = NoteClaimResize("ns", "data", "done", capacity="2Gi")
FAILED = NoteClaimResize("ns", "data", "failed", error="no room")
INFEASIBLE = NoteClaimResize("ns", "data", "failed", error="no room", infeasible=True)
ERROR = {
    "type": "NodeResizeError",
    "status": "True",
    "lastTransitionTime": NOW,
    "message": "failed to expand pvc with no room",
}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (None, Attachment(True)),
        ({"attached": "yes"}, Attachment(True)),
        (
            {"attached": True, "attachmentMetadata": {"path": "/dev/x", "odd": 3}},
            Attachment(True, attached=True, metadata={"path": "/dev/x"}),
        ),
        (
            {"attached": False, "attachError": {"message": "full\nup", "errorCode": 8}},
            Attachment(True, attach_error="full\\nup", attach_code=8),
        ),
        ({"attachError": {"message": 7, "errorCode": "8"}}, Attachment(True)),
    ],
)
def test_an_attachment_is_read(tmp_path, status, found):
    """L-17, L-44: attached or why not, and what the driver is to be told."""

    async def work(scene):
        scene.server.put(ATTACHMENT, {"metadata": {"name": "csi-1"}, "status": status or {}})
        assert await scene.ask(GetAttachment("csi-1")) == found

    on_stage(tmp_path, work)


def test_an_attachment_that_cannot_be_read_says_why(tmp_path):
    """None there is no error; a refusal is, and so is a name that nothing can have."""

    async def work(scene):
        assert await scene.ask(GetAttachment("csi-1")) == Attachment(False)
        scene.server.refuse("GET", ATTACHMENT, 403, "Forbidden")
        assert await scene.ask(GetAttachment("csi-1")) == Attachment(
            False, error="refused: Forbidden"
        )
        asked = len(scene.server.asked)
        found = await scene.ask(GetAttachment("../nodes"))
        assert found.error == "name: '../nodes' is no VolumeAttachment's"
        assert len(scene.server.asked) == asked

    on_stage(tmp_path, work)


def claim(capacity="1Gi", under_way="", conditions=(), **others):
    statuses = {**({"storage": under_way} if under_way else {}), **others}
    return {
        "metadata": {"name": "data", "resourceVersion": "7"},
        "status": {
            "capacity": {"storage": capacity},
            "conditions": [{"type": kind, "status": "True"} for kind in conditions],
            **({"allocatedResourceStatuses": statuses} if statuses else {}),
        },
    }


def removed(*types):
    return [{"$patch": "delete", "type": kind} for kind in types]


@pytest.mark.parametrize(
    ("there", "request_", "status"),
    [
        (
            claim(under_way="NodeResizePending"),
            BEGUN,
            {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}},
        ),
        (claim(under_way="NodeResizeInProgress"), BEGUN, None),
        (
            claim(
                under_way="NodeResizeInProgress",
                conditions=("FileSystemResizePending", "Theirs", "NodeResizeError"),
            ),
            DONE,
            {
                "capacity": {"storage": "2Gi"},
                "allocatedResourceStatuses": None,
                "conditions": removed("FileSystemResizePending", "NodeResizeError"),
            },
        ),
        (
            claim(under_way="NodeResizeInProgress", others="X"),
            DONE,
            {"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": None}},
        ),
        (
            claim("2048Mi", "NodeResizeInProgress"),
            DONE,
            {"allocatedResourceStatuses": None},
        ),
        (claim("2Gi"), DONE, None),
        (claim("3Gi"), DONE, None),
        (claim(), FAILED, {"conditions": [ERROR]}),
        (claim(conditions=("NodeResizeError",)), FAILED, None),
        (
            claim(under_way="NodeResizeInProgress"),
            INFEASIBLE,
            {
                "allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"},
                "conditions": [ERROR],
            },
        ),
        (
            claim(under_way="NodeResizeInfeasible", conditions=("NodeResizeError",)),
            INFEASIBLE,
            None,
        ),
    ],
)
def test_what_a_claims_status_is_told(there, request_, status):
    """L-16: only what it does not say yet; others' conditions stay."""
    found = resize.patch_of(there, request_, NOW)
    assert (found and found["status"]) == status
    if found and request_.step != "failed":
        assert found["metadata"] == {"resourceVersion": "7"}, "for the claim that was looked at"


def test_a_step_is_written_once_and_the_claim_read_again(tmp_path):
    """A conflict is settled by a fresh read; the same again writes nothing."""

    async def work(scene):
        scene.server.put(CLAIM, claim(under_way="NodeResizePending"))
        scene.server.refuse("PATCH", CLAIM, 409, "Conflict", times=2)
        assert await scene.ask(BEGUN) == ClaimNoted()
        status = scene.server.objects[CLAIM]["status"]
        assert status["allocatedResourceStatuses"] == {"storage": "NodeResizeInProgress"}
        assert scene.noted == [("ns", "data")]
        written = len(scene.writes())
        assert await scene.ask(BEGUN) == ClaimNoted()
        assert (len(scene.writes()), len(scene.noted)) == (written, 1)

    on_stage(tmp_path, work)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (NoteClaimResize("ns", "../x", "begun"), "there is no claim of the name 'ns/../x'"),
        (NoteClaimResize("ns", "data", "done", capacity="much"), "capacity: 'much'"),
        (BEGUN, "not found"),
    ],
)
def test_a_step_that_cannot_be_noted_is_answered_in_words(tmp_path, request_, words):
    """Field and value are named, or the API server's sentence is."""

    async def work(scene):
        assert words in (await scene.ask(request_)).error
        assert scene.writes() == []

    on_stage(tmp_path, work)


def test_a_node_without_an_api_server_answers_about_volumes(tmp_path):
    """A driver works there all the same; what only the API server knows, nobody does."""

    async def go():
        process = Standing(tmp_path)
        with contextlib.closing(process.tables):
            StorageAlone(process).start()
            ask = process.channels.ask
            assert await ask(RegisterCsiDriver("a", "1")) == CsiDriverNoted()
            assert await ask(UnregisterCsiDriver("a")) == CsiDriverNoted()
            assert await ask(GetAttachment("csi-1")) == Attachment(False, error=NO_API)
            assert await ask(BEGUN) == ClaimNoted(NO_API)

    story(go())
