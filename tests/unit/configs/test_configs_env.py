"""Variables: references, sources, fields, services, files (P-163, P-170..P-174)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from kubelet.api.container import ResourceFieldSelector
from procs.syncloop.configs import fields
from procs.syncloop.configs.context import FileKey
from procs.syncloop.configs.env import encoded, environment, wanted_file_keys
from procs.syncloop.configs.errors import CONTAINER, ConfigError
from procs.syncloop.configs.expand import expand, missing
from procs.syncloop.configs.lookup import ConfigMap, Nothing, Secret, Service, ServicePort
from procs.syncloop.configs.policy import Policy
from tests.unit.configs.config_pods import context, pod, resources, site


@dataclass
class Known(Nothing):
    """A cluster with some objects."""

    secrets: dict = field(default_factory=dict)
    maps: dict = field(default_factory=dict)
    of_namespace: dict = field(default_factory=dict)

    def secret(self, namespace, name):
        return self.secrets.get((namespace, name))

    def config_map(self, namespace, name):
        return self.maps.get((namespace, name))

    def services(self, namespace):
        return self.of_namespace.get(namespace, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("$(A)$(B)", "12"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$", "$"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("a$(A)b$$c", "a1b$c"),
        ("$($(A))", "$($(A))"),
        ("100%$", "100%$"),
    ],
)
def test_expand(text, expected):
    """P-163: known names are replaced, $$ is a dollar, everything else stays."""
    assert expand(text, {"A": "1"}, {"A": "other", "B": "2"}) == expected


def test_missing_names():
    """Names without a value are found, escaped ones are not names."""
    assert missing("$(A)/$(B)/$$(C)", {"A": ""}) == ["B"]


def env_of(container, spec=None, **changes):
    """Return the environment of a container."""
    found = pod(spec, container)
    return environment(found, found.spec.containers[0], context(**changes), site())


def test_values_refer_to_earlier_ones():
    """A value may refer to what stands before it, and to nothing after it."""
    variables = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(C)"},
        {"name": "C", "value": "3"},
    ]
    assert env_of({"env": variables}) == {"A": "1", "B": "1$(C)", "C": "3"}


def test_precedence():
    """P-170: env goes before envFrom, envFrom before services; the later source wins."""
    known = Known(
        maps={("shop", "one"): ConfigMap({"X": "one", "Y": "one"})},
        secrets={("shop", "two"): Secret({"X": b"two", "DB_SERVICE_HOST": b"mine"})},
        of_namespace={"shop": (Service("db", "shop", "10.1.1.1", (ServicePort(5432),)),)},
    )
    container = {
        "envFrom": [{"configMapRef": {"name": "one"}}, {"secretRef": {"name": "two"}}],
        "env": [{"name": "Y", "value": "env $(DB_SERVICE_PORT)"}],
    }
    found = env_of(container, lookup=known)
    assert found["X"] == "two"
    assert found["Y"] == "env 5432"
    assert found["DB_SERVICE_HOST"] == "mine"


REFERENCES = [
    ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]}, "secret"),
    (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]},
        "configmap",
    ),
    ({"envFrom": [{"secretRef": {"name": "x"}}]}, "secret"),
    ({"envFrom": [{"configMapRef": {"name": "x"}}]}, "configmap"),
]


@pytest.mark.parametrize(("container", "kind"), REFERENCES)
def test_missing_object(container, kind):
    """P-170: what is not there and not optional is an error in known words."""
    with pytest.raises(ConfigError) as caught:
        env_of(container)
    assert str(caught.value) == f'{kind} "x" not found'
    assert caught.value.reason == CONTAINER == "CreateContainerConfigError"


def optional(document):
    """Mark every reference in a document as optional."""
    if isinstance(document, list):
        return [optional(item) for item in document]
    if not isinstance(document, dict):
        return document
    more = {"optional": True} if document.get("name") == "x" else {}
    return {key: optional(value) for key, value in document.items()} | more


@pytest.mark.parametrize(("container", "kind"), REFERENCES)
def test_missing_optional_object(container, kind):  # noqa: ARG001 - the table's other column
    """P-170: what is optional and not there is passed over."""
    assert env_of(optional(container)) == {}


def test_missing_key():
    """P-170: an object without the key is an error too, unless it is optional."""
    known = Known(secrets={("shop", "x"): Secret({"other": b""})})
    container = REFERENCES[0][0]
    with pytest.raises(ConfigError, match="couldn't find key k in Secret shop/x"):
        env_of(container, lookup=known)
    assert env_of(optional(container), lookup=known) == {}


def test_bytes_that_are_no_text():
    """A secret reaches the container as the bytes that it is."""
    known = Known(secrets={("shop", "x"): Secret({"k": b"\xff\x00\xc3"})})
    found = env_of(REFERENCES[0][0], lookup=known)
    assert encoded(found["A"]) == b"\xff\x00\xc3"


def test_keys_that_are_no_names():
    """Keys that cannot be names are passed over, with a warning; the prefix counts."""
    known = Known(maps={("shop", "x"): ConfigMap({"a.b": "1", "b=c": "2", "d": "3"})})
    said = []
    found = env_of(
        {"envFrom": [{"prefix": "P_", "configMapRef": {"name": "x"}}]},
        lookup=known,
        warn=lambda *what: said.append(what),
    )
    assert found == {"P_a.b": "1", "P_d": "3"}
    ((reason, message),) = said
    assert reason == "InvalidEnvironmentVariableNames"
    assert "[P_b=c]" in message
    assert "shop/x" in message


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.io/x']", "yes"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", "it's"),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "192.0.2.7"),
        ("status.hostIPs", "192.0.2.7,2001:db8::7"),
        ("status.podIP", "10.0.0.9"),
        ("status.podIPs", "10.0.0.9,fd00::9"),
    ],
)
def test_fields(path, expected):
    """P-173: what a pod can learn of itself."""
    found = pod(
        {"serviceAccountName": "robot"},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]},
        {"labels": {"app.io/x": "yes"}, "annotations": {"note": "it's"}},
    )
    ips = ("192.0.2.7", "2001:db8::7")
    node = replace(site(), ips=ips)
    around = context(pod_ips=("10.0.0.9", "fd00::9"))
    assert environment(found, found.spec.containers[0], around, node) == {"A": expected}


def test_unknown_field():
    """P-173: a field that there is not is named."""
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.nodeSelector"):
        env_of(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeSelector"}}}]}
        )


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1m", "250"),
        ("requests.cpu", "0", "1"),
        ("limits.memory", "", str(15 << 30)),  # no limit: what the node can give
        ("limits.memory", "1Gi", "15"),
        ("requests.memory", "1Mi", "65"),
        ("requests.ephemeral-storage", "", "0"),
        ("limits.ephemeral-storage", "1Gi", "100"),
        ("limits.hugepages-2Mi", "1Mi", "4"),
    ],
)
def test_resources(resource, divisor, expected):
    """P-173: whole numbers of the divisor, rounded up; missing limits are the node's."""
    found = pod(
        container=resources(
            {"cpu": "250m", "memory": str((64 << 20) + 1)}, {"cpu": "1500m", "hugepages-2Mi": "4Mi"}
        )
    )
    selector = ResourceFieldSelector(resource=resource, divisor=divisor)
    allocatable = site().allocatable
    assert fields.resource_value(found, found.spec.containers[0], selector, allocatable) == expected


def test_resources_of_the_pod_as_a_whole_and_of_others():
    """A pod's own limit stands in before the node's; another container can be named."""
    spec = {
        "resources": {"limits": {"memory": "2Gi"}},
        "containers": [
            {"name": "main", "image": "x"},
            {"name": "side", "image": "x", **resources({}, {"memory": "1Gi"})},
        ],
    }
    found = pod(spec)

    def value(name):
        selector = ResourceFieldSelector(name, "1Gi", "limits.memory")
        return fields.resource_value(found, found.spec.containers[0], selector, site().allocatable)

    assert (value(""), value("side")) == ("2", "1")
    with pytest.raises(ConfigError, match="container ghost not found"):
        value("ghost")


@pytest.mark.parametrize("resource", ["limits.gpu", "cpu", "total.cpu"])
def test_unknown_resources(resource):
    """P-173: a resource that there is not is named."""
    found = pod()
    selector = ResourceFieldSelector(resource=resource)
    with pytest.raises(ConfigError, match=f"unsupported container resource: {resource}"):
        fields.resource_value(found, found.spec.containers[0], selector, {})


WEB = Service(
    "my-web", "shop", "10.1.1.2", (ServicePort(80, "http"), ServicePort(53, "dns-u", "UDP"))
)
MASTER = Service("kubernetes", "default", "10.1.0.1", (ServicePort(443, "https"),))


def test_service_variables():
    """P-171: the variables of a service with two ports, and of the API's own."""
    known = Known(of_namespace={"shop": (WEB,), "default": (MASTER, WEB)})
    assert env_of({}, lookup=known) == {
        "KUBERNETES_SERVICE_HOST": "10.1.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": "tcp://10.1.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.1.0.1:443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.1.0.1",
        "MY_WEB_SERVICE_HOST": "10.1.1.2",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_SERVICE_PORT_DNS_U": "53",
        "MY_WEB_PORT": "tcp://10.1.1.2:80",
        "MY_WEB_PORT_80_TCP": "tcp://10.1.1.2:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "10.1.1.2",
        "MY_WEB_PORT_53_UDP": "udp://10.1.1.2:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": "10.1.1.2",
    }


def test_service_links_off_and_headless():
    """P-171: without links only the API's own is seen; what has no address is never seen."""
    headless = replace(WEB, cluster_ip="None")
    known = Known(of_namespace={"shop": (WEB,), "default": (MASTER,)})
    found = env_of({}, {"enableServiceLinks": False}, lookup=known)
    assert {name.split("_")[0] for name in found} == {"KUBERNETES"}
    assert env_of({}, lookup=Known(of_namespace={"shop": (headless,)})) == {}


def test_services_not_read_yet():
    """P-172: a pod waits until the services are known; a static one does not."""
    known = Known(of_namespace={"default": None, "shop": None})
    with pytest.raises(ConfigError, match="services have not yet been read at least once"):
        env_of({}, lookup=known)
    static = pod(meta={"annotations": {"kubernetes.io/config.source": "file"}})
    assert environment(static, static.spec.containers[0], context(lookup=known), site()) == {}


def test_links_unset():
    """P-172: a pod without enableServiceLinks was never defaulted, and is refused."""
    found = pod()
    found = replace(found, spec=replace(found.spec, enable_service_links=None))
    with pytest.raises(ConfigError, match="enableServiceLinks"):
        environment(found, found.spec.containers[0], context(), site())


def file_ref(path, **more):
    """Return a container with a variable from a file."""
    ref = {"volumeName": "v", "path": path, "key": "K", **more}
    return {"env": [{"name": "A", "valueFrom": {"fileKeyRef": ref}}]}


ENV_KEY = FileKey("v", "env", "K")


def test_file_key():
    """P-174: a variable is what was read for it; an optional one that is not there is none."""
    assert env_of(file_ref("env"), file_keys={ENV_KEY: "from file"}) == {"A": "from file"}
    assert env_of(file_ref("env", optional=True), file_keys={ENV_KEY: None}) == {}
    assert env_of(file_ref("env", optional=True), file_keys={ENV_KEY: ""}) == {}


@pytest.mark.parametrize("value", [None, ""])
def test_a_file_key_that_is_not_there(value):
    """P-174: without a value, as without its key, a variable that is not optional is an error."""
    message = 'environment variable key "K" not found in file "env" of volume "v"'
    with pytest.raises(ConfigError, match=message):
        env_of(file_ref("env"), file_keys={ENV_KEY: value})


def test_file_keys_are_named_for_who_reads_them():
    """P-174: each once, and none with the gate off."""
    refs = [*file_ref("env")["env"], *file_ref("env")["env"], *file_ref("other", key="L")["env"]]
    found = pod(container={"env": [*refs, {"name": "B", "value": "1"}]}).spec.containers[0]
    assert wanted_file_keys(found, context()) == (ENV_KEY, FileKey("v", "other", "L"))
    assert wanted_file_keys(found, context(policy=Policy(env_files=False))) == ()
    with pytest.raises(ConfigError, match='environment file "env" has not been read'):
        env_of(file_ref("env"))


def test_files_need_their_gate():
    """P-174: with the gate off nothing is read."""
    with pytest.raises(ConfigError, match="EnvFiles"):
        env_of(file_ref("env"), policy=Policy(env_files=False))
