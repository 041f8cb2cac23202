"""Host names, hosts files, resolver files (P-175..P-179)."""

from __future__ import annotations

import os

import pytest

from kubelet.api.pod import HostAlias
from procs.syncloop.configs import dns, hosts
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.configs.hostname import HostName, host_name, kernel_name
from procs.syncloop.configs.resolver import HostResolver, Resolver, parse
from tests.unit.configs.config_pods import pod, site


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [
        ({}, "web", ("web", "")),
        ({"hostname": "box"}, "web", ("box", "")),
        ({}, "a" * 70, ("a" * 63, "")),
        ({}, "a" * 62 + "-.b", ("a" * 62, "")),
        ({"subdomain": "sub"}, "web", ("web", "sub.shop.svc.cluster.local")),
        ({"hostname": "box", "subdomain": "sub"}, "web", ("box", "sub.shop.svc.cluster.local")),
        ({"hostnameOverride": "any.name.at.all", "subdomain": "s"}, "web", ("any.name.at.all", "")),
    ],
)
def test_host_name(spec, name, expected):
    """P-176: the pod's name or what it says, cut to a label, and its domain."""
    assert host_name(pod(spec, meta={"name": name}), "cluster.local") == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "web"),
        ({"hostNetwork": True}, ""),
        ({"setHostnameAsFQDN": True}, "web"),
        ({"setHostnameAsFQDN": True, "subdomain": "sub"}, "web.sub.shop.svc.cluster.local"),
        ({"subdomain": "sub"}, "web"),
        ({"hostnameOverride": "x", "setHostnameAsFQDN": True, "subdomain": "sub"}, "x"),
    ],
)
def test_kernel_name(spec, expected):
    """P-176: what the kernel says; in the node's network, its own name."""
    assert kernel_name(pod(spec), "cluster.local") == expected


def test_long_full_name():
    """P-176: a full name that the kernel does not take is refused, and shown."""
    spec = {"setHostnameAsFQDN": True, "subdomain": "s" * 50}
    with pytest.raises(ConfigError, match="too long") as caught:
        kernel_name(pod(spec), "cluster.local")
    assert caught.value.reason == SANDBOX


LOCAL = (
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
)


def test_hosts_of_a_pod():
    """P-175: header, the local block, a line for each address."""
    assert hosts.managed(("10.0.0.9", "fd00::9"), HostName("web", ""), ()) == (
        f"# Kubernetes-managed hosts file.\n{LOCAL}10.0.0.9\tweb\nfd00::9\tweb\n"
    )
    assert "10.0.0.9\tweb.sub.dom\tweb\n" in hosts.managed(
        ("10.0.0.9",), HostName("web", "sub.dom"), ()
    )


def test_hosts_aliases():
    """P-175: aliases come last, in a block of their own; the node's file has another header."""
    aliases = (HostAlias(("a.x", "b.x"), "1.2.3.4"), HostAlias(("c",), "::5"))
    block = "\n# Entries added by HostAliases.\n1.2.3.4\ta.x\tb.x\n::5\tc\n"
    assert hosts.managed((), HostName("web", ""), aliases).endswith(f"ip6-allrouters\n{block}")
    assert hosts.of_node("127.0.0.1 me\n", aliases) == (
        f"# Kubernetes-managed hosts file (host network).\n127.0.0.1 me\n{block}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Resolver()),
        ("nameserver 1.1.1.1\nnameserver\t2.2.2.2 # no\n", Resolver(("1.1.1.1", "2.2.2.2"))),
        ("search a b\nsearch c. .\n", Resolver((), ("c", "."))),
        ("options ndots:2 rotate\noptions ndots:3", Resolver((), (), ("ndots:3", "rotate"))),
        ("#nameserver 9.9.9.9\n; search x\n sortlist 1\nnameserver\n", Resolver()),
    ],
)
def test_resolver_file(text, expected):
    """The last search line counts, options are merged, comments and the rest are passed over."""
    assert parse(text) == expected


def test_resolver_file_is_read_again_when_it_changes(tmp_path):
    """A file is parsed anew when it changed, also by another file in its place."""
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 1.1.1.1\n")
    host = HostResolver()
    first = host.read(str(path))
    assert host.read(str(path)) is first
    other = tmp_path / "new"
    other.write_text("nameserver 2.2.2.2\n")
    os.replace(other, path)
    assert host.read(str(path)).servers == ("2.2.2.2",)
    assert host.read("") == Resolver()


def test_bad_resolver_file(tmp_path):
    """P-179: what cannot be read, or is too large, is an error that names the file."""
    with pytest.raises(ConfigError, match=r"resolver file /nowhere: No such file"):
        HostResolver().read("/nowhere")
    path = tmp_path / "big"
    path.write_bytes(b"#" * ((10 << 20) + 1))
    with pytest.raises(ConfigError, match="more than"):
        HostResolver().read(str(path))


HOST = Resolver(("9.9.9.9",), ("corp",), ("rotate",))
CLUSTER = {"cluster_dns": ("10.96.0.10",), "cluster_domain": "cluster.local"}
OF_CLUSTER = (
    ["10.96.0.10"],
    ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp"],
    ["ndots:5"],
)
OF_HOST = (["9.9.9.9"], ["corp"], ["rotate"])


@pytest.mark.parametrize(
    ("spec", "node", "expected"),
    [
        ({}, CLUSTER, OF_CLUSTER),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, CLUSTER, OF_HOST),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, CLUSTER, OF_CLUSTER),
        ({"dnsPolicy": "Nonsense"}, CLUSTER, OF_CLUSTER),
        ({"dnsPolicy": "Default"}, CLUSTER, OF_HOST),
        ({"dnsPolicy": "None"}, CLUSTER, ([], [], [])),
        ({}, {"cluster_dns": ("10.96.0.10",)}, (["10.96.0.10"], ["corp"], ["ndots:5"])),
        (
            {"dnsPolicy": "Default"},
            {"resolv_conf": "", "ips": ("1.2.3.4", "::5")},
            (["127.0.0.1", "::1"], ["."], []),
        ),
    ],
)
def test_dns_policies(spec, node, expected):
    """P-177, P-178: what each policy begins with."""
    found = dns.dns_config(pod(spec), HOST, site(**node))
    made = found.config
    assert (list(made.servers), list(made.searches), list(made.options)) == expected
    assert found.warnings == ()


def test_no_cluster_dns():
    """P-177: without a cluster's DNS the host's is used, and an event says so."""
    found = dns.dns_config(pod(), HOST, site())
    assert list(found.config.servers) == ["9.9.9.9"]
    ((reason, message),) = found.warnings
    assert reason == "MissingClusterDNS"
    assert 'Falling back to "Default" policy' in message


def test_dns_config_of_the_pod():
    """P-178: it is appended; what is there twice counts once, options override by name."""
    spec = {
        "dnsConfig": {
            "nameservers": ["10.96.0.10", "8.8.8.8"],
            "searches": ["corp", "more"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        }
    }
    made = dns.dns_config(pod(spec), HOST, site(**CLUSTER)).config
    assert list(made.servers) == ["10.96.0.10", "8.8.8.8"]
    assert list(made.searches) == [*OF_CLUSTER[1], "more"]
    assert list(made.options) == ["ndots:2", "edns0"]


@pytest.mark.parametrize(
    ("host", "servers", "searches", "word"),
    [
        (Resolver(tuple(f"1.1.1.{i}" for i in range(5))), 3, 0, "Nameserver limits"),
        (Resolver((), tuple(f"d{i}" for i in range(40))), 0, 32, "Search Line limits"),
        (Resolver((), ("a" * 254, "ok")), 0, 1, "Search Line limits"),
        (Resolver((), tuple(f"{i:0200}" for i in range(15))), 0, 10, "Search Line limits"),
    ],
)
def test_dns_limits(host, servers, searches, word):
    """P-178: what does not fit is left out, and an event says what is left."""
    found = dns.dns_config(pod({"dnsPolicy": "Default"}), host, site())
    assert len(found.config.servers) == servers
    assert len(found.config.searches) == searches
    ((reason, message),) = found.warnings
    assert reason == "DNSConfigForming"
    assert word in message


@pytest.mark.parametrize(
    ("searches", "domain", "bad"),
    [(29, "x", False), (30, "x", True), (32, "", False), (33, "", True)],
)
def test_check_of_the_node(searches, domain, bad):
    """P-179: three search domains fewer fit if the cluster adds its own."""
    host = Resolver((), tuple(f"d{i}" for i in range(searches)))
    assert bool(dns.host_problem(host, site(cluster_domain=domain))) is bad


def test_check_of_the_node_lengths():
    """P-179: the search line and each domain have limits too."""
    assert dns.host_problem(Resolver((), ("a" * 254,)), site())
    assert dns.host_problem(Resolver((), tuple(f"{i:0200}" for i in range(15))), site())
