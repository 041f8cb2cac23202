"""Documents of pods for tests: ones that are valid, and ways to change them."""

from __future__ import annotations

import copy
import re
from typing import Any

from kubelet.api.codec import decode
from kubelet.api.defaults import with_defaults
from kubelet.api.pod import Pod
from kubelet.api.validation import validate_pod

_STEP = re.compile(r"[^.\[\]]+")

SMALL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "containers": [{"name": "app", "image": "registry.example/app:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with values at paths such as ``spec.containers[0].image`` (None removes)."""
    result = copy.deepcopy(document)
    for path, value in changes.items():
        *steps, last = [int(s) if s.isdigit() else s for s in _STEP.findall(path)]
        place: Any = result
        for step, following in zip(steps, [*steps, last][1:], strict=True):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int) and step == len(place):
                place.append(empty)
            elif not isinstance(step, int):
                place.setdefault(step, empty)
            place = place[step]
        if value is None:
            del place[last]
        elif isinstance(last, int) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return result


def pod(document: dict[str, Any]) -> Pod:
    """Return the pod in a document; every field of it must exist."""
    found, warnings = decode(Pod, document)
    assert not warnings, warnings
    return found


def problems(changes: dict[str, Any], document: dict[str, Any] = SMALL) -> list[str]:
    """Return what is wrong with a changed pod after defaulting."""
    return validate_pod(with_defaults(pod(changed(document, changes))))


def _host_path(name: str, path: str, kind: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def _probe(path: str, port: int | str, threshold: int) -> dict[str, Any]:
    return {
        "failureThreshold": threshold,
        "httpGet": {"host": "127.0.0.1", "path": path, "port": port, "scheme": "HTTPS"},
        "initialDelaySeconds": 10,
        "periodSeconds": 10,
        "timeoutSeconds": 15,
    }


APISERVER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "annotations": {
            "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": "10.0.0.4:6443"
        },
        "creationTimestamp": None,
        "labels": {"component": "kube-apiserver", "tier": "control-plane"},
        "name": "kube-apiserver",
        "namespace": "kube-system",
    },
    "spec": {
        "containers": [
            {
                "command": [
                    "kube-apiserver",
                    "--advertise-address=10.0.0.4",
                    "--etcd-servers=https://127.0.0.1:2379",
                    "--secure-port=6443",
                ],
                "image": "registry.k8s.io/kube-apiserver:v1.34.0",
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": _probe("/livez", "probe-port", 8),
                "name": "kube-apiserver",
                "ports": [{"containerPort": 6443, "name": "probe-port", "protocol": "TCP"}],
                "readinessProbe": _probe("/readyz", "probe-port", 3),
                "resources": {"requests": {"cpu": "250m"}},
                "startupProbe": _probe("/livez", 6443, 24),
                "volumeMounts": [
                    {"mountPath": "/etc/ssl/certs", "name": "ca-certs", "readOnly": True},
                    {"mountPath": "/etc/kubernetes/pki", "name": "k8s-certs", "readOnly": True},
                ],
            }
        ],
        "hostNetwork": True,
        "priority": 2000001000,
        "priorityClassName": "system-node-critical",
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [
            _host_path("ca-certs", "/etc/ssl/certs", "DirectoryOrCreate"),
            _host_path("k8s-certs", "/etc/kubernetes/pki", "DirectoryOrCreate"),
        ],
    },
    "status": {},
}

ETCD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "annotations": {
            "kubeadm.kubernetes.io/etcd.advertise-client-urls": "https://10.0.0.4:2379"
        },
        "labels": {"component": "etcd", "tier": "control-plane"},
        "name": "etcd-node-1",
        "namespace": "kube-system",
    },
    "spec": {
        "containers": [
            {
                "command": ["etcd", "--data-dir=/var/lib/etcd", "--name=node-1"],
                "image": "registry.k8s.io/etcd:3.6.4-0",
                "name": "etcd",
                "livenessProbe": {"httpGet": {"path": "/livez", "port": 2381}},
                "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
                "volumeMounts": [
                    {"mountPath": "/var/lib/etcd", "name": "etcd-data"},
                    {"mountPath": "/etc/kubernetes/pki/etcd", "name": "etcd-certs"},
                ],
            }
        ],
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "volumes": [
            _host_path("etcd-certs", "/etc/kubernetes/pki/etcd", "DirectoryOrCreate"),
            _host_path("etcd-data", "/var/lib/etcd", "DirectoryOrCreate"),
        ],
    },
}
