"""A kubelet started with kubeadm's files, as they are but for places and ports of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.node import Node, free_port, wait_for
from tests.unit.deploy import kubeadm_files as made
from tests.unit.node.certificates_scene import Authority

DROP_IN = Path(__file__).parents[2] / "deploy/kubelet.service.d/10-kubeadm.conf"
# What this machine may be, and kubeadm's own preflight would refuse.
HERE = "failCgroupV1: false\nfailSwapOn: false\n"


class Joining(Node):
    """A node that kubeadm is at work on."""

    def __init__(self, root: Path) -> None:
        self.etc = root / "kubernetes"
        self.etc.mkdir()
        self.health = free_port()
        words = made.command_line(DROP_IN.read_text(), made.JOIN_FLAGS)[1:]
        flags = [word for word in words if not word.startswith("--config=")]
        moved = [word.replace("/etc/kubernetes", str(self.etc)) for word in flags]
        super().__init__(root, "joining", (*moved, f"--cert-dir={root}/pki"))

    def write_config(self, **_changes: object) -> None:
        """Write what kubeadm writes."""
        text = made.CONFIG.replace("/etc/kubernetes", str(self.etc))
        text = text.replace("/run/containerd/", f"{self.etc}/no-").replace(
            "healthzPort: 10248", f"healthzPort: {self.health}"
        )
        self.config_path.write_text(text + HERE)

    def problems(self) -> str:
        """What kubeletctl says is wrong."""
        return self.ctl("status").stdout.partition("problems:")[2]


@pytest.fixture
def joining(run_root: Path):
    """A node of kubeadm; what is left of it is an error."""
    node = Joining(run_root)
    yield node
    node.end()
    node.assert_nothing_left()


def test_it_is_up_before_there_is_a_kubeconfig(joining: Joining) -> None:
    """K-7: ready and healthy with the configuration alone; it names what it waits for.

    Then kubeadm writes the bootstrap kubeconfig, and it is used at once, and for as long as nobody
    answers the sentence says so.
    """
    joining.start()
    assert joining.state()["node"] == "joiner"
    first = joining.etc / "bootstrap-kubelet.conf"
    wait_for("the missing files are named", lambda: f"{first} is not there" in joining.problems())
    assert f"{joining.etc}/kubelet.conf is not there" in joining.problems()

    server = f"https://127.0.0.1:{free_port()}"
    first.write_text(made.bootstrap(server, Authority().pem))

    wait_for("the server is tried", lambda: "no client certificate yet" in joining.problems())
    assert not (joining.etc / "kubelet.conf").exists()
    assert (joining.run_dir.parent / "pki/kubelet-client.key.tmp").stat().st_mode & 0o777 == 0o600
    assert "Traceback" not in joining.log()
    assert "abcdef.0123456789abcdef" not in joining.log()
    assert joining.stop() == 0
