"""The systemd files: what they promise is what the supervisor does, and systemd accepts them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from supervisor.kinds import KINDS

DEPLOY = Path(__file__).parents[3] / "deploy"
UNIT = DEPLOY / "kubelet.service"
KUBEADM = DEPLOY / "kubelet.service.d/10-kubeadm.conf"
STANDALONE = DEPLOY / "kubelet.service.d/20-standalone.conf.example"


def settings(path: Path) -> dict[str, list[str]]:
    """Return "Section.Key" to its values, in order."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(f"{section}.{key}", []).append(value)
    return found


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A root directory with our unit files, a kubelet, and the system's own units."""
    system = Path("/usr/lib/systemd/system")
    if not shutil.which("systemd-analyze") or not system.is_dir():
        pytest.skip("systemd-analyze is not on this machine")
    units = tmp_path / "etc/systemd/system"
    shutil.copytree(system, tmp_path / "usr/lib/systemd/system", ignore_dangling_symlinks=True)
    shutil.copytree(KUBEADM.parent, units / "kubelet.service.d")
    shutil.copy(UNIT, units)
    for program in ("usr/local/bin/kubelet", "bin/kill"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


def verify(root: Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "verify", f"--root={root}", "--man=no", "kubelet.service"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("standalone", [False, True])
def test_systemd_accepts_the_unit_and_its_drop_ins(installed: Path, *, standalone: bool) -> None:
    """``systemd-analyze verify`` has nothing to say, for a kubeadm and for a standalone node."""
    if standalone:
        drop_ins = installed / "etc/systemd/system/kubelet.service.d"
        shutil.copy(STANDALONE, drop_ins / STANDALONE.stem)

    result = verify(installed)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_verification_sees_the_drop_ins(installed: Path) -> None:
    """A wrong line in a drop-in is reported, so that the test above means something."""
    drop_in = installed / "etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
    with drop_in.open("a") as file:
        file.write("Nonsense=1\n")

    assert "Nonsense" in verify(installed).stderr


def test_stop_is_given_time_for_every_stage() -> None:
    """The service manager waits longer than all stages of a stop can take together."""
    stages = {kind.stop_stage: 0.0 for kind in KINDS}
    for kind in KINDS:
        stages[kind.stop_stage] = max(stages[kind.stop_stage], kind.stop_timeout)

    allowed = seconds(settings(UNIT)["Service.TimeoutStopSec"][0])

    assert allowed >= sum(stages.values()) + 5


def test_watchdog_is_long_enough_to_be_accepted() -> None:
    """A watchdog of a second or less is a start-up error (K-1)."""
    assert seconds(settings(UNIT)["Service.WatchdogSec"][0]) > 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Unit.StartLimitIntervalSec", "0"),  # K-6, K-7: a crash loop before kubeadm is expected
        ("Unit.Wants", "network-online.target"),
        ("Service.Type", "notify"),
        ("Service.NotifyAccess", "main"),
        ("Service.Restart", "always"),
        ("Service.KillMode", "process"),
        ("Service.Delegate", "yes"),
        ("Service.OOMPolicy", "continue"),
        ("Service.RuntimeDirectory", "kubelet"),
        ("Service.RuntimeDirectoryPreserve", "yes"),
        ("Service.LimitNOFILE", "1000000"),  # C-12
        ("Service.OOMScoreAdjust", "-999"),  # C-12
    ],
)
def test_unit_says(key: str, value: str) -> None:
    """The settings that the supervisor relies on, or that operators know, are in the unit."""
    assert settings(UNIT)[key] == [value]


def test_kubeadm_drop_in_follows_kubeadm() -> None:
    """The drop-in starts our kubelet with kubeadm's files, the administrator's words last."""
    found = settings(KUBEADM)

    words = found["Service.ExecStart"][-1].split()
    assert found["Service.ExecStart"][0] == ""
    assert words == [
        "/usr/local/bin/kubelet",
        "$KUBELET_KUBECONFIG_ARGS",
        "$KUBELET_CONFIG_ARGS",
        "$KUBELET_KUBEADM_ARGS",
        "$KUBELET_EXTRA_ARGS",
    ]
    assert found["Service.EnvironmentFile"] == [
        "-/var/lib/kubelet/kubeadm-flags.env",
        "-/etc/default/kubelet",
        "-/etc/sysconfig/kubelet",
    ]
    environment = " ".join(found["Service.Environment"])
    assert "--kubeconfig=/etc/kubernetes/kubelet.conf" in environment
    assert "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf" in environment
    assert "--config=/var/lib/kubelet/config.yaml" in environment


def test_standalone_configuration_needs_no_api_server() -> None:
    """Nothing in the standalone configuration asks an API server, or opens the node (C-8, C-15)."""
    document = yaml.safe_load((DEPLOY / "standalone.yaml").read_text())

    assert document["kind"] == "KubeletConfiguration"
    assert document["authentication"]["webhook"]["enabled"] is False
    assert document["authentication"]["anonymous"]["enabled"] is False
    assert document["authorization"]["mode"] == "AlwaysAllow"
    assert document["failCgroupV1"] is False
    assert document["failSwapOn"] is False
