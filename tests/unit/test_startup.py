"""The checks at start, on nodes made of files."""

from __future__ import annotations

import pytest

from kubelet import config, startup
from kubelet.startup import TUNABLES, Cgroups, Finding, Severity

HOST = "         0          0 4294967295\n"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"


class Node:
    """A root directory that looks like a node."""

    def __init__(self, root):
        self.root = root
        self.write("proc/swaps", SWAPS)
        self.write("proc/self/uid_map", HOST)
        self.write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        self.write("sys/fs/cgroup/cpu.stat", "")
        self.write("sys/devices/system/cpu/online", "0-3\n")
        for name, value in TUNABLES.items():
            self.write(f"proc/sys/{name}", value + "\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name):
        return (self.root / name).read_text().strip()

    def remove(self, name):
        (self.root / name).unlink()

    def cgroup_v1(self):
        self.remove("sys/fs/cgroup/cgroup.controllers")
        self.write("sys/fs/cgroup/memory/tasks", "")

    def check(self, *flags, uid=0):
        return startup.check(config.load(flags).config, self.root, uid)

    def apply(self, *flags, uid=0):
        return startup.apply(config.load(flags).config, self.root, uid)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def _errors(findings):
    return [finding.text for finding in findings if finding.severity is Severity.ERROR]


def test_a_good_node(node):
    """Nothing is found on a node as it should be."""
    assert node.check() == ()
    assert node.apply() == ()


def test_swap_stops_the_start(node):
    """C-13, C-14: swap is on when /proc/swaps has more than its header."""
    node.write("proc/swaps", SWAPS + "/dev/sda2 partition 1 0 -2\n")
    assert _errors(node.check()) == [
        "Swap is on (/proc/swaps): turn it off, or set failSwapOn to false"
    ]


def test_swap_allowed(node):
    """C-13: allowed swap calls for a node event where tmpfs cannot avoid it."""
    node.write("proc/swaps", SWAPS + "/dev/sda2 partition 1 0 -2\n")
    (finding,) = node.check("--fail-swap-on=false")
    assert (finding.severity, finding.reason) == (
        Severity.WARNING,
        "PossibleMemoryBackedVolumesOnDisk",
    )
    node.write("proc/sys/kernel/osrelease", "6.10.2\n")
    assert node.check("--fail-swap-on=false") == ()


@pytest.mark.parametrize("text", ["", "\n", SWAPS, None])
def test_swap_off(node, text):
    """C-14: a header alone, an empty and a missing file all mean off."""
    if text is None:
        node.remove("proc/swaps")
    else:
        node.write("proc/swaps", text)
    assert not startup.swap_on(node.root)


def test_cgroup_v1_stops_the_start(node):
    """C-15: failCgroupV1 is on by default."""
    node.cgroup_v1()
    assert startup.cgroup_version(node.root) is Cgroups.V1
    assert _errors(node.check()) == [
        "The node uses cgroup v1: use cgroup v2, or set failCgroupV1 to false"
    ]


def test_cgroup_v1_allowed(node):
    """C-15: where it is allowed, it calls for a node event."""
    node.cgroup_v1()
    (finding,) = node.check("--fail-cgroupv1=false")
    assert (finding.severity, finding.reason) == (Severity.WARNING, "CgroupV1")


def test_no_cgroups_at_all(node):
    """A node without cgroups is not mistaken for one with v2."""
    node.remove("sys/fs/cgroup/cgroup.controllers")
    node.remove("sys/fs/cgroup/cpu.stat")
    assert startup.cgroup_version(node.root) is Cgroups.NONE
    assert "has no cgroups" in _errors(node.check())[0]


def test_old_kernel_with_cgroup_v2(node):
    """C-15: a root cgroup without cpu.stat is said."""
    node.remove("sys/fs/cgroup/cpu.stat")
    (finding,) = node.check()
    assert finding.severity is Severity.WARNING
    assert "cpu.stat" in finding.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("memorySwap: {swapBehavior: LimitedSwap}", "LimitedSwap needs cgroup v2"),
        ("singleProcessOOMKill: false", "singleProcessOOMKill false needs cgroup v2"),
    ],
)
def test_settings_that_need_cgroup_v2(node, tmp_path, body, words):
    """C-13 and table 1.3: two settings are errors on cgroup v1 and fine on v2."""
    path = tmp_path / "kubelet.yaml"
    path.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        f"failCgroupV1: false\n{body}\n"
    )
    flags = (f"--config={path}", "--kubeconfig=/k")
    assert _errors(node.check(*flags)) == []
    node.cgroup_v1()
    assert any(words in text for text in _errors(node.check(*flags)))


def test_reserved_cpus_must_be_online(node):
    """Table 1.3: reserved CPUs are a subset of those online."""
    assert node.check("--reserved-cpus=0-1") == ()
    assert _errors(node.check("--reserved-cpus=3-5")) == [
        "reservedSystemCPUs names CPUs that are not online: 4,5; online: 0-3"
    ]
    node.write("sys/devices/system/cpu/online", "?\n")
    assert node.check("--reserved-cpus=3-5") == ()


def test_not_root_is_said(node):
    """C-17: a start without root goes on."""
    (finding,) = node.check(uid=1000)
    assert finding.severity is Severity.WARNING
    assert "user 1000" in finding.text


@pytest.mark.parametrize(("name", "value"), TUNABLES.items())
def test_tunables_are_set(node, name, value):
    """C-16: each kernel setting is put right, and said."""
    node.write(f"proc/sys/{name}", "7\n")
    assert node.apply() == (Finding(Severity.INFO, f"Changed /proc/sys/{name} from 7 to {value}"),)
    assert node.read(f"proc/sys/{name}") == value


def test_protected_defaults(node):
    """C-16: with protectKernelDefaults nothing is written, and a difference stops the start."""
    node.write("proc/sys/kernel/panic", "0\n")
    expected = [
        (
            "protectKernelDefaults: /proc/sys/kernel/panic is 0, must be 10: "
            "run sysctl -w kernel.panic=10"
        )
    ]
    assert _errors(node.check("--protect-kernel-defaults")) == expected
    assert _errors(node.apply("--protect-kernel-defaults")) == expected
    assert node.read("proc/sys/kernel/panic") == "0"


@pytest.mark.parametrize(
    ("uid", "uid_map", "severity"),
    [
        (0, HOST, Severity.ERROR),
        (1000, HOST, Severity.WARNING),
        (0, "0 100000 65536\n", Severity.WARNING),
    ],
)
def test_tunables_that_cannot_be_set(node, uid, uid_map, severity):
    """C-16: it stops the start, but for a user namespace and a start without root."""
    node.write("proc/self/uid_map", uid_map)
    node.remove("proc/sys/vm/overcommit_memory")
    (finding,) = node.apply(uid=uid)
    assert finding == Finding(
        severity,
        "Cannot set /proc/sys/vm/overcommit_memory to 1: No such file or directory; "
        "set it outside: sysctl -w vm.overcommit_memory=1",
    )


def test_user_namespace_needs_its_gate(node):
    """C-16: failures in a user namespace are forgiven only with KubeletInUserNamespace."""
    node.write("proc/self/uid_map", "0 100000 65536\n")
    node.remove("proc/sys/kernel/panic")
    assert _errors(node.apply("--feature-gates=KubeletInUserNamespace=false"))


def test_a_setting_that_refuses_the_value(node):
    """A write that fails names the file and the value."""
    path = node.root / "proc/sys/kernel/panic"
    path.unlink()
    path.symlink_to("/proc/version")  # readable, and not writable even for root
    (text,) = _errors(node.apply())
    assert text.startswith("Cannot set /proc/sys/kernel/panic to 10: ")


def test_this_machine_can_be_looked_at():
    """The checks run on the real node without an exception."""
    startup.check(config.load([]).config)
