"""Which container, and which instance of it, a log is asked of (H-63)."""

from __future__ import annotations

import pytest

from kubelet.api.container import Container, EphemeralContainer
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from kubelet.logs import LogError, choose_container, container_names, instance
from kubelet.logs.instance import DEFAULT_CONTAINER

RUNNING = ContainerState(running=ContainerStateRunning())


def ended(id_: str = "") -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(container_id=id_))


def waits(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


def status(state: ContainerState | None, last: ContainerState | None = None) -> PodStatus:
    one = ContainerStatus(name="c", container_id="containerd://now", state=state, last_state=last)
    return PodStatus(container_statuses=(one,))


@pytest.mark.parametrize(
    ("state", "last", "previous", "wanted"),
    [
        (RUNNING, None, False, "now"),
        (RUNNING, ended("containerd://then"), True, "then"),
        (ended("x://end"), None, False, "end"),
        (ended(), ended("x://then"), False, "then"),
        (waits("CrashLoopBackOff"), ended("x://then"), False, "then"),
        (waits("CrashLoopBackOff"), ended("x://then"), True, "then"),
    ],
)
def test_instance_that_has_a_log(state, last, previous, wanted):
    """The one that runs, the one that ended, or the one before."""
    assert instance(status(state, last), "p", "c", previous=previous) == wanted


@pytest.mark.parametrize(
    ("state", "last", "previous", "said"),
    [
        (RUNNING, None, True, 'previous terminated container "c" in pod "p" not found'),
        (RUNNING, ended(), True, 'previous terminated container "c" in pod "p" not found'),
        (ended(), None, False, 'container "c" in pod "p" is terminated'),
        (waits("x"), ended(), False, 'container "c" in pod "p" is terminated'),
        (
            waits("CrashLoopBackOff"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: CrashLoopBackOff',
        ),
        (
            waits("ErrImagePull"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            waits("ImagePullBackOff"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        (None, None, False, 'container "c" in pod "p" is waiting to start - no logs yet'),
    ],
)
def test_instance_that_has_no_log(state, last, previous, said):
    """The sentence says why not."""
    with pytest.raises(LogError) as caught:
        instance(status(state, last), "p", "c", previous=previous)
    assert str(caught.value) == said


def test_container_without_a_status():
    """It is not available; init and ephemeral containers have theirs elsewhere."""
    with pytest.raises(LogError, match='container "c" in pod "p" is not available'):
        instance(PodStatus(), "p", "c")
    one = ContainerStatus(name="c", container_id="x://i", state=RUNNING)
    assert instance(PodStatus(init_container_statuses=(one,)), "p", "c") == "i"
    assert instance(PodStatus(ephemeral_container_statuses=(one,)), "p", "c") == "i"


def pod(*names: str, init: tuple[str, ...] = (), default: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", annotations={DEFAULT_CONTAINER: default} if default else {}),
        spec=PodSpec(
            containers=tuple(Container(name=name) for name in names),
            init_containers=tuple(Container(name=name) for name in init),
            ephemeral_containers=(EphemeralContainer(name="debug"),),
        ),
    )


def test_container_by_default():
    """The only one, or the one that an annotation names; a name that is given comes first."""
    assert choose_container(pod("a", init=("i",))) == "a"
    assert choose_container(pod("a", "b", default="b")) == "b"
    assert choose_container(pod("a", default="gone")) == "a"
    assert choose_container(pod("a", "b", default="b"), "a") == "a"
    assert choose_container(pod("a", init=("i",)), "i") == "i"
    assert choose_container(pod("a"), "debug") == "debug"
    assert container_names(pod("a", "b", init=("i",))) == ["i", "a", "b", "debug"]


def test_container_that_is_not_clear():
    """The sentence lists the names."""
    with pytest.raises(LogError) as caught:
        choose_container(pod("a", "b", init=("i",)))
    assert str(caught.value) == (
        "a container name must be specified for pod p, choose one of: [a b] "
        "or one of the init containers: [i]"
    )
    with pytest.raises(LogError, match="container x is not valid for pod p; it has: a, b, debug"):
        choose_container(pod("a", "b"), "x")
