"""Pods and what a runtime holds of them, in few words."""

from __future__ import annotations

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.pods.runtime import (
    ContainerRecord,
    ContainerState,
    PodRecord,
    SandboxRecord,
    SandboxState,
)
from procs.syncloop.status.compute import Context, compute

SECOND = 10**9
NOW = 1_767_323_045 * SECOND  # 2026-01-02T03:04:05Z
NOW_TEXT = "2026-01-02T03:04:05Z"
THEN_TEXT = "2026-01-02T03:04:15Z"  # ten seconds later


def make_pod(*names, init=(), status=None, metadata=None, **spec):
    """Return a pod; a container is a name, or a document with one."""

    def documents(containers):
        return [
            {"image": f"{c}:1", "name": c} if isinstance(c, str) else {"image": "i:1", **c}
            for c in containers
        ]

    return codec.read(
        Pod,
        {
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", **(metadata or {})},
            "spec": {
                "containers": documents(names or ("app",)),
                "initContainers": documents(init),
                "restartPolicy": "Always",
                **spec,
            },
            "status": status or {},
        },
    )


def ran(name, state="running", code=0, attempt=0, id_=None, **fields):
    """Return what the runtime holds of a container."""
    id_ = id_ or f"{name}-{attempt}"
    times = {"created_at_ns": NOW + attempt, "started_at_ns": NOW}
    if state == "exited":
        times["finished_at_ns"] = NOW + SECOND
        times["reason"] = "Error" if code else "Completed"
    values = {"image": f"{name}:1", "image_ref": f"{name}@sha256:1", "sandbox_id": "s", **times}
    values.update(fields)
    return ContainerRecord(id_, name, attempt, ContainerState(state), exit_code=code, **values)


def box(id_="s", *, ready=True, ips=("10.0.0.2",), **fields):
    """Return a sandbox."""
    state = SandboxState.READY if ready else SandboxState.NOT_READY
    return SandboxRecord(id_, state=state, ips=ips, **fields)


ONE_BOX = (box(),)


def held(*containers, boxes=ONE_BOX):
    """Return all that the runtime holds, newest first."""
    newest = sorted(containers, key=lambda c: -c.created_at_ns)
    return PodRecord("u", "web", "shop", sandboxes=tuple(boxes), containers=tuple(newest))


def status_of(pod, record, **context):
    """Compute a status."""
    return compute(pod, record, Context(**{"now_ns": NOW, "node_ips": ("192.0.2.1",), **context}))


def shown(status):
    """Return a status as the API shows it."""
    return codec.encode(status)


def one(pod, *containers, kind="containerStatuses", **context):
    """Return the first container's status as the API shows it."""
    return shown(status_of(pod, held(*containers), **context))[kind][0]


def conditions(status):
    """Return the conditions by type: status, reason and message."""
    return {c.type: (c.status, c.reason, c.message) for c in status.conditions}
