"""Each handler: whom it refuses, and in which words."""

from __future__ import annotations

import pytest

from kubelet import config
from kubelet.pods.runtime import RuntimeRecord
from procs.syncloop.admission import Preempt, Pressure, Refusal, Taint, apparmor
from procs.syncloop.admission.admission import (
    HANDLERS,
    Admission,
    counted_as,
    host_facts,
    kernel_version,
)
from procs.syncloop.admission.sysctls import dotted
from tests.unit.admission.asking import answer, ask, make_pod, make_site

MEMORY = Pressure(memory=True)
TOLERATES = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]
NO_MEMORY = ("Evicted", "The node had condition: [MemoryPressure]. ")


@pytest.mark.parametrize(
    ("pressure", "pod", "wanted"),
    [
        (Pressure(), make_pod(), None),
        (MEMORY, make_pod(), NO_MEMORY),
        (MEMORY, make_pod(requests={"cpu": "1m"}), None),
        (MEMORY, make_pod(tolerations=TOLERATES), None),
        (MEMORY, make_pod(priority=2_000_000_000), None),
        (MEMORY, make_pod(source="file"), None),
        (
            Pressure(disk=True),
            make_pod(requests={"cpu": "1m"}, tolerations=TOLERATES),
            ("Evicted", "The node had condition: [DiskPressure]. "),
        ),
        (
            Pressure(memory=True, pid=True),
            make_pod(requests={"cpu": "1m"}),
            ("Evicted", "The node had condition: [MemoryPressure PIDPressure]. "),
        ),
        (Pressure(disk=True), make_pod(source="http"), None),
    ],
)
def test_a1_pressure(pressure, pod, wanted):
    """A-1, E-15: who is taken by a node that is short of something."""
    assert answer(pod, pressure=pressure) == wanted


def with_sysctl(name, **spec):
    return make_pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **spec)


@pytest.mark.parametrize(
    ("name", "kernel", "patterns", "problem"),
    [
        ("kernel.shm_rmid_forced", (0, 0), (), None),
        ("net.ipv4.tcp_syncookies", (0, 0), (), None),
        ("net/ipv4/tcp_syncookies", (0, 0), (), None),
        ("net.ipv4.ip_local_reserved_ports", (3, 16), (), None),
        ("net.ipv4.ip_local_reserved_ports", (3, 15), (), "not allowlisted"),
        ("net.ipv4.tcp_keepalive_time", (4, 4), (), "not allowlisted"),
        ("net.ipv4.tcp_rmem", (4, 15), (), None),
        ("net.ipv4.tcp_rmem", (4, 14), (), "not allowlisted"),
        ("net.ipv4.tcp_notsent_lowat", (4, 6), (), None),
        ("kernel.msgmax", (6, 1), (), "not allowlisted"),
        ("kernel.msgmax", (6, 1), ("kernel.msg*",), None),
        ("kernel.msgmax", (6, 1), ("kernel/msgmax",), None),
        ("kernel.msgmax", (6, 1), ("kernel.msgmnb",), "not allowlisted"),
        ("vm.swappiness", (6, 1), ("net.*",), "not allowlisted"),
    ],
)
def test_a2_sysctls(name, kernel, patterns, problem):
    """A-2: the safe ones of this kernel, and those that the configuration allows."""
    shown = dotted(name)
    wanted = problem and ("SysctlForbidden", f'forbidden sysctl: "{shown}" {problem}')
    found = answer(with_sysctl(name), kernel=kernel, site=make_site(sysctls=patterns))
    assert found == wanted


@pytest.mark.parametrize(
    ("name", "host", "space"),
    [
        ("kernel.shm_rmid_forced", "hostIPC", "ipc"),
        ("kernel.sem", "hostIPC", "ipc"),
        ("fs.mqueue.msg_max", "hostIPC", "ipc"),
        ("net.core.somaxconn", "hostNetwork", "net"),
    ],
)
def test_a2_namespaces_of_the_host(name, host, space):
    """A-2: what is set in a pod's namespace must not be the host's."""
    site = make_site(sysctls=("net.*", "kernel.sem", "fs.mqueue.*"))
    other = "hostNetwork" if host == "hostIPC" else "hostIPC"
    assert answer(with_sysctl(name, **{other: True}), site=site) is None
    problem = f'forbidden sysctl: "{name}" not allowed with host {space} enabled'
    found = answer(with_sysctl(name, **{host: True}), site=site)
    assert found == ("SysctlForbidden", problem)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("net/ipv4/conf/eth0.1/forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("plain", "plain"),
    ],
)
def test_a2_names_with_slashes(written, name):
    """A-2: both ways to write a sysctl are one name."""
    assert dotted(written) == name


LABELS = {"disk": "ssd", "cores": "8", "kubernetes.io/os": "linux"}
NO_AFFINITY = (
    "NodeAffinity",
    "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
)


def required(*terms):
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, True),
        ({"nodeSelector": {"disk": "hdd"}}, False),
        ({"nodeSelector": {"zone": "a"}}, False),
        ({"affinity": required()}, False),
        ({"affinity": required({})}, False),
        ({"affinity": required(expression("disk", "In", "hdd", "ssd"))}, True),
        ({"affinity": required(expression("disk", "NotIn", "ssd"))}, False),
        ({"affinity": required(expression("zone", "NotIn", "a"))}, True),
        ({"affinity": required(expression("disk", "Exists"))}, True),
        ({"affinity": required(expression("disk", "DoesNotExist"))}, False),
        ({"affinity": required(expression("cores", "Gt", "4"))}, True),
        ({"affinity": required(expression("cores", "Lt", "8"))}, False),
        ({"affinity": required(expression("disk", "Gt", "4"))}, False),
        ({"affinity": required(expression("cores", "Gt", "4", "5"))}, False),
        ({"affinity": required(expression("disk", "Odd"))}, False),
        (
            {"affinity": required(expression("zone", "Exists"), expression("disk", "Exists"))},
            True,
        ),
        (
            {
                "affinity": required(
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["here"]}
                        ]
                    }
                )
            },
            True,
        ),
        (
            {
                "affinity": required(
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["there"]}
                        ],
                        **expression("disk", "Exists"),
                    }
                )
            },
            False,
        ),
        ({"affinity": {}}, True),
    ],
)
def test_a4_node_affinity(spec, fits):
    """A-4: nodeSelector and one of the required terms, by the labels of the node."""
    found = answer(make_pod(**spec), site=make_site(labels=LABELS))
    assert found == (None if fits else NO_AFFINITY)


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        (make_pod(nodeName="here"), None),
        (
            make_pod(nodeName="there"),
            (
                "NodeName",
                "Predicate NodeName failed: node(s) didn't match the requested node name",
            ),
        ),
        (make_pod(os={"name": "linux"}), None),
        (
            make_pod(os={"name": "windows"}),
            ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
        (
            make_pod(labels={"kubernetes.io/os": "windows"}),
            (
                "PodOSSelectorNodeLabelDoesNotMatch",
                "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            ),
        ),
        (
            make_pod(securityContext={"supplementalGroupsPolicy": "Strict"}),
            (
                "SupplementalGroupsPolicyNotSupported",
                "SupplementalGroupsPolicy=Strict is not supported in this node",
            ),
        ),
        (make_pod(securityContext={"supplementalGroupsPolicy": "Merge"}), None),
    ],
)
def test_a4_what_is_not_for_this_node(pod, wanted):
    """A-4: another node's, another system's, or more than its runtime can."""
    assert answer(pod) == wanted


def test_a4_strict_groups_where_the_runtime_can():
    """A-4: it is the runtime that enforces them."""
    pod = make_pod(securityContext={"supplementalGroupsPolicy": "Strict"})
    assert answer(pod, strict_groups=True) is None


def with_port(name, **port):
    return make_pod(name, container={"ports": [{"containerPort": 80, **port}]})


@pytest.mark.parametrize(
    ("mine", "others", "free"),
    [
        ({"hostPort": 80}, {}, True),
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, {"hostPort": 80}, False),
        (
            {"hostPort": 80, "hostIP": "127.0.0.1"},
            {"hostPort": 80, "hostIP": "127.0.0.2"},
            True,
        ),
    ],
)
def test_a4_ports_of_the_host(mine, others, free):
    """A-4: a port, a protocol and an address can be given once."""
    found = answer(with_port("new", **mine), [with_port("old", **others)])
    reason = "node(s) didn't have free ports for the requested pod ports"
    assert found == (None if free else ("NodePorts", f"Predicate NodePorts failed: {reason}"))


def test_a4_a_pod_is_not_in_its_own_way():
    """A pod that is asked about again is not among the others."""
    pod = with_port("new", hostPort=80)
    assert answer(pod, [pod], site=make_site(max_pods=1)) is None


UNTOLERATED = (
    "TaintToleration",
    "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
)


@pytest.mark.parametrize(
    ("taint", "pod", "wanted"),
    [
        (Taint("k", "v", "NoExecute"), make_pod(), UNTOLERATED),
        (Taint("k", "v", "NoSchedule"), make_pod(), None),
        (Taint("k", "v", "NoExecute"), make_pod(source="file"), None),
        (
            Taint("k", "v", "NoExecute"),
            make_pod(tolerations=[{"key": "k", "operator": "Equal", "value": "v"}]),
            None,
        ),
        (
            Taint("k", "v", "NoExecute"),
            make_pod(tolerations=[{"key": "k", "value": "w"}]),
            UNTOLERATED,
        ),
        (Taint("k", "v", "NoExecute"), make_pod(tolerations=[{"operator": "Exists"}]), None),
        (
            Taint("k", "v", "NoExecute"),
            make_pod(tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
            UNTOLERATED,
        ),
        (
            Taint("k", "v", "NoExecute"),
            make_pod(tolerations=[{"key": "other", "operator": "Exists"}]),
            UNTOLERATED,
        ),
    ],
)
def test_a4_taints(taint, pod, wanted):
    """A-4: only NoExecute counts, and not for static pods."""
    assert answer(pod, taints=(taint,)) == wanted


def profile(kind, name=""):
    security = {"appArmorProfile": {"type": kind, "localhostProfile": name}}
    return {"container": {"securityContext": security}}


BETA = "container.apparmor.security.beta.kubernetes.io/c"


@pytest.mark.parametrize(
    ("spec", "facts", "problem"),
    [
        ({}, {}, None),
        (profile("Unconfined"), {}, None),
        (profile("RuntimeDefault"), {}, "AppArmor is not enabled on the host"),
        (profile("RuntimeDefault"), {"apparmor": True}, None),
        (profile("Localhost", "p"), {"apparmor": True}, None),
        (profile("Localhost", "p"), {"apparmor": True, "profiles": frozenset({"p"})}, None),
        (
            profile("Localhost", "p"),
            {"apparmor": True, "profiles": frozenset()},
            'profile "p" is not loaded',
        ),
        (
            profile("Localhost", " "),
            {"apparmor": True},
            'invalid empty AppArmor profile name: " "',
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
            {},
            "AppArmor is not enabled on the host",
        ),
        (
            {"annotations": {BETA: "localhost/p"}},
            {"apparmor": True, "profiles": frozenset()},
            'profile "p" is not loaded',
        ),
        ({"annotations": {BETA: "runtime/default"}}, {"apparmor": True}, None),
        ({"annotations": {BETA: "unconfined"}}, {}, None),
        (
            {"annotations": {BETA: "what"}},
            {"apparmor": True},
            'invalid AppArmor profile type: "what"',
        ),
    ],
)
def test_a6_apparmor(spec, facts, problem):
    """A-6: a profile that would not be enforced is no profile."""
    wanted = problem and ("AppArmor", f"Cannot enforce AppArmor: {problem}")
    assert answer(make_pod(**spec), **facts) == wanted


def test_a6_what_the_kernel_says(tmp_path):
    """A-6: switched on or not, and which profiles it has."""
    switch, profiles = tmp_path / "enabled", tmp_path / "profiles"
    assert apparmor.enabled(str(switch)) is False
    assert apparmor.loaded(str(profiles)) is None
    switch.write_text("Y\n")
    profiles.write_text("cri-containerd.apparmor.d (enforce)\n/usr/bin/man (complain)\nodd\n")
    assert apparmor.enabled(str(switch)) is True
    assert apparmor.loaded(str(profiles)) == {"cri-containerd.apparmor.d", "/usr/bin/man"}
    switch.write_text("N\n")
    assert apparmor.enabled(str(switch)) is False


UNAVAILABLE = "Pod requires node features that are not available"
RULES = {
    "container": {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "RestartAllContainers"}],
    }
}


@pytest.mark.parametrize(
    ("spec", "facts", "wanted"),
    [
        ({"resources": {"limits": {"cpu": "1"}}}, {}, None),
        (
            {"resources": {"limits": {"cpu": "1"}}},
            {"pod_level_resources": False},
            ("PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled"),
        ),
        ({}, {"pod_level_resources": False}, None),
        (RULES, {}, None),
        (
            RULES,
            {"declared": frozenset()},
            (
                "PodFeatureUnsupported",
                f"{UNAVAILABLE}: RestartAllContainersOnContainerExits",
            ),
        ),
        (
            {"hostNetwork": True, "hostUsers": False},
            {},
            (
                "PodFeatureUnsupported",
                f"{UNAVAILABLE}: UserNamespacesHostNetworkSupport",
            ),
        ),
        (
            {},
            {"shutting_down": True},
            ("NodeShutdown", "Pod was rejected as the node is shutting down."),
        ),
    ],
)
def test_a7_to_a9_features_and_shutdown(spec, facts, wanted):
    """A-7, A-8, A-9: what the node lacks, and when it takes nobody."""
    assert answer(make_pod(**spec), **facts) == wanted


def test_the_first_refusal_decides():
    """Section 13: the handlers have an order."""
    pod = make_pod(os={"name": "windows"}, securityContext={"sysctls": [{"name": "vm.x"}]})
    assert answer(pod, pressure=MEMORY)[0] == "Evicted"
    assert answer(pod)[0] == "SysctlForbidden"
    assert len(HANDLERS) == 7


def test_nobody_makes_room_in_vain():
    """A-5: a pod that a later handler refuses costs no other pod its life."""
    full = [make_pod("old", requests={"cpu": "2"})]
    critical = make_pod(requests={"cpu": "1"}, priority=2_000_000_000)
    assert isinstance(ask(critical, full), Preempt)
    assert isinstance(ask(critical, full, shutting_down=True), Refusal)


def test_the_status_of_a_refused_pod_says_so():
    """Section 13: the form of the message."""
    assert Refusal("NodeName", "why").status_message == "Pod was rejected: why"


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfexample.com/gpu", "OutOfExtendedResources"),
        ("NodeAffinity", "Other"),
        ("SysctlForbidden", "SysctlForbidden"),
    ],
)
def test_how_refusals_are_counted(reason, label):
    """Section 13: the label of the metric has a bounded number of values."""
    assert counted_as(reason) == label


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.1.0-18-amd64", (6, 1)), ("4.15", (4, 15)), ("odd", (0, 0))],
)
def test_the_version_of_a_kernel(release, version):
    """Two numbers of it decide."""
    assert kernel_version(release) == version


def test_this_host_by_itself(tmp_path):
    """Gates come from the configuration, abilities from the runtime."""
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    path = tmp_path / "kubelet.yaml"
    path.write_text(head + "featureGates:\n  PodLevelResources: false\n")
    effective = config.load([f"--config={path}", "--kubeconfig=/k"]).config
    found = host_facts(effective, RuntimeRecord(features=("supplemental_groups_policy",)))
    assert found.strict_groups is True
    assert found.pod_level_resources is False
    assert found.declared == {"RestartAllContainersOnContainerExits"}
    assert found.kernel > (0, 0)
    assert host_facts(effective, None).strict_groups is False
    assert Admission(effective).admit(make_pod(), [], make_site()) is None
