"""Pods that are there before the kubelet knows its runtime."""

from __future__ import annotations

import pytest

from tests.node.pod_node import pod, pod_node, sh
from tests.processes.conftest import run_root

__all__ = ["run_root"]


@pytest.mark.parametrize("attempt", range(3))
def test_what_the_runtime_can_do_is_known_before_a_pod_is_refused(containerd24, run_root, attempt):
    """A pod that needs a feature of the runtime waits for the runtime to say that it has it.

    Strict groups are such a feature; a pod that was refused for want of it would stay refused.
    """
    context = {
        "runAsUser": 65534,
        "runAsGroup": 1,
        "supplementalGroups": [7],
        "supplementalGroupsPolicy": "Strict",
    }
    script = "grep Groups /proc/self/status"
    document = pod(f"strict-{attempt}", sh(script), securityContext=context, restartPolicy="Never")
    with pod_node(containerd24, run_root) as node:
        name = node.write(document)
        node.start()
        node.await_phase(name, "Succeeded")
        assert node.output(name).split() == ["Groups:", "1", "7"]
