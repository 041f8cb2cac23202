"""From messages to records: each field in its place, and what is odd in words."""

from __future__ import annotations

from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import (
    Condition,
    ContainerRecord,
    ContainerState,
    Handler,
    Resources,
    SandboxRecord,
    SandboxState,
    User,
)
from procs.pleg import convert

IDENTITY = {
    "io.kubernetes.pod.uid": "u",
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "shop",
}


def test_a_sandbox_keeps_what_others_need():
    """Addresses, namespaces, handler, and the labels and annotations that kubelets write."""
    status = pb.PodSandboxStatus(
        id="s",
        created_at=7,
        labels={**IDENTITY, "app": "web", "io.kubernetes.more": "yes"},
        annotations={"kubernetes.io/config.source": "api", "note": "x" * 10_000},
        runtime_handler="gvisor",
    )
    status.metadata.attempt = 2
    status.network.ip = "10.0.0.2"
    status.network.additional_ips.add(ip="fd00::2")
    status.linux.namespaces.options.pid = pb.NODE
    assert convert.sandbox(status) == SandboxRecord(
        id="s",
        attempt=2,
        state=SandboxState.READY,
        created_at_ns=7,
        ips=("10.0.0.2", "fd00::2"),
        host_pid=True,
        runtime_handler="gvisor",
        labels={"io.kubernetes.more": "yes"},
        annotations={"kubernetes.io/config.source": "api"},
    )


def test_a_sandbox_on_the_host_s_network_is_known_as_such():
    """Its IP is the node's, which the runtime does not tell."""
    status = pb.PodSandboxStatus(id="s", state=pb.SANDBOX_NOTREADY)
    status.linux.namespaces.options.network = pb.NODE
    record = convert.sandbox(status)
    assert (record.host_network, record.ips, record.state) == (True, (), SandboxState.NOT_READY)


def container_status(**fields):
    status = pb.ContainerStatus(
        id="c", labels={**IDENTITY, "io.kubernetes.container.name": "app"}, **fields
    )
    status.metadata.name, status.metadata.attempt = "app", 3
    return status


def test_a_container_keeps_what_others_need():
    """Times, exit, image, limits, user, and where its log and its mounts are."""
    status = container_status(
        state=pb.CONTAINER_EXITED,
        created_at=1,
        started_at=2,
        finished_at=3,
        exit_code=137,
        reason="OOMKilled",
        message="m" * 9000,
        image_ref="sha256:1",
        image_id="id",
        log_path="/l",
        annotations={"io.kubernetes.container.hash": "1a", "other": "no"},
        stop_signal=pb.SIGNAL_SIGQUIT,
    )
    status.image.image, status.image.user_specified_image = "busybox@sha256:1", "busybox"
    status.mounts.add(container_path="/data", host_path="/h")
    status.resources.linux.memory_limit_in_bytes = 64
    status.user.linux.uid = 1000
    status.user.linux.supplemental_groups.extend([1, 2])
    assert convert.container(status, "s", pid=99) == ContainerRecord(
        id="c",
        name="app",
        attempt=3,
        state=ContainerState.EXITED,
        sandbox_id="s",
        created_at_ns=1,
        started_at_ns=2,
        finished_at_ns=3,
        exit_code=137,
        reason="OOMKilled",
        message="m" * 4096,
        image="busybox@sha256:1",
        image_spec="busybox",
        image_ref="sha256:1",
        image_id="id",
        pid=0,
        log_path="/l",
        annotations={"io.kubernetes.container.hash": "1a"},
        mounts=("/data",),
        resources=Resources(memory_limit=64),
        user=User(1000, 0, (1, 2)),
        stop_signal="SIGQUIT",
    )


def test_only_what_runs_has_a_pid():
    """The number of a process that has ended may be another's."""
    running = container_status(state=pb.CONTAINER_RUNNING)
    assert convert.container(running, "s", pid=99).pid == 99
    assert convert.container(container_status(), "s", pid=99).pid == 0


def test_what_is_not_said_is_not_made_up():
    """No limits and no user are not limits of zero and root."""
    record = convert.container(container_status(), "s")
    assert (record.resources, record.user, record.stop_signal) == (None, None, "")


def pod(containers=(), sandboxes=()):
    return convert.pod("u", sandboxes=sandboxes, containers=containers, labels=IDENTITY)


def box(id_, created=0, state=SandboxState.READY):
    return SandboxRecord(id_, created_at_ns=created, state=state)


def test_a_pod_is_put_together_newest_first():
    """The first sandbox is the one that counts."""
    record = pod(
        [
            ContainerRecord("old", "a", 0, created_at_ns=1, sandbox_id="t"),
            ContainerRecord("new", "a", 1, created_at_ns=2, sandbox_id="t"),
        ],
        [box("s", 1, SandboxState.NOT_READY), box("t", 2)],
    )
    assert [s.id for s in record.sandboxes] == ["t", "s"]
    assert [c.id for c in record.containers] == ["new", "old"]
    assert (record.name, record.namespace, record.problems) == ("web", "shop", ())


def test_oddities_are_said_in_words():
    """Two ready sandboxes, containers without one, the same name twice."""
    twins = [ContainerRecord(f"c{i}", "app", 0, sandbox_id="s") for i in range(2)]
    orphans = [ContainerRecord(f"o{i}", f"x{i}", sandbox_id="gone") for i in range(2)]
    assert pod([*twins, *orphans], [box("s"), box("t")]).problems == (
        "it has 2 ready sandboxes",
        "container o0 and 1 more has no sandbox",
        "it has 2 containers 'app' with attempt 0",
    )


def test_a_state_that_the_cri_does_not_have_is_said():
    """And taken as unknown."""
    says = convert.state_problem("container", "0123456789abcdef", 9, (0, 1))
    assert says == "container 0123456789abc has the state 9, which the CRI does not have"
    assert convert.state_problem("container", "c", 1, (0, 1)) is None
    assert convert.container_state(9) is ContainerState.UNKNOWN


def test_r9_handlers_and_features():
    """R-9: what the runtime's status says that it can do."""
    status = pb.StatusResponse()
    status.status.conditions.add(type="RuntimeReady", status=True)
    handler = status.runtime_handlers.add(name="runc")
    handler.features.user_namespaces = True
    status.features.supplemental_groups_policy = True
    assert convert.conditions(status) == (Condition("RuntimeReady", True),)
    assert convert.handlers(status) == (Handler("runc", False, True),)
    assert convert.features(status) == ("supplemental_groups_policy",)
