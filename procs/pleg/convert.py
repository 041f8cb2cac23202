"""From the runtime's messages to records. Pure; what is odd is said in the record's problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import (
    Condition,
    ContainerRecord,
    ContainerState,
    Handler,
    PodRecord,
    Resources,
    SandboxRecord,
    SandboxState,
    User,
)

NAME_LABEL: Final = "io.kubernetes.pod.name"
NAMESPACE_LABEL: Final = "io.kubernetes.pod.namespace"
CONTAINER_LABEL: Final = "io.kubernetes.container.name"
_IDENTITY: Final = frozenset(
    {NAME_LABEL, NAMESPACE_LABEL, CONTAINER_LABEL, "io.kubernetes.pod.uid"}
)
_OURS: Final = ("io.kubernetes.", "kubernetes.io/config.")  # what kubelets write, not users
_STATES: Final = {
    pb.CONTAINER_CREATED: ContainerState.CREATED,
    pb.CONTAINER_RUNNING: ContainerState.RUNNING,
    pb.CONTAINER_EXITED: ContainerState.EXITED,
    pb.CONTAINER_UNKNOWN: ContainerState.UNKNOWN,
}
_MAX_TEXT: Final = 4096  # of a reason or message; the API shows no more of a termination message
_MAX_PROBLEMS: Final = 8


def container_state(state: int) -> ContainerState:
    """Return a container's state; one that this version does not know is unknown."""
    return _STATES.get(state, ContainerState.UNKNOWN)  # type: ignore[call-overload, no-any-return]


def sandbox(status: pb.PodSandboxStatus) -> SandboxRecord:
    """Return the record of a sandbox."""
    options = status.linux.namespaces.options
    ips = (status.network.ip, *(more.ip for more in status.network.additional_ips))
    ready = status.state == pb.SANDBOX_READY
    return SandboxRecord(
        id=status.id,
        attempt=status.metadata.attempt,
        state=SandboxState.READY if ready else SandboxState.NOT_READY,
        created_at_ns=status.created_at,
        ips=tuple(filter(None, ips)),
        host_network=options.network == pb.NODE,
        host_pid=options.pid == pb.NODE,
        host_ipc=options.ipc == pb.NODE,
        user_namespace=options.HasField("userns_options") and options.userns_options.mode == pb.POD,
        runtime_handler=status.runtime_handler,
        labels=_labels(status.labels),
        annotations=_annotations(status.annotations),
    )


def listed_sandbox(found: pb.PodSandbox) -> SandboxRecord:
    """Return the record of a sandbox that is only listed."""
    ready = found.state == pb.SANDBOX_READY
    return SandboxRecord(
        id=found.id,
        attempt=found.metadata.attempt,
        state=SandboxState.READY if ready else SandboxState.NOT_READY,
        created_at_ns=found.created_at,
        runtime_handler=found.runtime_handler,
    )


def container(status: pb.ContainerStatus, sandbox_id: str, pid: int = 0) -> ContainerRecord:
    """Return the record of a container whose status was asked for."""
    state = container_state(status.state)
    return ContainerRecord(
        id=status.id,
        name=status.labels.get(CONTAINER_LABEL) or status.metadata.name,
        attempt=status.metadata.attempt,
        state=state,
        sandbox_id=sandbox_id,
        created_at_ns=status.created_at,
        started_at_ns=status.started_at,
        finished_at_ns=status.finished_at,
        exit_code=status.exit_code,
        reason=status.reason[:_MAX_TEXT],
        message=status.message[:_MAX_TEXT],
        image=status.image.image,
        image_spec=status.image.user_specified_image,
        image_ref=status.image_ref,
        image_id=status.image_id,
        pid=pid if state is ContainerState.RUNNING else 0,
        log_path=status.log_path,
        labels=_labels(status.labels),
        annotations=_annotations(status.annotations),
        mounts=tuple(mount.container_path for mount in status.mounts),
        resources=_resources(status),
        user=_user(status),
        stop_signal=_stop_signal(status.stop_signal),
    )


def listed(found: pb.Container) -> ContainerRecord:
    """Return the record of a container that is only listed."""
    return ContainerRecord(
        id=found.id,
        name=found.labels.get(CONTAINER_LABEL) or found.metadata.name,
        attempt=found.metadata.attempt,
        state=container_state(found.state),
        sandbox_id=found.pod_sandbox_id,
        created_at_ns=found.created_at,
        image=found.image.image,
        image_ref=found.image_ref,
        image_id=found.image_id,
        inspected=False,
    )


def pod(  # noqa: PLR0913 - the parts of a record, by name
    uid: str,
    *,
    sandboxes: Iterable[SandboxRecord],
    containers: Iterable[ContainerRecord],
    labels: Mapping[str, str],
    left_out: int = 0,
    problems: Iterable[str] = (),
) -> PodRecord:
    """Put a pod's record together, newest first, with all that is odd about it."""
    newest = tuple(sorted(sandboxes, key=lambda s: (-s.created_at_ns, -s.attempt, s.id)))
    all_ = tuple(sorted(containers, key=lambda c: (-c.created_at_ns, -c.attempt, c.id)))
    odd = [*problems, *_oddities(newest, all_)]
    return PodRecord(
        uid=uid,
        name=labels.get(NAME_LABEL, ""),
        namespace=labels.get(NAMESPACE_LABEL, ""),
        sandboxes=newest,
        containers=all_,
        left_out=left_out,
        problems=tuple(odd[:_MAX_PROBLEMS]),
    )


def state_problem(kind: str, id_: str, state: int, known: Iterable[int]) -> str | None:
    """Say that a state is none of those that the CRI has."""
    if state in known:
        return None
    return f"{kind} {short(id_)} has the state {state}, which the CRI does not have"


def _oddities(
    sandboxes: tuple[SandboxRecord, ...], containers: tuple[ContainerRecord, ...]
) -> list[str]:
    found = []
    ready = sum(s.state is SandboxState.READY for s in sandboxes)
    if ready > 1:
        found.append(f"it has {ready} ready sandboxes")
    ids = {s.id for s in sandboxes}
    orphans = [c for c in containers if c.sandbox_id not in ids]
    if orphans:
        more = f" and {len(orphans) - 1} more" if len(orphans) > 1 else ""
        found.append(f"container {short(orphans[0].id)}{more} has no sandbox")
    names = Counter((c.sandbox_id, c.name, c.attempt) for c in containers)
    for (_, name, attempt), number in names.items():
        if number > 1:
            found.append(f"it has {number} containers {name!r} with attempt {attempt}")
    return found


def short(id_: str) -> str:
    """Return an id as people know it."""
    return id_[:13]


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {
        k: v for k, v in labels.items() if k.startswith("io.kubernetes.") and k not in _IDENTITY
    }


def _annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in annotations.items() if k.startswith(_OURS)}


def _resources(status: pb.ContainerStatus) -> Resources | None:
    if not status.HasField("resources") or not status.resources.HasField("linux"):
        return None
    linux = status.resources.linux
    return Resources(
        cpu_period=linux.cpu_period,
        cpu_quota=linux.cpu_quota,
        cpu_shares=linux.cpu_shares,
        memory_limit=linux.memory_limit_in_bytes,
        memory_swap_limit=linux.memory_swap_limit_in_bytes,
        oom_score_adj=linux.oom_score_adj,
        cpuset_cpus=linux.cpuset_cpus,
        cpuset_mems=linux.cpuset_mems,
        hugepages={page.page_size: page.limit for page in linux.hugepage_limits},
        unified=dict(linux.unified),
    )


def _user(status: pb.ContainerStatus) -> User | None:
    if not status.HasField("user") or not status.user.HasField("linux"):
        return None
    linux = status.user.linux
    return User(linux.uid, linux.gid, tuple(linux.supplemental_groups))


def _stop_signal(number: int) -> str:
    if number == pb.SIGNAL_RUNTIME_DEFAULT or number not in pb.Signal.values():
        return ""
    return pb.Signal.Name(number).removeprefix("SIGNAL_")


def conditions(status: pb.StatusResponse) -> tuple[Condition, ...]:
    """Return the runtime's conditions."""
    return tuple(
        Condition(c.type, c.status, c.reason, c.message[:_MAX_TEXT])
        for c in status.status.conditions
    )


def handlers(status: pb.StatusResponse) -> tuple[Handler, ...]:
    """Return the runtime's handlers (R-9)."""
    return tuple(
        Handler(h.name, h.features.recursive_read_only_mounts, h.features.user_namespaces)
        for h in status.runtime_handlers
    )


def features(status: pb.StatusResponse) -> tuple[str, ...]:
    """Return the names of the features that the runtime has (R-9)."""
    return tuple(f.name for f, on in status.features.ListFields() if on is True)
