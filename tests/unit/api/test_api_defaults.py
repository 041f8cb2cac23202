"""The API server's defaults: what they are, that they stay, and what they leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.api.codec import encode
from kubelet.api.container import ObjectFieldSelector
from kubelet.api.defaults import pull_policy, with_defaults
from kubelet.api.security import PodSecurityContext
from kubelet.api.volumes import EmptyDirVolumeSource
from tests.unit.api.documents import APISERVER, ETCD, SMALL, changed, pod
from tests.unit.api.rich import RICH


def defaulted(changes=None, document=SMALL):
    """Return the document of a changed pod after defaulting."""
    return encode(with_defaults(pod(changed(document, changes or {}))))


def test_spec():
    """A small pod has what every pod has."""
    assert with_defaults(pod(SMALL)).spec.security_context == PodSecurityContext()
    assert defaulted() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example/app:1",
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
        "status": {},
    }


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({"spec.enableServiceLinks": False}, ("enableServiceLinks",), False),
        ({"spec.terminationGracePeriodSeconds": 0}, ("terminationGracePeriodSeconds",), 0),
        ({"spec.restartPolicy": "Never"}, ("restartPolicy",), "Never"),
        ({"spec.serviceAccountName": "a"}, ("serviceAccount",), "a"),
        ({"spec.serviceAccount": "a"}, ("serviceAccountName",), "a"),
        (
            {"spec.serviceAccount": "old", "spec.serviceAccountName": "new"},
            ("serviceAccount",),
            "new",
        ),
        ({"spec.overhead": {"cpu": "1500u"}}, ("overhead", "cpu"), "2m"),
    ],
)
def test_pod_fields(changes, path, expected):
    """What is said stays, what follows from it is added."""
    found = defaulted(changes)["spec"]
    for step in path:
        found = found[step]
    assert found == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("registry.example:5000/app", "Always"),
        ("registry.example:5000/app:1", "IfNotPresent"),
        ("app@sha256:" + "a" * 64, "IfNotPresent"),
        ("app:latest@sha256:" + "a" * 64, "Always"),
        ("app:1@sha256:" + "a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_pull_policy(image, expected):
    """An image is always pulled if its tag is latest, which it is without tag and digest."""
    assert pull_policy(image) == expected
    kinds = ("containers", "initContainers", "ephemeralContainers")
    changes = {f"spec.{kind}": [{"name": "c", "image": image}] for kind in kinds}
    changes["spec.volumes[0]"] = {"name": "v", "image": {"reference": image}}
    found = defaulted(changes)["spec"]
    assert [found[kind][0]["imagePullPolicy"] for kind in kinds] == [expected] * 3
    assert found["volumes"][0]["image"]["pullPolicy"] == expected


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe", "startupProbe"])
@pytest.mark.parametrize("container", ["containers", "initContainers", "ephemeralContainers"])
def test_probes(container, kind):
    """Probes have their numbers, of which zero is none (B-15), and HTTP ones path and scheme."""
    given_probe = {"httpGet": {"port": 80}, "timeoutSeconds": 0, "initialDelaySeconds": 0}
    found = defaulted({f"spec.{container}[0].{kind}": given_probe})["spec"][container][0][kind]
    assert found == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "initialDelaySeconds": 0,
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_lifecycle():
    """Hooks over HTTP have a path and a scheme."""
    hook = {"httpGet": {"port": 80, "scheme": "HTTPS"}}
    found = defaulted({"spec.containers[0].lifecycle": {"postStart": hook, "preStop": hook}})
    filled = {"httpGet": {"port": 80, "scheme": "HTTPS", "path": "/"}}
    lifecycle = found["spec"]["containers"][0]["lifecycle"]
    assert lifecycle == {"postStart": filled, "preStop": filled}


@pytest.mark.parametrize(("host_network", "host_port"), [(True, 80), (False, None)])
def test_ports(host_network, host_port):
    """Ports are of TCP, and on the host's network they are the host's."""
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 9, "protocol": "UDP"}]
    changes = {f"spec.{kind}[0].ports": ports for kind in ("containers", "initContainers")}
    found = defaulted({"spec.hostNetwork": host_network, **changes})["spec"]
    for kind in ("containers", "initContainers"):
        first, second = found[kind][0]["ports"]
        assert (first["protocol"], first.get("hostPort")) == ("TCP", host_port)
        assert second == {"containerPort": 81, "hostPort": 9, "protocol": "UDP"}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_requests(kind):
    """A resource with a limit and no request has its limit as its request; others stay."""
    limits = {"cpu": "2", "memory": "1Gi", "example.com/a": "1"}
    resources = {"limits": limits, "requests": {"cpu": "1", "ephemeral-storage": "1.5n"}}
    found = defaulted({f"spec.{kind}[0].resources": resources})["spec"][kind][0]["resources"]
    assert found["limits"] == limits
    assert found["requests"] == {
        "cpu": "1",
        "memory": "1Gi",
        "example.com/a": "1",
        "ephemeral-storage": "1m",
    }


def test_no_quantity():
    """An amount that is no quantity passes through to be refused by validation."""
    found = defaulted({"spec.containers[0].resources.limits": {"cpu": "much"}})
    resources = found["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "much"}, "requests": {"cpu": "much"}}


@pytest.mark.parametrize(
    ("own", "containers", "expected"),
    [
        ({}, {"limits": {"cpu": "1"}}, {}),
        # The pod's limits are its requests if no container asks for that resource.
        (
            {"limits": {"cpu": "4", "memory": "1Gi"}},
            {"requests": {"cpu": "1"}},
            {
                "limits": {"cpu": "4", "memory": "1Gi"},
                "requests": {"cpu": "1", "memory": "1Gi"},
            },
        ),
        # What the pod itself asks for stays.
        (
            {"limits": {"cpu": "4"}, "requests": {"cpu": "3"}},
            {"requests": {"cpu": "1"}},
            {"limits": {"cpu": "4"}, "requests": {"cpu": "3"}},
        ),
        # Limits that every container has add up, where the pod has none of its own.
        (
            {"requests": {"cpu": "3"}},
            {"limits": {"cpu": "5", "ephemeral-storage": "1"}},
            {"limits": {"cpu": "5"}, "requests": {"cpu": "3"}},
        ),
        # Huge pages are limited at the pod, which makes them its requests.
        (
            {"requests": {"memory": "3Mi"}},
            {"limits": {"hugepages-2Mi": "2Mi", "memory": "1Mi"}},
            {
                "limits": {"hugepages-2Mi": "2Mi"},
                "requests": {"memory": "3Mi", "hugepages-2Mi": "2Mi"},
            },
        ),
    ],
)
def test_pod_resources(own, containers, expected):
    """A pod's own resources are completed from its containers (M-60)."""
    changes = {"spec.resources": own, "spec.containers[0].resources": containers}
    assert defaulted(changes)["spec"]["resources"] == expected


def test_pod_resources_of_init_containers():
    """Init containers count one at a time, sidecars beside all that come after them."""
    changes = {"spec.resources": {"limits": {"cpu": "9"}}}
    wanted = [("5", None), ("1", "Always"), ("3", None)]
    for i, (cpu, policy) in enumerate(wanted):
        changes[f"spec.initContainers[{i}].resources"] = {"requests": {"cpu": cpu}}
        if policy:
            changes[f"spec.initContainers[{i}].restartPolicy"] = policy
    changes["spec.containers[0].resources"] = {"requests": {"cpu": "2"}}
    assert defaulted(changes)["spec"]["resources"]["requests"] == {"cpu": "5"}
    changes["spec.initContainers[2].resources"] = {"requests": {"cpu": "4500m"}}
    assert defaulted(changes)["spec"]["resources"]["requests"] == {"cpu": "5500m"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": {"secretName": "a"}}, {"secret": {"secretName": "a", "defaultMode": 420}}),
        ({"configMap": {"defaultMode": 0}}, {"configMap": {"defaultMode": 0}}),
        ({"configMap": {}}, {"configMap": {"defaultMode": 420}}),
        ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a"}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                }
            },
        ),
        (
            {"projected": {"sources": [{"podCertificate": {"keyType": "ED25519"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"podCertificate": {"keyType": "ED25519", "maxExpirationSeconds": 86400}}
                    ],
                }
            },
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": []}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"spec": {"accessModes": [], "volumeMode": "Filesystem"}}
                }
            },
        ),
        (
            {"rbd": {"image": "a", "pool": "p"}},
            {"rbd": {"image": "a", "pool": "p", "user": "admin", "keyring": "/etc/ceph/keyring"}},
        ),
    ],
)
def test_volumes(source, expected):
    """Sources are completed, and a volume without one is an empty directory (L-22)."""
    found = defaulted({"spec.volumes[0]": {"name": "v", **source}})["spec"]["volumes"][0]
    assert found == {"name": "v", **expected}


def test_empty_dir():
    """A volume without a source has one afterwards, not a document's absence."""
    volumes = with_defaults(pod(changed(SMALL, {"spec.volumes[0]": {"name": "v"}}))).spec.volumes
    assert volumes[0].empty_dir == EmptyDirVolumeSource()


def test_downward():
    """References to the pod's fields are of version v1, those to resources have a divisor."""
    field, resource = {"fieldPath": "metadata.name"}, {"resource": "limits.cpu"}
    files = [{"path": "a", "fieldRef": field}, {"path": "b", "resourceFieldRef": resource}]
    found = with_defaults(
        pod(
            changed(
                SMALL,
                {
                    "spec.containers[0].env": [
                        {"name": "A", "valueFrom": {"fieldRef": field}},
                        {"name": "B", "valueFrom": {"resourceFieldRef": resource}},
                    ],
                    "spec.volumes[0]": {"name": "a", "downwardAPI": {"items": files}},
                    "spec.volumes[1]": {
                        "name": "b",
                        "projected": {"sources": [{"downwardAPI": {"items": files}}]},
                    },
                },
            )
        )
    ).spec
    wanted = ObjectFieldSelector(api_version="v1", field_path="metadata.name")
    one, two = found.containers[0].env
    assert one.value_from.field_ref == wanted
    assert two.value_from.resource_field_ref.divisor == "0"
    assert found.volumes[0].downward_api.default_mode == 0o644
    for items in (
        found.volumes[0].downward_api.items,
        found.volumes[1].projected.sources[0].downward_api.items,
    ):
        assert items[0].field_ref == wanted
        assert items[1].resource_field_ref.divisor == "0"


@pytest.mark.parametrize("document", [SMALL, APISERVER, ETCD, RICH])
def test_idempotent(document):
    """Defaulting a pod that has its defaults changes nothing."""
    once = with_defaults(pod(document))
    assert with_defaults(once) == once


_AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "example.com/a"]),
    st.sampled_from(["1", "1500u", "2Mi", "0.1n", "junk"]),
)
_RESOURCES = st.fixed_dictionaries({"limits": _AMOUNTS, "requests": _AMOUNTS})


@given(own=_RESOURCES, containers=st.lists(_RESOURCES, max_size=3), init=_RESOURCES)
def test_resources_idempotent(own, containers, init):
    """Whatever a pod and its containers ask for, a second defaulting changes nothing."""
    changes = {"spec.resources": own, "spec.initContainers[0].resources": init}
    for i, one in enumerate(containers):
        changes[f"spec.containers[{i}].resources"] = one
    once = with_defaults(pod(changed(SMALL, changes)))
    assert with_defaults(once) == once
