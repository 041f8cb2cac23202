"""What the runtime's containers say to one that is about to be started."""

from __future__ import annotations

import pytest

from kubelet.api.container import Container, EphemeralContainer
from kubelet.pods.runtime import ContainerRecord, ContainerState
from procs.syncloop.workers.instances import last_ended, target_of

RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED
HELD = (
    ContainerRecord("a2", "a", state=RUNNING),
    ContainerRecord("a1", "a", state=EXITED, finished_at_ns=7),
    ContainerRecord("a0", "a", state=EXITED, finished_at_ns=3),
    ContainerRecord("b0", "b", state=EXITED, finished_at_ns=5),
)


@pytest.mark.parametrize(("name", "expected"), [("a", "a1"), ("b", "b0"), ("c", None)])
def test_last_ended(name: str, expected: str | None) -> None:
    """The newest that has an end, whatever else there is of the container."""
    found = last_ended(HELD, name)
    assert (found.id if found else None) == expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (Container(name="x"), ""),
        (EphemeralContainer(name="x"), ""),
        (EphemeralContainer(name="x", target_container_name="a"), "a2"),
        (EphemeralContainer(name="x", target_container_name="b"), ""),  # it does not run
    ],
)
def test_target_of(container: Container, expected: str) -> None:
    """Only an ephemeral container has a target, and only one that runs (P-74)."""
    assert target_of(container, HELD) == expected
