"""Objects of the cluster as pods learn of them, from tables (L-25, P-57, P-164, P-170..P-172)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from config_pods import context, pod, site

from kubelet.channels.waiting import Waiters
from kubelet.cluster.rows import (
    CLUSTER,
    LISTED_KEY,
    OBJECTS,
    ListedRow,
    ObjectRow,
    RuntimeClassRow,
    ServicePortRow,
    ServiceRow,
    class_key,
    object_key,
    service_key,
)
from kubelet.process.tables import Tables
from procs.syncloop.configs import needs
from procs.syncloop.configs.env import environment
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.configs.lookup import NOTHING
from procs.syncloop.configs.needs import Need
from procs.syncloop.configs.tables import TableLookup
from procs.syncloop.images.credentials import PullSecret
from procs.syncloop.images.pullsecrets import from_tables
from procs.syncloop.workers.cluster import known

FROM_API = {"annotations": {"kubernetes.io/config.source": "api"}}
UNKNOWN = "failed to sync {} cache: timed out waiting for the condition"


class Standing:
    """The syncloop's side of tables that a node process writes."""

    def __init__(self, root):
        self.node = Tables(root, "node")
        self.tables = Tables(root, "syncloop")
        self.waiters = Waiters()
        self.tasks = []

    def write(self, table, key, row):
        """Write a row as ``node`` does, hint and all."""
        self.node.put(table, key, row.to_wire())
        self.waiters.notify(table, key)

    def object(self, kind, name, namespace="shop", **fields):
        row = ObjectRow(kind, namespace, name, **fields)
        self.write(OBJECTS, object_key(kind, namespace, name), row)

    def service(self, name, namespace="shop", address="10.0.0.1", port=80):
        row = ServiceRow(name, namespace, address, (ServicePortRow(port, "http"),))
        self.write(CLUSTER, service_key(namespace, name), row)

    def listed(self, **kinds):
        self.write(CLUSTER, LISTED_KEY, ListedRow(**kinds))

    def spawn(self, work, name):
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self.tasks.append(task)
        return task


@pytest.fixture
def standing(tmp_path):
    made = Standing(tmp_path)
    yield made
    made.tables.close()
    made.node.close()


@pytest.fixture
def lookup(standing):
    return TableLookup(standing, seconds=5.0)


def raised(call, *args):
    with pytest.raises(ConfigError) as caught:
        call(*args)
    return caught.value


# --- what there is -------------------------------------------------------------------------------


def test_a_secret_is_what_its_row_says(standing, lookup):
    """P-170: its data, and None only where it is known that there is none."""
    standing.object("secret", "s", found=True, data={"k": b"\xff"})
    assert lookup.secret("shop", "s").data == {"k": b"\xff"}
    standing.object("secret", "s", found=True, data={"k": b"new"})
    assert lookup.secret("shop", "s").data == {"k": b"new"}
    standing.object("secret", "s", found=False)
    assert lookup.secret("shop", "s") is None


def test_a_config_maps_binary_data_is_not_for_variables(standing, lookup):
    """P-170: variables are made of its texts alone."""
    data = {"text": "grün".encode(), "blob": b"\xff\xfe"}
    standing.object("configmap", "c", found=True, data=data, binary=("blob",))
    assert lookup.config_map("shop", "c").data == {"text": "grün"}
    standing.object("configmap", "c")
    assert lookup.config_map("shop", "c") is None


@pytest.mark.parametrize("kind", ["secret", "configmap"])
def test_not_known_is_not_the_same_as_not_there(lookup, kind):
    """Where node has not spoken yet, an optional reference must not be passed over."""
    ask = lookup.secret if kind == "secret" else lookup.config_map
    assert str(raised(ask, "shop", "s")) == UNKNOWN.format(kind)


def test_what_cannot_be_had_is_said_in_the_servers_words(standing, lookup):
    """L-25: a refusal is no absence; what was read before it still holds."""
    standing.object("secret", "s", error='secrets "s" is forbidden')
    assert str(raised(lookup.secret, "shop", "s")) == 'secrets "s" is forbidden'
    standing.object("secret", "s", found=True, data={"k": b"v"}, error="forbidden by now")
    assert lookup.secret("shop", "s").data == {"k": b"v"}


def test_a_name_that_no_row_can_have_is_not_there(lookup):
    """Nobody will ever write a row for it: the pod must not wait for one."""
    assert lookup.secret("shop", "x" * 254) is None
    assert lookup.config_map("shop", "\ud800") is None


def test_an_odd_row_is_as_if_it_were_not_there(standing, lookup, capfd):
    """And its content is in no message."""
    standing.node.put(OBJECTS, object_key("secret", "shop", "s"), {"data": "PASSWORD"})
    assert str(raised(lookup.secret, "shop", "s")) == UNKNOWN.format("secret")
    assert "PASSWORD" not in capfd.readouterr().err


def test_pods_of_this_node_see_what_happens_to_be_known(standing, lookup):
    """Nothing is read for static and local pods: what is not known is not there for them."""
    for source in ("file", "http", "local"):
        notes = {"annotations": {"kubernetes.io/config.source": source}}
        own = lookup.of(pod(meta=notes))
        assert own.secret("shop", "s") is None
        assert own.unknown((Need(OBJECTS, "secret/shop/s"),)) == ()
    standing.object("secret", "s", found=True, data={"k": b"v"})
    assert own.secret("shop", "s").data == {"k": b"v"}
    assert lookup.of(pod(meta=FROM_API)) is lookup
    assert own.of(pod(meta=FROM_API)).unknown((Need(OBJECTS, "secret/shop/x"),))


# --- variables -----------------------------------------------------------------------------------


def variables(lookup, container):
    found = pod(container=container, meta=FROM_API)
    return environment(found, found.spec.containers[0], context(lookup=lookup), site())


REFERENCE = {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}


def test_variables_of_a_secret(standing, lookup):
    """P-170: the value, or the words that operators know for what is missing."""
    standing.listed(services=True)
    assert str(raised(variables, lookup, REFERENCE)) == UNKNOWN.format("secret")
    standing.object("secret", "s")
    assert str(raised(variables, lookup, REFERENCE)) == 'secret "s" not found'
    standing.object("secret", "s", found=True, data={"other": b"v"})
    assert str(raised(variables, lookup, REFERENCE)) == "couldn't find key k in Secret shop/s"
    standing.object("secret", "s", found=True, data={"k": b"v"})
    assert variables(lookup, REFERENCE) == {"E": "v"}


def test_an_optional_reference_needs_a_certain_no(standing, lookup):
    """L-25: optional is what is not there, not what may not be read or is not known."""
    standing.listed(services=True)
    optional = {"envFrom": [{"configMapRef": {"name": "c", "optional": True}}]}
    assert str(raised(variables, lookup, optional)) == UNKNOWN.format("configmap")
    standing.object("configmap", "c", error="forbidden")
    assert str(raised(variables, lookup, optional)) == "forbidden"
    standing.object("configmap", "c")
    assert variables(lookup, optional) == {}


def test_services_are_those_of_the_namespace_and_the_master(standing, lookup):
    """P-171, P-172: nothing before they are listed."""
    standing.service("kubernetes", "default", "10.0.0.1", 443)
    standing.service("web")
    standing.service("db", "default")
    standing.service("web", "shop2")
    assert lookup.services("shop") is None
    assert "have not yet been read" in str(raised(variables, lookup, {}))
    standing.listed(services=True)
    found = variables(lookup, {})
    assert found["KUBERNETES_SERVICE_PORT"] == "443"
    assert found["WEB_SERVICE_HOST"] == "10.0.0.1"
    assert not any(name.startswith("DB_") for name in found)


def test_services_follow_their_rows(standing, lookup):
    """What is decoded once is kept only as long as the row is the same."""
    standing.listed(services=True)
    standing.service("web")
    standing.service("db")
    first = lookup.services("shop")
    assert {service.name for service in first} == {"web", "db"}
    assert lookup.services("shop") == first
    standing.service("web", address="10.0.0.2")
    standing.node.writers[CLUSTER].delete(service_key("shop", "db"))
    (only,) = lookup.services("shop")
    assert (only.name, only.cluster_ip) == ("web", "10.0.0.2")
    assert len(lookup._services) == 1
    standing.node.put(CLUSTER, service_key("shop", "odd"), {"ports": 5})
    assert len(lookup.services("shop")) == 1


# --- runtime classes -----------------------------------------------------------------------------


def test_runtime_classes(standing, lookup):
    """P-164: the handler; a class that is not there, or not known yet, is no sandbox."""
    assert lookup.runtime_handler(pod()) == ""
    of_class = pod({"runtimeClassName": "kata"})
    assert "have not been read yet" in str(raised(lookup.runtime_handler, of_class))
    standing.listed(runtime_classes=True)
    error = raised(lookup.runtime_handler, of_class)
    assert str(error) == 'runtimeclass.node.k8s.io "kata" not found'
    assert error.reason == SANDBOX
    standing.write(CLUSTER, class_key("kata"), RuntimeClassRow("kata", "qemu"))
    assert lookup.runtime_handler(of_class) == "qemu"


# --- pull secrets --------------------------------------------------------------------------------


def pulling(*names):
    return pod({"imagePullSecrets": [{"name": name} for name in names]}, meta=FROM_API)


def test_pull_secrets_are_of_two_types(standing, lookup):
    """I-22, P-57: found, of another kind and so of no use, or missing."""
    text = b'{"auths":{}}'
    new = {".dockerconfigjson": text, "more": b"x"}
    standing.object(
        "secret", "new", found=True, data=new, type="kubernetes.io/dockerconfigjson", uid="u-new"
    )
    old = {".dockercfg": b"{}"}
    standing.object("secret", "old", found=True, data=old, type="kubernetes.io/dockercfg")
    standing.object("secret", "plain", found=True, data=new, type="Opaque")
    standing.object("secret", "empty", found=True, type="kubernetes.io/dockercfg")
    standing.object("secret", "gone")
    standing.object("secret", "refused", error="forbidden")
    names = ("new", "old", "plain", "empty", "gone", "refused", "unknown", "new", "x" * 300)
    found = from_tables(lookup)(pulling(*names))
    assert found.found == (
        PullSecret("shop", "new", "u-new", text, legacy=False),
        PullSecret("shop", "old", "", b"{}", legacy=True),
    )
    assert found.missing == ("gone", "refused", "unknown", "x" * 300)


# --- waiting -------------------------------------------------------------------------------------

CONTAINER = {
    "envFrom": [
        {"configMapRef": {"name": "c"}},
        {"secretRef": {"name": "s"}},
        {"secretRef": {"name": "x" * 300}},
    ],
    "env": [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "d", "key": "k"}}},
        {"name": "C", "value": "plain"},
    ],
}


def test_what_a_step_needs():
    """Each object once; what no row can be written for is not waited for."""
    pulls = [{"name": "p"}, {"name": "p"}, {"name": ""}]
    found = pod({"runtimeClassName": "kata", "imagePullSecrets": pulls}, CONTAINER)
    wanted = needs.for_variables(found, found.spec.containers[0])
    assert [need.key for need in wanted] == [
        "listed",
        "configmap/shop/c",
        "secret/shop/s",
        "configmap/shop/d",
    ]
    assert [need.key for need in needs.for_pull(found)] == ["secret/shop/p"]
    assert [need.key for need in needs.for_sandbox(found)] == ["runtimeclass//kata"]
    assert needs.for_sandbox(pod()) == ()


def run(work):
    async def main():
        async with asyncio.timeout(20):
            await work()

    asyncio.run(main())


SECRET = Need(OBJECTS, "secret/shop/s")
SERVICES = Need(CLUSTER, LISTED_KEY, "services")
KATA = Need(CLUSTER, class_key("kata"), "runtime_classes")


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_pod_waits_for_what_is_not_known(standing, lookup):
    """It goes on with the hint for the last of its rows, whatever that row says."""

    async def work():
        task = asyncio.ensure_future(lookup.known((SECRET, SERVICES)))
        await turns()
        assert lookup.unknown((SECRET, SERVICES)) == (SECRET, SERVICES)
        standing.object("secret", "s")
        standing.listed(runtime_classes=True)
        await turns()
        assert not task.done()
        standing.listed(services=True)
        await task
        assert lookup.unknown((SECRET, SERVICES)) == ()
        assert len(standing.waiters) == 0
        await lookup.known((SECRET, SERVICES))

    run(work)


@pytest.mark.parametrize("known", ["the class", "that all are listed"])
def test_a_runtime_class_is_known_by_itself_or_by_the_list(standing, lookup, known):
    """P-164: a class that is not among those listed is known not to be there."""

    async def work():
        task = asyncio.ensure_future(lookup.known((KATA,)))
        await turns()
        assert not task.done()
        if known == "the class":
            standing.write(CLUSTER, class_key("kata"), RuntimeClassRow("kata", "qemu"))
        else:
            standing.listed(runtime_classes=True)
        await task

    run(work)


def test_waiting_ends_by_itself_or_when_it_is_cancelled(standing):
    """A row that never comes becomes a sentence; a deleted pod waits no more."""

    async def work():
        await TableLookup(standing, seconds=0.01).known((SECRET,))
        task = asyncio.ensure_future(TableLookup(standing).known((SECRET,)))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(standing.waiters) == 0

    run(work)


def test_a_pod_that_failed_is_woken_by_the_next_change(standing, lookup):
    """A secret that comes, or gets the key that was missing, starts the container at once."""

    async def work():
        woken = []
        for fields in ({}, {"found": True}, {"found": True, "data": {"k": b"v"}}):
            lookup.tell((SECRET, SERVICES), lambda: woken.append(1))
            await turns()
            assert len(woken) == len(standing.tasks) - 1
            standing.object("secret", "other")
            await turns()
            standing.object("secret", "s", **fields)
            await turns()
            assert len(woken) == len(standing.tasks)
        lookup.tell((SECRET, SERVICES), lambda: woken.append(1))
        await turns()
        standing.listed(services=True)
        await asyncio.gather(*standing.tasks)
        assert len(woken) == 4

    run(work)


def test_nothing_is_waited_for_without_an_api_server(standing):
    """Static and local pods, and nodes on their own, go on at once."""

    async def work():
        own = TableLookup(standing, certain=False)
        for one in (own, NOTHING):
            assert one.unknown((SECRET,)) == ()
            await one.known((SECRET,))
            one.tell((SECRET,), lambda: None)
        assert standing.tasks == []
        assert NOTHING.of(pod()) is NOTHING

    run(work)


def test_a_worker_says_what_it_waits_for(standing, lookup):
    """Each waiting pod names what it lacks; one that lacks nothing says nothing."""
    steps = []
    worker = SimpleNamespace(
        step=lambda step, *waits: steps.append((step, *waits)),
        waiting=lambda what, then: (what, then),
    )
    found = pod(container=REFERENCE, meta=FROM_API)
    wanted = needs.for_variables(found, found.spec.containers[0])

    async def work():
        task = asyncio.ensure_future(known(worker, lookup, wanted))
        await turns()
        (said,) = steps
        assert said[0] == "waiting for objects"
        assert said[1][0] == "the services of the cluster, secret shop/s to be read"
        standing.object("secret", "s")
        standing.listed(services=True)
        await task
        await known(worker, lookup, wanted)
        assert len(steps) == 1

    run(work)
