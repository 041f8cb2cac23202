"""Pods as they are found in clusters are valid."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from kubelet.api.validation import static_problems, validate_pod
from kubelet.api.validation.names import MAX_INT32
from tests.unit.api.documents import APISERVER, ETCD, SMALL, changed, pod, problems
from tests.unit.api.rich import RICH


@pytest.mark.parametrize("document", [SMALL, APISERVER, ETCD, RICH])
def test_valid(document):
    """A pod of kubeadm, and one that uses nearly every field, has no problem (P-7)."""
    assert problems({}, document) == []


@pytest.mark.parametrize("document", [SMALL, APISERVER, ETCD])
def test_static(document):
    """The pods of kubeadm need no API object (P-8)."""
    assert static_problems(pod(document)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.terminationGracePeriodSeconds": 0},
        {"spec.terminationGracePeriodSeconds": -1},  # the kubelet's floor is a second (P-37)
        {"spec.activeDeadlineSeconds": MAX_INT32},
        {"spec.containers[0].ports": [{"containerPort": 53, "protocol": "SCTP", "hostPort": 53}]},
        {
            "spec.containers[0].ports": [
                {"containerPort": 1, "hostPort": 53, "protocol": "UDP"},
                {"containerPort": 2, "hostPort": 53},
                {"containerPort": 3, "hostPort": 53, "hostIP": "10.0.0.1"},
            ]
        },
        {"spec.containers[0].lifecycle.preStop.sleep.seconds": 0},
        {"spec.containers[0].lifecycle.preStop.sleep.seconds": 30},
        {"spec.containers[0].resources.limits": {"cpu": "0"}},
        {"spec.containers[0].resources.requests": {"cpu": "1n", "kubernetes.io/thing": "1.5"}},
        {"spec.containers[0].restartPolicy": "OnFailure"},
        {
            "spec.containers[0].restartPolicy": "Never",
            "spec.containers[0].restartPolicyRules": [
                {
                    "action": "RestartAllContainers",
                    "exitCodes": {"operator": "NotIn", "values": list(range(255))},
                }
            ]
            * 20,
        },
        {"spec.hostUsers": False, "spec.containers[0].securityContext.procMount": "Unmasked"},
        {"spec.hostPID": True, "spec.shareProcessNamespace": False},
        {"spec.hostNetwork": True, "spec.containers[0].ports": [{"containerPort": 80}]},
        {"spec.hostnameOverride": "a.b.example"},
        {"spec.os.name": "linux", "spec.containers[0].lifecycle.stopSignal": "SIGUSR1"},
        {"spec.os.name": "windows"},
        {"spec.priority": -(2**31)},
        {"metadata.name": "1.a-b.c"},
        {"metadata.annotations": {"kubernetes.io/config.source": "file", "UPPER.example/K": "v"}},
        {"metadata.annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}},
        {"spec.volumes[0]": {"name": "data", "hostPath": {"path": "/a/..b"}}},
        {"spec.volumes[0]": {"name": "data", "iscsi": {"targetPortal": "h", "iqn": "iqn.a:b"}}},
    ],
)
def test_allowed(changes):
    """What looks odd and is allowed has no problem."""
    assert problems(changes) == []


def test_before_defaulting():
    """What defaulting fills in is required if it was left out."""
    assert validate_pod(pod(SMALL)) == [
        "spec.terminationGracePeriodSeconds: Required value",
        "spec.containers[0].terminationMessagePolicy: Required value",
        "spec.containers[0].imagePullPolicy: Required value",
        "spec.restartPolicy: Required value",
        "spec.dnsPolicy: Required value",
    ]


def test_all_at_once():
    """Every problem is told, in the order of the document's parts, however many there are."""
    document = changed(
        SMALL,
        {
            "metadata.name": "Bad_Name",
            "spec.containers[0].image": "",
            "spec.containers[1]": {"name": "app", "image": " x"},
            "spec.restartPolicy": "Sometimes",
            "spec.tolerations": [{"operator": "Maybe", "key": "a"}],
        },
    )
    found = problems({}, document)
    assert [line.partition(":")[0] for line in found] == [
        "metadata.name",
        "spec.containers[0].image",
        "spec.containers[1].image",
        "spec.containers[1].name",
        "spec.restartPolicy",
        "spec.tolerations[0].operator",
    ]


def _leaves(value, path=""):
    """Yield the paths of all values in a document that are no objects and no lists."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _leaves(item, f"{path}[{i}]")
    elif not re.search(r"annotations|labels|limits|requests|nodeSelector|overhead", path):
        yield path, value


@pytest.mark.parametrize(("path", "value"), list(_leaves(RICH)))
def test_any_value(path, value):
    """Whatever a field says, there is an answer in words that can be written, not an error."""
    others = {str: ["", "\ud800", "x" * 5000], bool: [not value], int: [-1, 0, 2**70]}
    for other in others[type(value)]:
        for line in problems({path: other}, RICH):
            assert line.encode()


def test_documents_kept():
    """A source that is kept as it was written may hold anything, and messages show it."""
    source = {"targetWWNs": [dt.date(2026, 1, 2)], "wwids": [1], "lun": 1}
    (found,) = problems({"spec.volumes[0]": {"name": "data", "fc": source}})
    assert found.startswith('spec.volumes[0].fc.targetWWNs: Invalid value: ["2026-01-02"]: ')


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.serviceAccountName": "a"}, "serviceaccounts (spec.serviceAccountName)"),
        ({"spec.imagePullSecrets": [{"name": "a"}]}, "secrets (spec.imagePullSecrets)"),
        ({"spec.resourceClaims": [{"name": "a"}]}, "resourceclaims (spec.resourceClaims)"),
        (
            {"spec.containers[0].envFrom": [{"secretRef": {"name": "a"}}]},
            "secrets (spec.containers[0].envFrom[0].secretRef)",
        ),
        (
            {"spec.containers[0].envFrom": [{"configMapRef": {"name": "a"}}]},
            "configmaps (spec.containers[0].envFrom[0].configMapRef)",
        ),
        (
            {"spec.containers[0].env[0]": {"valueFrom": {"secretKeyRef": {"name": "a"}}}},
            "secrets (spec.containers[0].env[0].valueFrom.secretKeyRef)",
        ),
        (
            {"spec.initContainers[0].env[0]": {"valueFrom": {"configMapKeyRef": {"name": "a"}}}},
            "configmaps (spec.initContainers[0].env[0].valueFrom.configMapKeyRef)",
        ),
        ({"spec.volumes[0].secret": {}}, "secrets (spec.volumes[0].secret)"),
        ({"spec.volumes[0].configMap": {}}, "configmaps (spec.volumes[0].configMap)"),
        ({"spec.volumes[0].csi": {}}, "csidrivers (spec.volumes[0].csi)"),
        (
            {"spec.volumes[0].persistentVolumeClaim": {}},
            "persistentvolumeclaims (spec.volumes[0].persistentVolumeClaim)",
        ),
        ({"spec.volumes[0].ephemeral": {}}, "persistentvolumeclaims (spec.volumes[0].ephemeral)"),
        ({"spec.volumes[0].azureFile": {}}, "secrets (spec.volumes[0].azureFile)"),
        ({"spec.volumes[0].glusterfs": {}}, "endpoints (spec.volumes[0].glusterfs)"),
        (
            {"spec.volumes[0].rbd": {"secretRef": {"name": "a"}}},
            "secrets (spec.volumes[0].rbd.secretRef)",
        ),
        *(
            (
                {"spec.volumes[0].projected.sources": [{key: {}}]},
                f"{kind} (spec.volumes[0].projected.sources[0].{key})",
            )
            for key, kind in (
                ("secret", "secrets"),
                ("configMap", "configmaps"),
                ("serviceAccountToken", "serviceaccounts"),
                ("clusterTrustBundle", "clustertrustbundles"),
                ("podCertificate", "podcertificates"),
            )
        ),
    ],
)
def test_static_references(changes, expected):
    """A static pod that refers to an API object is refused, with the place that does (P-8)."""
    found = static_problems(pod(changed(SMALL, changes)))
    assert found == [f"static pods may not reference {expected}"]


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.volumes[0].projected.sources": [{"downwardAPI": {}}]},
        {"spec.volumes[0].iscsi": {"iqn": "iqn.a:b"}},
        {"spec.priorityClassName": "system-node-critical"},
        {"spec.containers[0].env[0]": {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}},
    ],
)
def test_static_allowed(changes):
    """What the kubelet knows without an API server may stand in a static pod (P-8)."""
    assert static_problems(pod(changed(SMALL, changes))) == []
