"""What kubeadm 1.36 writes is accepted as it is: configuration, flags, drop-in, kubeconfigs."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from kubelet import config
from procs.node.apiserver.kubeconfig import read_endpoint
from procs.node.certificates.bootstrap import State, judge
from tests.unit.deploy import kubeadm_files as made
from tests.unit.node.certificates_scene import Authority

DEPLOY = Path(__file__).parents[3] / "deploy"
OURS = DEPLOY / "kubelet.service.d/10-kubeadm.conf"
BESIDE = DEPLOY / "kubeadm/20-kubelet.conf"
# K-6: the drop-in of kubeadm's packages.
PACKAGED = """\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS \
$KUBELET_EXTRA_ARGS
"""
PACKAGED_UNIT = """\
[Unit]
Wants=network-online.target
After=network-online.target
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def load(tmp_path: Path):
    """Load what a command line says, with kubeadm's configuration file in a directory of ours."""

    def load(words: list[str], text: str = made.CONFIG) -> config.Loaded:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        place = "--config=/var/lib/kubelet/config.yaml"
        assert place in words
        return config.load([f"--config={path}" if word == place else word for word in words[1:]])

    return load


@pytest.mark.parametrize("drop_in", [PACKAGED, OURS.read_text()], ids=["packaged", "ours"])
def test_the_command_line_of_a_control_plane_node(load, drop_in: str) -> None:
    """K-2 to K-6: after kubeadm init, nothing is wrong and nothing is to be warned of."""
    loaded = load(made.command_line(drop_in, made.INIT_FLAGS))
    found = loaded.config
    assert loaded.warnings == ()
    assert found.flag("kubeconfig") == "/etc/kubernetes/kubelet.conf"
    assert found.flag("bootstrap-kubeconfig") == "/etc/kubernetes/bootstrap-kubelet.conf"
    assert found.flag("node-ip") == "10.0.0.1"
    assert config.node_name(found) == "cp-1"
    assert found.bool("rotateCertificates")
    assert not found.bool("serverTLSBootstrap")
    assert found.str("staticPodPath") == "/etc/kubernetes/manifests"
    assert found.str("authentication.x509.clientCAFile") == "/etc/kubernetes/pki/ca.crt"
    assert found.get("clusterDNS") == ["10.96.0.10"]
    assert found.str("cgroupDriver") == "systemd"


def test_the_command_line_of_a_node_that_joins(load) -> None:
    """K-3: name, taints and extra arguments; the deprecated flag is taken, and says so."""
    loaded = load(made.command_line(PACKAGED, made.JOIN_FLAGS))
    assert config.node_name(loaded.config) == "joiner"
    taints = loaded.config.get("registerWithTaints")
    assert taints == [{"key": "a", "value": "b", "effect": "NoSchedule"}]
    assert loaded.config.int("logging.verbosity") == 2
    assert [line for line in loaded.warnings if "register-with-taints" not in line] == []


def test_the_administrators_arguments_come_last(load) -> None:
    """K-6: KUBELET_EXTRA_ARGS of /etc/default/kubelet wins over kubeadm's."""
    extra = 'KUBELET_EXTRA_ARGS="--v=4 --hostname-override=mine"\n'
    loaded = load(made.command_line(PACKAGED, made.JOIN_FLAGS, extra))
    assert loaded.config.int("logging.verbosity") == 4
    assert config.node_name(loaded.config) == "mine"


def test_before_kubeadm_has_written_anything(tmp_path: Path) -> None:
    """K-7, K-8: without the configuration file the start fails, and the line names the file."""
    words = made.command_line(PACKAGED)
    missing = str(tmp_path / "config.yaml")
    argv = [f"--config={missing}" if word.startswith("--config=") else word for word in words[1:]]
    with pytest.raises(config.ConfigError, match=missing):
        config.load(argv)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authentication.webhook.cacheTTL", "2m0s"),
        ("authorization.webhook.cacheAuthorizedTTL", "5m0s"),
        ("authorization.webhook.cacheUnauthorizedTTL", "30s"),
        ("cpuManagerReconcilePeriod", "10s"),
        ("crashLoopBackOff.maxContainerRestartPeriod", "5m0s"),
        ("evictionPressureTransitionPeriod", "5m0s"),
        ("fileCheckFrequency", "20s"),
        ("httpCheckFrequency", "20s"),
        ("imageMaximumGCAge", "0s"),
        ("imageMinimumGCAge", "2m0s"),
        ("logging.flushFrequency", "5s"),
        ("memorySwap.swapBehavior", ""),
        ("nodeStatusReportFrequency", "5m0s"),
        ("nodeStatusUpdateFrequency", "10s"),
        ("runtimeRequestTimeout", "2m0s"),
        ("shutdownGracePeriod", "0s"),
        ("streamingConnectionIdleTimeout", "4h0m0s"),
        ("syncFrequency", "1m0s"),
        ("volumeStatsAggPeriod", "1m0s"),
        ("containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"),
    ],
)
def test_zeros_are_defaults(load, name: str, value: str) -> None:
    """K-5: kubeadm writes a zero for what nobody set; an empty endpoint is one of them."""
    words = made.command_line(PACKAGED, made.JOIN_FLAGS)
    assert load(words, made.SHARED_CONFIG).config.get(name) == value


def test_the_merged_instance_configuration(load, tmp_path: Path) -> None:
    """K-2: kubeadm merges it into config.yaml; given as a drop-in beside it, it says the same."""
    words = made.command_line(PACKAGED, made.JOIN_FLAGS)
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/10-instance.conf").write_text(head + made.INSTANCE_CONFIG)
    merged = load([*words, f"--config-dir={tmp_path}/conf.d"], made.SHARED_CONFIG).config
    plain = load(words).config
    name = "containerRuntimeEndpoint"
    assert merged.str(name) == plain.str(name) == "unix:///run/containerd/containerd.sock"


def read(path: Path):
    return asyncio.run(read_endpoint(str(path), None))


def test_the_kubeconfigs(tmp_path: Path) -> None:
    """K-4: the token of a join, and the certificate that an init puts into the file itself."""
    authority = Authority()
    chain, key = authority.pair()
    server = "https://10.0.0.1:6443"
    first, own = tmp_path / "bootstrap-kubelet.conf", tmp_path / "kubelet.conf"
    first.write_text(made.bootstrap(server, authority.pem))
    own.write_text(made.kubeconfig(server, authority.pem, "cp-1", chain, key))

    joining, made_by_init = read(first), read(own)

    assert (joining.server, joining.token) == (server, "abcdef.0123456789abcdef")
    assert joining.ca_pem.strip() == authority.pem.strip()
    assert made_by_init.client_cert_pem.strip() == chain.strip()
    assert made_by_init.client_key_pem.strip() == key.strip()
    assert judge(made_by_init, time.time_ns()).state is State.GOOD


# --- units ---------------------------------------------------------------------------------------


def test_the_drop_in_beside_the_packaged_one_only_changes_the_program() -> None:
    """K-6: the same variables in the same order."""
    theirs = made.command_line(PACKAGED, made.INIT_FLAGS)
    ours = made.command_line(PACKAGED + BESIDE.read_text(), made.INIT_FLAGS)
    assert theirs[0] == "/usr/bin/kubelet"
    assert ours == ["/usr/local/bin/kubelet", *theirs[1:]]


def test_the_drop_in_beside_the_packaged_one_has_what_our_unit_has() -> None:
    """What the supervisor relies on in our own unit, the drop-in sets for another's."""
    unit = (DEPLOY / "kubelet.service").read_text().splitlines()
    known = ("Restart", "CPUAccounting", "MemoryAccounting", "ExecStart")  # theirs, or not needed
    section = unit[unit.index("[Service]") + 1 : unit.index("[Install]")]
    wanted = {line for line in section if line and not line.startswith("#")}
    wanted = {line for line in wanted if line.partition("=")[0] not in known}
    assert wanted <= set(BESIDE.read_text().splitlines())


def test_systemd_accepts_the_packaged_unit_with_our_drop_in(tmp_path: Path) -> None:
    """``systemd-analyze verify`` has nothing to say."""
    system = Path("/usr/lib/systemd/system")
    if not shutil.which("systemd-analyze") or not system.is_dir():
        pytest.skip("systemd-analyze is not on this machine")
    there = tmp_path / "usr/lib/systemd/system"
    shutil.copytree(system, there, ignore_dangling_symlinks=True)
    (there / "kubelet.service").write_text(PACKAGED_UNIT)
    (there / "kubelet.service.d").mkdir()
    (there / "kubelet.service.d/10-kubeadm.conf").write_text(PACKAGED)
    drop_ins = tmp_path / "etc/systemd/system/kubelet.service.d"
    drop_ins.mkdir(parents=True)
    shutil.copy(BESIDE, drop_ins)
    for program in ("usr/local/bin/kubelet", "usr/bin/kubelet", "bin/kill"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    command = ["systemd-analyze", "verify", f"--root={tmp_path}", "--man=no", "kubelet.service"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
