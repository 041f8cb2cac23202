"""Pods at the door of a small node."""

from __future__ import annotations

from kubelet.api import codec
from kubelet.api.pod import Pod
from procs.syncloop.admission.admission import Admission
from procs.syncloop.admission.base import Facts
from procs.syncloop.site import Site

ALLOCATABLE = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"}


def make_pod(name="new", *, requests=None, limits=None, priority=None, source="", **spec):
    """Return a pod with one container that asks for something."""
    resources = {"requests": requests or {}, "limits": limits or {}}
    annotations = {"kubernetes.io/config.source": source} if source else {}
    metadata = {"name": name, "namespace": "n", "uid": name, "annotations": annotations}
    metadata["labels"] = spec.pop("labels", {})
    annotations.update(spec.pop("annotations", {}))
    container = {"name": "c", "resources": resources, **spec.pop("container", {})}
    document = {
        "metadata": metadata,
        "spec": {"containers": [container], "priority": priority, **spec},
    }
    return codec.read(Pod, document)


def make_site(**fields):
    """Return a node with two cores and 4 GiB."""
    values = {
        "node": "here",
        "ips": ("192.0.2.1",),
        "root_dir": "/k",
        "logs_dir": "/l",
        "allocatable": ALLOCATABLE,
        "cpu_milli": 2000,
        **fields,
    }
    return Site(**values)


def ask(pod, others=(), *, site=None, **facts):
    """Ask whether a pod is let in."""
    admission = Admission(None, facts=lambda: Facts(**facts))
    return admission.admit(pod, others, site or make_site())


def answer(pod, others=(), **more):
    """Return reason and message of a refusal; None: it is in."""
    found = ask(pod, others, **more)
    return None if found is None else (found.reason, found.message)
