"""Pods and records as the tests of the plan need them, in few words."""

from __future__ import annotations

from dataclasses import replace

from kubelet.api.container import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
)
from kubelet.api.handlers import Probe
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.pods.runtime import (
    ContainerRecord,
    ContainerState,
    PodRecord,
    SandboxRecord,
    SandboxState,
)
from procs.syncloop.runtime.hashing import HASH_ANNOTATION, container_hash
from procs.syncloop.runtime.plan import Observed

SECOND = 10**9
CREATED, RUNNING = ContainerState.CREATED, ContainerState.RUNNING
EXITED, UNKNOWN = ContainerState.EXITED, ContainerState.UNKNOWN
PROBE = Probe(termination_grace_period_seconds=7)


def rule(action, *codes, operator="In"):
    return ContainerRestartRule(action, ContainerRestartRuleOnExitCodes(operator, codes))


def con(name, **more):
    return Container(**{"name": name, "image": f"{name}:1", **more})


def side(name, **more):
    return con(name, restart_policy="Always", **more)


def debug(name, **more):
    return EphemeralContainer(**{"name": name, "image": f"{name}:1", **more})


def pod(*containers, policy="Always", init=(), ephemeral=(), grace=30, meta=None, **spec):
    made = PodSpec(
        containers=containers or (con("app"),),
        init_containers=tuple(init),
        ephemeral_containers=tuple(ephemeral),
        restart_policy=policy,
        termination_grace_period_seconds=grace,
        **spec,
    )
    return Pod(
        metadata=ObjectMeta(**{"name": "web", "namespace": "default", "uid": "u", **(meta or {})}),
        spec=made,
    )


def box(id_="s", attempt=0, ready=True, **more):
    state = SandboxState.READY if ready else SandboxState.NOT_READY
    return SandboxRecord(
        **{"id": id_, "attempt": attempt, "state": state, "ips": ("10.0.0.2",), **more}
    )


def rec(name, state=RUNNING, id_="", *, image="", sandbox="s", code=0, **more):
    hashed = container_hash(con(name, **({"image": image} if image else {})))
    attempt = more.pop("attempt", 0)
    return ContainerRecord(
        **{
            "id": id_ or f"{name}-{attempt}",
            "name": name,
            "attempt": attempt,
            "state": state,
            "sandbox_id": sandbox,
            "exit_code": code,
            "annotations": {HASH_ANNOTATION: hashed},
            **more,
        }
    )


def done(name, code=0, **more):
    return rec(name, EXITED, code=code, **more)


def broken(name, **more):
    return rec(name, EXITED, code=128, reason="StartError", **more)


def record(*containers, boxes=None, **more):
    return PodRecord(
        "u", "web", "default", (box(),) if boxes is None else tuple(boxes), containers, **more
    )


def seen(*containers, boxes=None, **more):
    return Observed(record(*containers, boxes=boxes), now_ns=1000 * SECOND, **more)


def starts(plan):
    """The starts of a plan as "name/attempt" and, if one is adopted, "=id"."""
    return [f"{s.name}/{s.attempt}" + (f"={s.adopt}" if s.adopt else "") for s in plan.start]


def kills(plan):
    """The kills of a plan as id -> reason."""
    return {k.id: k.reason for k in plan.kill}


def changed(found, **changes):
    return replace(found, **changes)
