"""Sandbox configurations (P-150, P-153, P-156, P-157, P-160..P-162)."""

from __future__ import annotations

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.lookup import NOTHING
from procs.syncloop.configs.policy import Policy
from procs.syncloop.configs.resolver import Resolver
from procs.syncloop.configs.sandbox import dotted, port_mappings, sandbox_config, sysctls
from tests.unit.configs.config_pods import pod, raw, site

HOST = Resolver(("9.9.9.9",))


def config_of(found, **changes):
    """Return the configuration of a pod's sandbox, as the runtime would receive it."""
    made = sandbox_config(found, 3, site("/r"), host=HOST, **changes).config
    return pb.PodSandboxConfig.FromString(made.SerializeToString())


def test_identity():
    """P-150, P-153: metadata, labels, annotations and the directory of logs."""
    found = pod(
        {"dnsPolicy": "Default"}, meta={"labels": {"app": "web"}, "annotations": {"note": "x"}}
    )
    made = config_of(found)
    assert made.metadata == pb.PodSandboxMetadata(
        name="web", namespace="shop", uid="u-1", attempt=3
    )
    assert dict(made.labels) == {
        "app": "web",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
    }
    assert dict(made.annotations) == {"note": "x"}
    assert made.log_directory == "/r/logs/shop_web_u-1"
    assert (made.hostname, list(made.dns_config.servers)) == ("web", ["9.9.9.9"])
    assert made.linux.cgroup_parent == "/kubepods/besteffort/podu-1"


def test_warnings_are_passed_on():
    """P-177: what is said about the resolver file becomes events of the pod."""
    found = sandbox_config(pod(), 0, site(), host=HOST)
    assert [reason for reason, _ in found.warnings] == ["MissingClusterDNS"]


@pytest.mark.parametrize(
    ("spec", "network", "pid", "ipc"),
    [
        ({}, pb.POD, pb.CONTAINER, pb.POD),
        ({"hostNetwork": True}, pb.NODE, pb.CONTAINER, pb.POD),
        ({"hostPID": True}, pb.POD, pb.NODE, pb.POD),
        ({"hostIPC": True}, pb.POD, pb.CONTAINER, pb.NODE),
        ({"shareProcessNamespace": True}, pb.POD, pb.POD, pb.POD),
    ],
)
def test_namespaces(spec, network, pid, ipc):
    """P-156: which namespaces are shared with whom."""
    options = config_of(pod(spec)).linux.security_context.namespace_options
    assert (options.network, options.pid, options.ipc) == (network, pid, ipc)
    assert not options.HasField("userns_options")


def test_security():
    """P-157, P-160: the pod's settings, groups of volumes, always the runtime's seccomp."""
    found = pod(
        {
            "securityContext": {
                "runAsUser": 0,
                "runAsGroup": 7,
                "fsGroup": 100,
                "supplementalGroups": [200, 100],
                "supplementalGroupsPolicy": "Strict",
                "seLinuxOptions": {"level": "s0:c1"},
                "seccompProfile": {"type": "Unconfined"},
            },
            "initContainers": [
                {"name": "i", "image": "x", "securityContext": {"privileged": True}}
            ],
        }
    )
    made = config_of(found, volumes=[VolumeRow("v", gid=300), VolumeRow("w")])
    security = made.linux.security_context
    assert security.HasField("run_as_user")
    assert (security.run_as_user.value, security.run_as_group.value) == (0, 7)
    assert list(security.supplemental_groups) == [100, 200, 300]
    assert security.supplemental_groups_policy == pb.Strict
    assert security.selinux_options.level == "s0:c1"
    assert security.privileged
    assert not security.readonly_rootfs
    assert security.HasField("seccomp")
    assert security.seccomp.profile_type == pb.SecurityProfile.RuntimeDefault


def test_nothing_is_made_up():
    """A pod that says nothing about users sends none."""
    security = config_of(pod()).linux.security_context
    assert not security.HasField("run_as_user")
    assert not security.HasField("selinux_options")
    assert not security.privileged


def test_user_namespace():
    """P-156: users of its own are sent with the sandbox."""
    ids = [pb.IDMapping(host_id=65536, container_id=0, length=65536)]
    users = pb.UserNamespace(mode=pb.POD, uids=ids, gids=ids)
    made = config_of(pod({"hostUsers": False}), users=users)
    assert made.linux.security_context.namespace_options.userns_options == users


def ports_of(*ports):
    """Return the mappings of one container's ports."""
    document = {"spec": {"containers": [{"name": "c", "ports": list(ports)}]}}
    return [
        (p.protocol, p.container_port, p.host_port, p.host_ip) for p in port_mappings(raw(document))
    ]


def test_ports():
    """P-161: each port once; names, or else all that makes an endpoint, tell them apart."""
    found = ports_of(
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "UDP", "hostPort": 8080},
        {"containerPort": 80},
        {"name": "a", "containerPort": 1},
        {"name": "a", "containerPort": 2},
        {"containerPort": 90, "hostIP": "::1", "protocol": "SCTP"},
    )
    assert found == [
        (pb.TCP, 80, 0, ""),
        (pb.UDP, 80, 8080, ""),
        (pb.TCP, 1, 0, ""),
        (pb.SCTP, 90, 0, "::1"),
    ]


def test_ports_of_all_that_stays():
    """P-161: sidecars have ports too, and the same name may occur in two containers."""
    port = {"ports": [{"name": "http", "containerPort": 80}]}
    found = pod(
        {
            "containers": [
                {"name": "a", "image": "x", **port},
                {"name": "b", "image": "x", **port},
            ],
            "initContainers": [
                {"name": "i", "image": "x", **port},
                {"name": "s", "image": "x", "restartPolicy": "Always", **port},
            ],
        }
    )
    assert len(port_mappings(found)) == 3


def test_bad_protocol():
    """A protocol that there is not is named."""
    with pytest.raises(ConfigError, match="'ICMP' is not supported"):
        ports_of({"containerPort": 80, "protocol": "ICMP"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("net.ipv4.ip_forward", "net.ipv4.ip_forward"),
        ("net/ipv4/ip_forward", "net.ipv4.ip_forward"),
        ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
        ("kernel", "kernel"),
    ],
)
def test_sysctl_names(name, expected):
    """P-162: slashes between parts become dots."""
    assert dotted(name) == expected


def test_sysctls():
    """P-162: the pod's own go over the node's defaults."""
    found = pod({"securityContext": {"sysctls": [{"name": "net/core/somaxconn", "value": "9"}]}})
    policy = Policy(default_sysctls={"net.core.somaxconn": "1", "kernel.x": "2"})
    assert sysctls(found, policy) == {"net.core.somaxconn": "9", "kernel.x": "2"}
    assert sysctls(pod()) == {}


def test_runtime_class():
    """P-164: without an API server there is no class, and a pod that wants one is told."""
    assert NOTHING.runtime_handler(pod()) == ""
    with pytest.raises(ConfigError, match='"kata" not found'):
        NOTHING.runtime_handler(pod({"runtimeClassName": "kata"}))
