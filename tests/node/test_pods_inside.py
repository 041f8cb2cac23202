"""What a container finds inside."""

from __future__ import annotations

import pytest

from tests.node.pod_node import pod, sh


@pytest.mark.both_versions
def test_env(node):
    """Literal values."""
    name = node.write(
        pod("env", sh("echo A=$A", env=[{"name": "A", "value": "1"}]), restartPolicy="Never")
    )
    node.await_phase(name, "Succeeded", 60)
    assert node.output(name) == "A=1\n"


def test_env2(node):
    """Literal values."""
    name = node.write(
        pod("env2", sh("echo A=$A", env=[{"name": "A", "value": "1"}]), restartPolicy="Never")
    )
    node.await_phase(name, "Succeeded", 60)
    assert node.output(name) == "A=1\n"
