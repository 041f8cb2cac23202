"""Manifests to static pods (P-5..P-8)."""

from __future__ import annotations

import json

import pytest
import yaml

from kubelet.api.scheduling import Toleration
from procs.syncloop.sources import manifest
from procs.syncloop.sources.document import UnreadableError
from procs.syncloop.sources.identity import fnv128a, uid_problem
from procs.syncloop.sources.keeping import keep
from procs.syncloop.sources.manifest import Parsed
from tests.unit.sources.sources_scene import NODE, pod, text

PATH = "/m/web.yaml"
URL = "http://host/pods"


def file(document, path=PATH, node=NODE):
    data = document if isinstance(document, bytes) else text(document)
    return manifest.from_file(data, path, node)


def body(document):
    return manifest.from_body(text(document), URL, NODE, URL)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", "6c62272e07bb014262b821756295c58d"),
        (b"a", "d228cb696f1a8caf78912b704e4a8964"),
        (b"foobar", "343e1662793c64bf6f0d3597ba446f18"),
    ],
)
def test_the_hash_is_fnv_1a_of_128_bits(data, value):
    """The published test values of the hash (P-7)."""
    assert f"{fnv128a(data):032x}" == value


def test_a_pod_from_a_file_gets_its_identity():
    """Name, namespace, node, notes, toleration and phase are set (P-7)."""
    found = file(pod()).pod
    assert (found.name, found.namespace, found.spec.node_name) == ("web-node-1", "default", NODE)
    assert len(found.uid) == 32
    assert int(found.uid, 16)
    assert found.metadata.annotations["kubernetes.io/config.hash"] == found.uid
    assert found.metadata.annotations["kubernetes.io/config.source"] == "file"
    assert found.spec.tolerations == (Toleration(operator="Exists", effect="NoExecute"),)
    assert found.status.phase == "Pending"
    assert found.spec.restart_policy == "Always"  # completed


def test_a_node_in_capitals_gives_a_small_suffix():
    """Names are lower case, whatever the node is called (P-7)."""
    parsed = file(pod(), node="NODE")
    assert all("metadata.name" not in problem for problem in parsed.problems)


def test_the_uid_is_that_of_content_node_and_place():
    """The same file is the same pod, any change another one; YAML and JSON are alike (P-7)."""
    first = file(pod()).pod.uid
    assert file(yaml.safe_dump(pod()).encode()).pod.uid == first
    assert file({**pod(), "status": {"phase": "Failed"}}).pod.uid == first
    others = {
        file(pod(image="app:2")).pod.uid,
        file(pod(), path="/m/other.yaml").pod.uid,
        file(pod(), node="node-2").pod.uid,
        body(pod())[0].pod.uid,
    }
    assert len(others) == 4
    assert first not in others


def test_a_given_uid_stays():
    """metadata.uid is taken as it is (P-7)."""
    assert file(pod(metadata={"uid": "abc-1"})).pod.uid == "abc-1"


@pytest.mark.parametrize("uid", ["../../etc", "a/b", "sources", "runtime", "a" * 129, ".", "-a"])
def test_a_uid_that_could_be_a_path_is_refused(uid):
    """It names directories and entries of tables."""
    assert uid_problem(uid).startswith(f"metadata.uid: Invalid value: {uid!r}")
    assert file(pod(metadata={"uid": uid})).pod is None


def test_a_pod_from_a_url_has_no_toleration_of_its_own():
    """The catch-all toleration is for files (P-7)."""
    (parsed,) = body(pod())
    assert parsed.pod.spec.tolerations == ()
    assert parsed.pod.metadata.annotations["kubernetes.io/config.source"] == "http"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], 'must be an object of kind "Pod"'),
        ({}, "kind: Required value"),
        ({"kind": "Deployment"}, 'kind: Invalid value: "Deployment": must be "Pod"'),
        ({"kind": "Pod"}, "apiVersion: Required value"),
        ({"kind": "Pod", "apiVersion": "v2"}, 'apiVersion: Invalid value: "v2": must be "v1"'),
        ({"kind": "PodList", "apiVersion": "v1", "items": [pod()]}, 'must be "Pod"'),
        (pod(name=""), "metadata.name"),
        (pod(hostNetwork="yes"), "spec.hostNetwork: must be true or false, not 'yes'"),
        (pod(container={"image": ""}), "spec.containers[0].image"),
        (pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}]), "static pods may not"),
        (pod(metadata={"deletionTimestamp": "soon"}), "metadata.deletionTimestamp: Invalid value"),
    ],
)
def test_a_bad_manifest_is_said_with_field_and_value(document, words):
    """What is wrong is named; there is no pod (P-5, P-7, P-8)."""
    parsed = file(document)
    assert parsed.pod is None
    assert words in "\n".join(parsed.problems)


def test_unknown_fields_are_warnings():
    """The pod runs without what nobody knows."""
    parsed = file(pod(shiny=True))
    assert parsed.pod is not None
    assert parsed.warnings == ('unknown field "spec.shiny"',)


def test_the_nodes_own_notes_cannot_be_forged():
    """Annotations of the kubelet are its own; a priority class without a priority warns (P-8)."""
    notes = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.seen": "y", "mine": "z"}
    parsed = file(pod(metadata={"annotations": notes}, priorityClassName="gold"))
    assert "kubernetes.io/config.mirror" not in parsed.pod.metadata.annotations
    assert "kubernetes.io/config.seen" not in parsed.pod.metadata.annotations
    assert parsed.pod.metadata.annotations["mine"] == "z"
    assert len(parsed.warnings) == 3


@pytest.mark.parametrize("kind", ["PodList", "List"])
def test_a_list_holds_pods_each_for_itself(kind):
    """One bad pod among good ones is nobody else's affair (P-6)."""
    bad = pod(name="bad", container={"image": ""})
    parsed = body({"kind": kind, "apiVersion": "v1", "items": [pod(name="a"), bad, pod(name="b")]})
    assert [p.pod.name if p.pod else None for p in parsed] == ["a-node-1", None, "b-node-1"]
    assert parsed[1].origin == f"{URL}#default/bad"


def test_items_of_a_pod_list_need_not_say_what_they_are():
    """The list has said it; a List has not (P-6)."""
    bare = {k: v for k, v in pod().items() if k in ("metadata", "spec")}
    assert body({"kind": "PodList", "apiVersion": "v1", "items": [bare]})[0].pod is not None
    assert body({"kind": "List", "apiVersion": "v1", "items": [bare]})[0].pod is None


def test_two_of_one_name_in_a_list_have_different_origins():
    """So that a sentence about them can tell them apart."""
    items = {"kind": "PodList", "apiVersion": "v1", "items": [pod(), pod(), {}]}
    assert [p.origin for p in body(items)] == [
        f"{URL}#default/web",
        f"{URL}#default/web[1]",
        f"{URL}#2",
    ]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"kind": "Node", "apiVersion": "v1"}, 'must be "Pod", "PodList" or "List"'),
        ({"kind": "PodList", "apiVersion": "v2"}, 'must be "v1"'),
        ({"kind": "PodList", "apiVersion": "v1", "items": {}}, "items: must be a list"),
        ([], "must be an object"),
    ],
)
def test_a_body_that_is_no_pods_at_all(document, words):
    """The whole answer is refused, with what was expected (P-6)."""
    with pytest.raises(UnreadableError) as caught:
        body(document)
    assert words in str(caught.value)


def test_an_empty_list_is_no_pods():
    """That is a fine answer."""
    assert body({"kind": "PodList", "apiVersion": "v1", "items": None}) == ()


def test_a_broken_manifest_keeps_the_pod_it_gave():
    """A typo does not end a pod; a removed manifest does."""
    good = file(pod()).pod
    kept = keep("file", [Parsed(PATH, None, ("spec: bad",))], {PATH: good, "/gone": good})
    assert [c.pod for c in kept.candidates] == [good]
    assert kept.good == {PATH: good}
    assert kept.problems == (
        f"{PATH}: spec: bad",
        f"{PATH}: pod default/web-node-1 keeps running as it was until this is mended or removed",
    )


def test_many_problems_of_one_manifest_are_counted():
    """A row has room for the others."""
    kept = keep("file", [Parsed(PATH, None, tuple(map(str, range(50))))], {})
    assert len(kept.problems) == 21
    assert kept.problems[-1] == f"{PATH}: 30 more problems"


def test_json_numbers_of_any_kind_are_read():
    """A number in a quantity's place is one."""
    limits = {"resources": {"limits": {"cpu": 1, "memory": "64Mi"}}}
    parsed = file(json.dumps(pod(container=limits)).encode())
    assert parsed.pod.spec.containers[0].resources.limits["cpu"] == "1"
