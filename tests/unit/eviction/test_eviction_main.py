"""The two processes are put together from the real configuration."""

from __future__ import annotations

from types import SimpleNamespace

from kubelet import config
from procs.eviction import main as eviction
from procs.volumes import main as volumes


def process(tmp_path, *flags):
    """A process with a configuration and nothing else."""
    loaded = config.load([f"--root-dir={tmp_path}/kubelet", *flags])
    # No table is read before a start.
    return SimpleNamespace(config=loaded.config, tables=None, node="n")


def test_volumes_know_what_the_node_offers(tmp_path):
    """The reserve of the configuration is taken from what the kernel says there is."""
    whole = volumes.settings(process(tmp_path), str(tmp_path))
    assert whole.allocatable.memory > 0
    assert not whole.modes
    kept = process(
        tmp_path, "--kube-reserved=memory=1Mi", "--feature-gates=EmptyDirVolumeMode=true"
    )
    less = volumes.settings(kept, str(tmp_path))
    assert whole.allocatable.memory - less.allocatable.memory == 1 << 20
    assert less.modes


def test_eviction_finds_the_nodes_cgroups(tmp_path):
    """Whatever is mounted here, or nothing: that is said when a pod asks."""
    assert eviction.pod_cgroups(process(tmp_path)) is not None


def test_volumes_are_below_the_configured_directory(tmp_path):
    """--root-dir."""
    kit = volumes.make_kit(process(tmp_path))
    assert kit.layout.root == f"{tmp_path}/kubelet"
    kit.ops.close()
