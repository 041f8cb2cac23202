"""What confines a container is really in force: users, capabilities, namespaces, cgroups."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.node import images
from tests.node.pod_node import sh, sleeper
from tests.node.shared import pod, run, state_of, waiting

CONFIG = {"podPidsLimit": 321}
CGROUPS = Path("/sys/fs/cgroup")
UNIFIED = (CGROUPS / "cgroup.controllers").exists()
STATUS = "cat /proc/self/status"
NET_ADMIN = 1 << 12
CHOWN = 1 << 0
NAMED_USER = (
    "container has runAsNonRoot and image has non-numeric user (nobody), "
    "cannot verify user is non-root"
)


def status(text):
    """The lines of a process's status by their names."""
    return {k: v.split() for k, _, v in (line.partition(":") for line in text.splitlines())}


def secured(node, name, context, script=STATUS, **spec):
    """What a container with this security context writes."""
    return run(node, name, script, spec=spec, securityContext=context)


def image(node, user):
    """An image whose user is this one; its name."""
    name = f"kubelet.test/user-{user or 'none'}:1"
    node.containerd.load(images.busybox(name, User=user))
    return name


# Users (P-159, P-160).


@pytest.mark.both_versions
def test_users_and_groups(node):
    """A container runs as the user and in the groups that its pod says (P-160)."""
    context = {
        "runAsUser": 1001,
        "runAsGroup": 1002,
        "fsGroup": 1003,
        "supplementalGroups": [1004, 1005],
    }
    found = status(run(node, "users", STATUS, spec={"securityContext": context}))
    assert found["Uid"] == ["1001"] * 4
    assert found["Gid"] == ["1002"] * 4
    assert {"1003", "1004", "1005"} <= set(found["Groups"])


def test_the_containers_user_goes_before_the_pods(node):
    """What a container says of itself goes before what its pod says of all."""
    context = {"runAsUser": 1001, "runAsGroup": 1002}
    spec = {"securityContext": context}
    more = {"securityContext": {"runAsUser": 2001}}
    found = status(run(node, "override", STATUS, spec=spec, **more))
    assert (found["Uid"][0], found["Gid"][0]) == ("2001", "1002")


def test_the_user_of_the_image(node):
    """A container whose pod says nothing runs as its image's user (P-159)."""
    found = status(run(node, "image-user", STATUS, image=image(node, "65534")))
    assert found["Uid"][0] == "65534"


@pytest.mark.parametrize(
    ("name", "user", "context", "why"),
    [
        ("root-image", "", {}, "container has runAsNonRoot and image will run as root"),
        ("root-user", "", {"runAsUser": 0}, "container's runAsUser breaks non-root policy"),
        (
            "named-user",
            "nobody",
            {},
            NAMED_USER,
        ),
    ],
)
def test_root_is_refused(node, name, user, context, why):
    """A container that must not be root and would or might be is not made (P-159)."""
    container = sleeper(image=image(node, user), securityContext={"runAsNonRoot": True, **context})
    full = node.write(pod(name, container))
    found = waiting(node, full, "CreateContainerConfigError")
    where = f'pod: "{full}_default({node.uid(full)})", container: c'
    assert found["message"] == f"{why} ({where})"
    assert node.await_event(full, "Failed")["message"] == f"Error: {found['message']}"


def test_others_than_root_are_not_refused(node):
    """A container that must not be root runs as another user (P-159)."""
    found = secured(node, "nonroot", {"runAsNonRoot": True, "runAsUser": 1001})
    assert status(found)["Uid"][0] == "1001"


# Capabilities and privileges.


@pytest.mark.parametrize(
    ("name", "capabilities", "wanted", "unwanted"),
    [
        ("default", {}, CHOWN, NET_ADMIN),
        ("added", {"add": ["NET_ADMIN"]}, CHOWN | NET_ADMIN, 0),
        ("dropped", {"drop": ["CHOWN"]}, 0, CHOWN | NET_ADMIN),
        ("only", {"drop": ["ALL"], "add": ["NET_ADMIN"]}, NET_ADMIN, ~NET_ADMIN),
        ("none", {"drop": ["ALL"]}, 0, ~0),
    ],
)
def test_capabilities(node, name, capabilities, wanted, unwanted):
    """A container has the usual capabilities, and what it adds, without what it drops."""
    found = secured(node, f"caps-{name}", {"capabilities": capabilities})
    effective = int(status(found)["CapEff"][0], 16)
    assert effective & wanted == wanted
    assert effective & unwanted == 0


@pytest.mark.both_versions
def test_a_privileged_container(node):
    """A privileged container has every capability of the node, its devices and its /proc."""
    script = (
        f"{STATUS}; echo Devices: $(ls /dev | wc -l); "
        "echo Interrupts: $(cat /proc/interrupts | wc -c)"
    )
    found = status(secured(node, "privileged", {"privileged": True}, script))
    own = status(Path("/proc/self/status").read_text())
    assert int(found["CapEff"][0], 16) == int(own["CapEff"][0], 16)
    assert int(found["Devices"][0]) > 20
    assert int(found["Interrupts"][0]) > 0


def test_the_root_file_system_read_only(node):
    """A read-only root file system leaves nothing to write to but volumes."""
    mounts = [{"name": "v", "mountPath": "/v"}]
    context = {"readOnlyRootFilesystem": True}
    script = "touch /v/ok && ! touch /x 2>&1 && echo refused"
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}
    more = {"volumeMounts": mounts, "securityContext": context}
    text = run(node, "readonly", script, spec=spec, **more)
    assert "Read-only file system" in text
    assert text.endswith("refused\n")


@pytest.mark.parametrize(
    ("name", "context", "wanted"),
    [("may", {}, "0"), ("may-not", {"allowPrivilegeEscalation": False}, "1")],
)
def test_no_new_privileges(node, name, context, wanted):
    """Where allowPrivilegeEscalation is false, the kernel's flag is set (P-158)."""
    assert status(secured(node, name, context))["NoNewPrivs"] == [wanted]


@pytest.mark.parametrize(
    ("name", "profile", "wanted"),
    [("unset", None, "0"), ("runtime", "RuntimeDefault", "2"), ("off", "Unconfined", "0")],
)
def test_filters_of_system_calls(node, name, profile, wanted):
    """RuntimeDefault filters system calls; without a profile there is no filter (P-157)."""
    context = {"seccompProfile": {"type": profile}} if profile else {}
    found = status(secured(node, f"seccomp-{name}", context))
    assert found["Seccomp"] == [wanted]


def test_a_filter_of_the_node(node):
    """A Localhost profile is read from the root directory's seccomp, and is in force (P-157)."""
    profiles = node.root_dir / "seccomp"
    profiles.mkdir(exist_ok=True)
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    document = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    (profiles / "nodirs.json").write_text(json.dumps(document))
    profile = {"type": "Localhost", "localhostProfile": "nodirs.json"}
    script = "mkdir /tmp/d || echo refused"
    assert "refused" in secured(node, "localhost", {"seccompProfile": profile}, script)


def test_masked_and_read_only_paths(node):
    """What of /proc is the node's own is empty, and its settings cannot be changed (P-158)."""
    script = (
        "exec 2>&1; cat /proc/interrupts /proc/keys /proc/timer_list | wc -c; "
        "echo 1 > /proc/sys/net/ipv4/ip_forward; echo $?"
    )
    text = secured(node, "masked", {}, script)
    assert text.startswith("0\n")
    assert text.endswith("1\n")


# Kernel settings.


def test_a_safe_setting_of_the_kernel(node):
    """A safe sysctl is set in the pod's own namespace (P-162)."""
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "12"}]
    script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
    spec = {"securityContext": {"sysctls": sysctls}}
    assert run(node, "sysctl", script, spec=spec) == "12\n"


def test_an_unsafe_setting_of_the_kernel(node):
    """A sysctl that is not allowed here costs the pod its admission."""
    context = {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}
    name = node.write(pod("unsafe", securityContext=context))
    found = node.await_phase(name, "Failed")
    assert found["reason"] == "SysctlForbidden"
    assert 'forbidden sysctl: "kernel.msgmax" not allowlisted' in found["message"]


# Namespaces (P-156).


def namespaces(node, name, *more, **spec):
    """The namespaces of a pod's containers: by container and kind."""
    full = node.write(pod(name, sleeper("a"), sleeper("b"), *more, **spec))
    node.await_ready(full)
    kinds = ("pid", "ipc", "net", "uts", "mnt")
    found = {}
    for container in ("a", "b"):
        own = f"/proc/{node.pid_of(full, container)}/ns"
        found[container] = {kind: os.readlink(f"{own}/{kind}") for kind in kinds}
    return found


def own_namespaces():
    """The namespaces of the node."""
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "ipc", "net")}


def test_containers_share_a_network_but_not_processes(node):
    """Containers of a pod share network and IPC with each other, not with the node (P-156)."""
    found = namespaces(node, "usual")
    a, b = found["a"], found["b"]
    assert (a["net"], a["ipc"]) == (b["net"], b["ipc"])
    assert len({a["pid"], b["pid"], own_namespaces()["pid"]}) == 3
    assert a["net"] != own_namespaces()["net"]
    assert a["mnt"] != b["mnt"]


def test_containers_that_share_their_processes(node):
    """shareProcessNamespace: one sees what the other runs (P-156)."""
    found = namespaces(node, "together", shareProcessNamespace=True)
    assert found["a"]["pid"] == found["b"]["pid"] != own_namespaces()["pid"]


@pytest.mark.parametrize(
    ("name", "field", "kind"),
    [
        ("hostpid", "hostPID", "pid"),
        ("hostipc", "hostIPC", "ipc"),
        ("hostnet", "hostNetwork", "net"),
    ],
)
def test_namespaces_of_the_node(node, name, field, kind):
    """A pod can be in a namespace of the node, and stays out of the others (P-156)."""
    found = namespaces(node, name, **{field: True})
    own = own_namespaces()
    assert {key for key in own if found["a"][key] == own[key]} == {kind}


def test_the_addresses_of_a_pod_in_the_nodes_network(node):
    """A pod in the node's network has the node's address."""
    name = node.write(pod("nodeip", hostNetwork=True))
    found = node.await_ready(name)
    assert found["podIP"] == found["hostIP"]


# Cgroups (P-190..P-199).


def cgroup(pid, controller):
    """The directory of a process's cgroup."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if UNIFIED or controller in controllers.split(","):
            return (CGROUPS if UNIFIED else CGROUPS / controller) / path.lstrip("/")
    raise AssertionError(f"no cgroup of {controller}")


def limits(pid, above=0):
    """The CPU shares, the CPU quota and the memory limit of a process's cgroup, or one above."""
    places = [cgroup(pid, controller) for controller in ("cpu", "memory")]
    cpu, memory = ([place, *place.parents][above] for place in places)
    quota = "cpu.max" if UNIFIED else "cpu.cfs_quota_us"
    limit = "memory.max" if UNIFIED else "memory.limit_in_bytes"
    shares = None if UNIFIED else int((cpu / "cpu.shares").read_text())
    words = [(cpu / quota).read_text().split()[0], (memory / limit).read_text().strip()]
    return shares, *(None if w in ("-1", "max") or int(w) > 1 << 60 else int(w) for w in words)


def resources(cpu, memory, cpu_limit=None, memory_limit=None):
    """A container's resources."""
    found = {"requests": {"cpu": cpu, "memory": memory}}
    if cpu_limit:
        found["limits"] = {"cpu": cpu_limit, "memory": memory_limit}
    return found


@pytest.mark.both_versions
def test_limits_of_a_guaranteed_pod(node):
    """Requests and limits are in force for each container and for the pod (P-190..P-194)."""
    each = resources("100m", "32Mi", "100m", "32Mi")
    name = node.write(pod("guaranteed", sleeper("a", resources=each), sleeper("b", resources=each)))
    assert node.await_ready(name)["qosClass"] == "Guaranteed"
    pid = node.pid_of(name, "a")
    shares = (None, None) if UNIFIED else (102, 204)
    assert limits(pid) == (shares[0], 10_000, 32 << 20)
    assert limits(pid, 1) == (shares[1], 20_000, 64 << 20)
    wanted = f"{node.containerd.cgroup_parent}/kubepods/pod{node.uid(name)}"
    assert str(cgroup(pid, "memory").parent).endswith(wanted)


def test_limits_of_a_burstable_pod(node):
    """A pod one of whose containers has no limit has none itself, but shares (P-194)."""
    one = resources("100m", "16Mi", "200m", "32Mi")
    other = resources("150m", "16Mi")
    name = node.write(pod("burst", sleeper("a", resources=one), sleeper("b", resources=other)))
    assert node.await_ready(name)["qosClass"] == "Burstable"
    pid = node.pid_of(name, "a")
    assert limits(pid)[1:] == (20_000, 32 << 20)
    assert limits(node.pid_of(name, "b"))[1:] == (None, None)
    assert limits(pid, 1) == (None if UNIFIED else 256, None, None)
    assert str(cgroup(pid, "cpu").parent).endswith(f"/kubepods/burstable/pod{node.uid(name)}")


def test_limits_of_a_best_effort_pod(node):
    """A pod that asks for nothing gets the least shares, and no limit (P-194)."""
    name = node.write(pod("effort"))
    assert node.await_ready(name)["qosClass"] == "BestEffort"
    pid = node.pid_of(name)
    assert limits(pid, 1) == (None if UNIFIED else 2, None, None)
    assert str(cgroup(pid, "cpu").parent).endswith(f"/kubepods/besteffort/pod{node.uid(name)}")
    assert (cgroup(pid, "pids").parent / "pids.max").read_text() == "321\n"


def test_the_cgroup_goes_with_the_pod(node):
    """When a pod is gone, so is its cgroup, in every hierarchy."""
    name = node.write(pod("leaving"))
    node.await_ready(name)
    mine = f"pod{node.uid(name)}"
    above = {cgroup(node.pid_of(name), c).parent.parent for c in ("cpu", "memory", "pids")}
    assert all((directory / mine).is_dir() for directory in above)
    node.remove("leaving")
    node.await_gone(name)
    assert not any((directory / mine).exists() for directory in above)


def test_who_is_killed_first_for_memory(node):
    """The less of its memory a pod asked for, the sooner it is killed (P-199)."""
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    burst = sleeper(resources={"requests": {"memory": str(total // 10)}})
    scores = {}
    for name, container in (("oom-burst", burst), ("oom-effort", sleeper())):
        full = node.write(pod(name, container))
        node.await_ready(full)
        scores[name] = int(Path(f"/proc/{node.pid_of(full)}/oom_score_adj").read_text())
    assert scores["oom-effort"] == 1000
    assert abs(scores["oom-burst"] - 900) <= 1


@pytest.mark.both_versions
def test_too_much_memory(node):
    """A container that takes more memory than its limit is killed, and its end says so (P-105)."""
    greedy = "x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo survived"
    each = resources("10m", "16Mi", "500m", "16Mi")
    name = node.write(pod("greedy", sh(greedy, resources=each), restartPolicy="Never"))
    found = state_of(node.await_phase(name, "Failed"))["terminated"]
    assert (found["reason"], found["exitCode"]) == ("OOMKilled", 137)
