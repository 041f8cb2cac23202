"""Pods and nodes for tests of what the runtime is told."""

from __future__ import annotations

from dataclasses import replace

from kubelet.api import codec
from kubelet.api.defaults import with_defaults
from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from procs.syncloop.configs.context import ContainerContext, ImageInfo
from procs.syncloop.site import Site

IMAGE = ImageInfo("sha256:1", "busybox:1", uid=0)


def pod(spec=None, container=None, meta=None, status=None):
    """Return a pod named ``web`` with defaults; ``container`` is merged into its only one."""
    spec = dict(spec or {})
    spec.setdefault("containers", [{"name": "main", "image": "busybox:1", **(container or {})}])
    document = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", **(meta or {})},
        "spec": spec,
        "status": status or {},
    }
    return with_defaults(codec.read(Pod, document))


def raw(document):
    """Return a pod as it is written, without defaults."""
    return codec.read(Pod, document)


def site(root="/nowhere", **changes):
    """Return a node of 4 CPUs and 16 GiB, with its files below a directory."""
    made = Site(
        node="node-1",
        ips=("192.0.2.7",),
        root_dir=f"{root}/kubelet",
        logs_dir=f"{root}/logs",
        links_dir=f"{root}/links",
        cpu_milli=4000,
        memory=16 << 30,
        allocatable={"cpu": "4", "memory": "15Gi", "ephemeral-storage": "100Gi"},
    )
    return replace(made, **changes)


def context(**changes):
    """Return the surroundings of a container."""
    fields = {"sandbox_id": "s1", "sandbox": pb.PodSandboxConfig(), "pod_ips": ("10.0.0.9",)}
    return ContainerContext(**{**fields, **changes})


def resources(requests=None, limits=None):
    """Return the resources of a container as a document."""
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}
