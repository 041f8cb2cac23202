"""What a container finds inside: environment, command, names, resolver, last words, terminals."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from kubelet.quantities import parse
from tests.node.images import BUSYBOX
from tests.node.pod_node import NODE_NAME, sh, sleeper
from tests.node.shared import pod, run, running, state_of, waiting
from tests.processes.node import free_port, wait_for

CONFIG = {"clusterDNS": ["192.0.2.53"], "clusterDomain": "cluster.test"}


def field(name, path):
    """A variable with a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name, what, divisor="1"):
    """A variable with a resource of the container."""
    source = {"resource": what, "divisor": divisor}
    return {"name": name, "valueFrom": {"resourceFieldRef": source}}


def resolver(text):
    """The words of a resolver file by the first of their line."""
    found = {}
    for line in text.splitlines():
        first, *rest = line.split()
        found.setdefault(first, []).extend(rest)
    return found


# Environment (P-163, P-170..P-173).


@pytest.mark.both_versions
def test_variables_refer_to_those_before_them(node):
    """$(NAME) is the value of a variable before; $$ escapes; what is unknown stays (P-163)."""
    env = [
        {"name": "A", "value": "one"},
        {"name": "B", "value": "$(A)-$(LATER)-$$(A)"},
        {"name": "LATER", "value": "two"},
        {"name": "EMPTY"},
    ]
    assert run(node, "env", 'echo "$A|$B|$LATER|${EMPTY-unset}|"', env=env) == (
        "one|one-$(LATER)-$(A)|two||\n"
    )


def test_command_and_arguments_refer_to_variables(node):
    """$(NAME) in command and arguments is the container's variable, without a shell (P-163)."""
    env = [{"name": "A", "value": "a value"}]
    container = {
        **sh("", env=env),
        "command": ["echo", "$(A)"],
        "args": ["$$(A)", "$(NONE)", "two words"],
    }
    name = node.write(pod("args", container, restartPolicy="Never"))
    node.await_phase(name, "Succeeded")
    assert node.output(name) == "a value $(A) $(NONE) two words\n"


def test_fields_of_the_pod(node):
    """A variable can be the pod's name, its node or its addresses (P-173)."""
    paths = (
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels['app']",
        "metadata.annotations['example.com/note']",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.podIP",
        "status.podIPs",
    )
    meta = {"labels": {"app": "web"}, "annotations": {"example.com/note": "a note"}}
    env = [field(f"F{number}", path) for number, path in enumerate(paths)]
    lines = run(node, "fields", "env | grep ^F | sort", meta=meta, env=env).splitlines()
    found = dict(zip(paths, (line.partition("=")[2] for line in lines), strict=True))
    name = f"fields-{NODE_NAME}"
    status = node.status(name)
    assert found == {
        "metadata.name": name,
        "metadata.namespace": "default",
        "metadata.uid": node.uid(name),
        "metadata.labels['app']": "web",
        "metadata.annotations['example.com/note']": "a note",
        "spec.nodeName": NODE_NAME,
        "spec.serviceAccountName": "",
        "status.hostIP": status["hostIP"],
        "status.podIP": status["podIP"],
        "status.podIPs": status["podIP"],
    }
    assert status["podIP"].startswith(node.containerd.place.subnet.removesuffix("0/24"))


def test_resources_of_the_container(node):
    """A variable can be a request or limit in units of its divisor, rounded up (P-173)."""
    resources = {
        "requests": {"cpu": "100m", "memory": "10Mi"},
        "limits": {"cpu": "1500m", "memory": "32Mi"},
    }
    env = [
        resource("R1", "requests.cpu", "1m"),
        resource("R2", "limits.cpu"),
        resource("R3", "requests.memory", "1Mi"),
        resource("R4", "limits.memory", "1Ki"),
    ]
    found = run(node, "resources", "echo $R1 $R2 $R3 $R4", env=env, resources=resources)
    assert found == f"100 2 10 {32 * 1024}\n"


def test_limits_that_are_not_set_are_the_nodes(node):
    """A limit that nobody has set is what the node can give (P-173)."""
    env = [resource("CPUS", "limits.cpu"), resource("MEMORY", "limits.memory")]
    cpus, memory = run(node, "unlimited", "echo $CPUS $MEMORY", env=env).split()
    assert int(cpus) == os.cpu_count()
    total = parse(Path("/proc/meminfo").read_text().split()[1] + "Ki").value
    assert 0 < int(memory) <= total


def test_a_config_map_that_nobody_has(node):
    """A config map that is not there keeps the container from being made, and is named (P-170)."""
    source = [{"configMapRef": {"name": "nowhere"}}]
    node.apply(pod("lacking", sleeper(envFrom=source)))
    found = waiting(node, "lacking", "CreateContainerConfigError")
    assert found["message"] == 'configmap "nowhere" not found'
    assert node.await_event("lacking", "Failed")["message"] == f"Error: {found['message']}"


def test_an_optional_config_map_that_nobody_has(node):
    """What is optional may be missing (P-170)."""
    source = [{"configMapRef": {"name": "nowhere", "optional": True}}]
    node.apply(pod("modest", sleeper(envFrom=source)))
    node.await_ready("modest")


# Command and place.


def test_the_images_own_command(node):
    """A container without a command runs what its image says."""
    name = node.write(
        pod("plain", {"name": "c", "image": BUSYBOX}, terminationGracePeriodSeconds=1)
    )
    node.await_ready(name)
    command = Path(f"/proc/{node.pid_of(name)}/cmdline").read_bytes()
    assert command.rstrip(b"\0").split(b"\0") == [b"sleep", b"86400"]


def test_the_working_directory(node):
    """A container starts where it is told to (P-163)."""
    assert run(node, "place", "pwd", workingDir="/var") == "/var\n"


def test_a_command_that_there_is_not(node):
    """A container that cannot be started says why: RunContainerError, or StartError (P-103)."""
    name = node.write(pod("nocommand", {**sh(""), "command": ["/no/such/program"]}))

    def look(status):
        state = state_of(status)
        return "/no/such/program" in json.dumps(state)

    node.await_status(name, "the reason is in its status", look)
    assert "no such file" in node.await_event(name, "Failed")["message"]


# Names (P-175, P-176).


@pytest.mark.both_versions
def test_the_hosts_file(node):
    """/etc/hosts has the pod's address and name, and its aliases (P-175)."""
    aliases = [{"ip": "192.0.2.9", "hostnames": ["nine", "nine.test"]}]
    text = run(node, "hosts", "cat /etc/hosts", spec={"hostAliases": aliases})
    name = f"hosts-{NODE_NAME}"
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert f"{node.status(name)['podIP']}\t{name}\n" in text
    assert text.endswith("# Entries added by HostAliases.\n192.0.2.9\tnine\tnine.test\n")


def test_the_hosts_file_can_be_written(node):
    """A container may add to its hosts file (P-175)."""
    assert "added\n" in run(node, "added", "echo added >> /etc/hosts; cat /etc/hosts")


def test_the_hosts_file_in_the_nodes_network(node):
    """A pod in the node's network has the node's hosts file, with its aliases (P-175)."""
    aliases = [{"ip": "192.0.2.9", "hostnames": ["nine"]}]
    spec = {"hostAliases": aliases, "hostNetwork": True}
    text = run(node, "nodehosts", "cat /etc/hosts", spec=spec)
    assert text == (
        "# Kubernetes-managed hosts file (host network).\n"
        + Path("/etc/hosts").read_text()
        + "\n# Entries added by HostAliases.\n192.0.2.9\tnine\n"
    )


@pytest.mark.parametrize(
    ("name", "spec", "wanted"),
    [
        ("own", {}, f"own-{NODE_NAME}"),
        ("given", {"hostname": "web-0"}, "web-0"),
        ("sub", {"hostname": "web-0", "subdomain": "web"}, "web-0"),
        (
            "full",
            {"hostname": "web-0", "subdomain": "web", "setHostnameAsFQDN": True},
            "web-0.web.default.svc.cluster.test",
        ),
        ("a" * 70, {}, "a" * 63),
        ("ofnode", {"hostNetwork": True}, socket.gethostname()),
    ],
)
def test_the_name_of_the_host(node, name, spec, wanted):
    """The host's name is the pod's, cut to 63 characters, or what it asks for (P-176)."""
    assert run(node, name, "hostname", spec=spec) == f"{wanted}\n"


def test_the_domain_is_in_the_hosts_file(node):
    """With a subdomain, the hosts file has the full name before the short one (P-175, P-176)."""
    text = run(node, "domain", "cat /etc/hosts", spec={"hostname": "a", "subdomain": "b"})
    address = node.status(f"domain-{NODE_NAME}")["podIP"]
    assert f"{address}\ta.b.default.svc.cluster.test\ta\n" in text


# Resolver (P-177, P-178).


def test_the_resolver_of_the_cluster(node):
    """ClusterFirst, the default: the cluster's server and searches, ndots 5 (P-177)."""
    found = resolver(run(node, "cluster", "cat /etc/resolv.conf"))
    host = resolver(Path("/etc/resolv.conf").read_text())
    own = ["default.svc.cluster.test", "svc.cluster.test", "cluster.test"]
    assert found["nameserver"] == ["192.0.2.53"]
    assert found["search"] == own + host.get("search", [])
    assert found["options"] == ["ndots:5"]


@pytest.mark.parametrize(
    ("name", "spec"),
    [("default", {"dnsPolicy": "Default"}), ("onhost", {"hostNetwork": True})],
)
def test_the_resolver_of_the_node(node, name, spec):
    """Default, and ClusterFirst in the node's network: what the node's resolver has (P-177)."""
    found = resolver(run(node, name, "cat /etc/resolv.conf", spec=spec))
    assert found["nameserver"] == resolver(Path("/etc/resolv.conf").read_text())["nameserver"]


def test_a_resolver_of_its_own(node):
    """None: nothing but what the pod gives (P-177, P-178)."""
    config = {
        "nameservers": ["192.0.2.1"],
        "searches": ["a.test", "b.test"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    spec = {"dnsPolicy": "None", "dnsConfig": config}
    assert resolver(run(node, "own-resolver", "cat /etc/resolv.conf", spec=spec)) == {
        "nameserver": ["192.0.2.1"],
        "search": ["a.test", "b.test"],
        "options": ["ndots:2", "edns0"],
    }


# Last words (P-185..P-187).


def last_words(node, name, script, **container):
    """The message of a container that has ended badly."""
    full = node.write(pod(name, sh(script, **container), restartPolicy="Never"))
    status = node.await_phase(full, "Failed")
    return state_of(status)["terminated"].get("message", "")


def test_the_file_of_last_words(node):
    """What a container writes to its termination log is the message of its end (P-185)."""
    words = last_words(node, "words", "echo -n it broke > /dev/termination-log; exit 3")
    assert words == "it broke"


def test_another_file_of_last_words(node):
    """The file is where the pod wants it, whoever the container runs as (P-185)."""
    script = "echo -n here > /tmp/words; exit 1"
    more = {"terminationMessagePath": "/tmp/words", "securityContext": {"runAsUser": 65534}}
    assert last_words(node, "elsewhere", script, **more) == "here"


def test_last_words_from_the_log(node):
    """FallbackToLogsOnError takes the end of the log of one that wrote nothing (P-186)."""
    script = "for n in $(seq 100); do echo line $n; done; exit 1"
    more = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    words = last_words(node, "fallback", script, **more)
    assert words.splitlines() == [f"line {n}" for n in range(21, 101)]


def test_last_words_are_not_taken_from_the_log_unasked(node):
    """Without that policy, the log is not looked at (P-186)."""
    assert last_words(node, "silent", "echo noise; exit 1") == ""


def test_long_last_words_are_cut(node):
    """Of a long file the last 4096 bytes count (P-185)."""
    script = "(seq 2000; echo end) > /dev/termination-log; exit 1"
    words = last_words(node, "long", script)
    assert len(words) == 4096
    assert words.endswith("\n2000\nend\n")


# Terminals and standard input (P-163).


def test_a_terminal(node):
    """A container with a terminal has one on all of its standard streams."""
    script = "test -t 0 && test -t 1 && test -t 2 && echo yes"
    assert run(node, "tty", script, tty=True, stdin=True).split() == ["yes"]


def test_standard_input(node):
    """A container that wants input has it open; one that does not finds its end at once."""
    assert run(node, "noinput", "cat; echo end") == "end\n"
    name = node.write(
        pod("input", sh("cat; echo end", stdin=True), terminationGracePeriodSeconds=1)
    )
    node.await_status(name, "it runs", running())
    assert os.readlink(f"/proc/{node.pid_of(name)}/fd/0").startswith("pipe:")
    assert node.output(name) == ""


# Network.


def test_a_port_of_the_node(node):
    """What listens on a container's port answers on the node's hostPort, loopback too (P-161)."""
    port = free_port()
    ports = [{"containerPort": 8080, "hostPort": port}]
    script = "exec nc -ll -p 8080 -e echo hello"
    name = node.write(pod("port", sh(script, ports=ports), terminationGracePeriodSeconds=1))
    node.await_ready(name)

    def ask():
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.settimeout(5)
                return connection.recv(100)
        except OSError:
            return b""

    assert wait_for("an answer on the port", ask, 30) == b"hello\n"
