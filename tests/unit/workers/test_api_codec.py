"""Pods from and to JSON documents."""

from __future__ import annotations

import pytest
from kubernetes import client

from kubelet import times
from kubelet.api import codec
from kubelet.api.pod import Pod

DOCUMENT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}},
    "spec": {
        "hostPID": True,
        "setHostnameAsFQDN": False,
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80, "hostIP": "127.0.0.1"}],
                "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 3},
                "securityContext": {"seLinuxOptions": {"level": "s0"}, "runAsUser": 0},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "d", "downwardAPI": {"items": []}}],
    },
    "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "hostIPs": [{"ip": "1.1.1.1"}]},
}


def test_round_trip_keeps_everything_that_is_set():
    """What is set, also to nothing, comes back; an empty list is as good as none."""
    pod, warnings = codec.decode(Pod, DOCUMENT)
    assert warnings == []
    expected = {**DOCUMENT, "spec": {**DOCUMENT["spec"]}}  # type: ignore[dict-item]
    expected["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}, {"name": "d", "downwardAPI": {}}]  # type: ignore[index]
    assert codec.encode(pod) == expected
    assert codec.read(Pod, codec.encode(pod)) == pod


def test_numbers_are_quantities():
    """A bare number is a quantity, as YAML writers expect."""
    spec = {"containers": [{"name": "c", "resources": {"limits": {"cpu": 2, "memory": 1.5}}}]}
    pod, _ = codec.decode(Pod, {"spec": spec})
    assert pod.spec.containers[0].resources is not None
    assert pod.spec.containers[0].resources.limits == {"cpu": "2", "memory": "1.5"}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"containers": {}}, "spec.containers: must be a list, not an object"),
        ({"containers": [{"name": 3}]}, "spec.containers[0].name: must be a string, not 3"),
        ({"hostPID": "yes"}, "spec.hostPID: must be true or false, not 'yes'"),
        (
            {"containers": [{"ports": [{"containerPort": "x"}]}]},
            "spec.containers[0].ports[0].containerPort: must be an integer, not 'x'",
        ),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector[a]: must be a string, not 1"),
        ({"securityContext": []}, "spec.securityContext: must be an object, not a list"),
    ],
)
def test_misfits_are_named_by_path(spec, problem):
    """Bad input names the field and the value."""
    with pytest.raises(codec.DecodeError) as caught:
        codec.decode(Pod, {"spec": spec})
    assert caught.value.problems == [problem]


def test_unknown_fields_are_warnings():
    """A field that nobody knows does not stop a pod."""
    pod, warnings = codec.decode(Pod, {"spec": {"frobnicate": 1, "hostname": "h"}})
    assert warnings == ['unknown field "spec.frobnicate"']
    assert pod.spec.hostname == "h"


def test_null_is_not_set():
    """YAML writers leave keys without values."""
    assert codec.decode(Pod, {"spec": {"containers": None}})[0] == Pod()


@pytest.mark.parametrize(
    "name", ["V1PodSpec", "V1Container", "V1PodStatus", "V1ContainerStatus", "V1Volume"]
)
def test_fields_are_those_of_the_published_api(name):
    """Every field that the published client knows has its name here."""
    import kubelet.api.container
    import kubelet.api.pod
    import kubelet.api.status
    import kubelet.api.volumes

    ours = next(
        getattr(module, name[2:])
        for module in (
            kubelet.api.pod,
            kubelet.api.container,
            kubelet.api.status,
            kubelet.api.volumes,
        )
        if hasattr(module, name[2:])
    )
    published = set(getattr(client, name).attribute_map.values())
    assert {camel for _, camel in codec._names(ours)} == published


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2026-01-02T03:04:05Z", 1767323045), ("2026-01-02T04:04:05+01:00", 1767323045), ("", 0)],
)
def test_times(text, seconds):
    """Moments are RFC 3339; what is written is in UTC, to the second."""
    assert times.to_ns(text) == seconds * 10**9
    if text.endswith("Z"):
        assert times.to_text(seconds * 10**9 + 999_999_999) == text


def test_time_without_zone_is_no_time():
    """A moment that depends on the reader is refused."""
    with pytest.raises(ValueError, match="no time zone"):
        times.to_ns("2026-01-02T03:04:05")
