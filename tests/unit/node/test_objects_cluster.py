"""Services and runtime classes in table ``cluster`` (P-164, P-171, P-172, N-62)."""

from __future__ import annotations

import pytest
from objects_scene import away, on_stage, turns

from kubelet.cluster.rows import CLUSTER, ListedRow, NodeRow
from procs.node.objects.classes import RuntimeClasses
from procs.node.objects.listed import listed, note_listed
from procs.node.objects.services import PATH, Services, key_of, row_of


def service(name="web", namespace="ns", address="10.0.0.1", **spec):
    spec.setdefault("ports", [{"port": 80, "name": "http"}])
    metadata = {"name": name, "namespace": namespace, "labels": {"much": "more"}}
    return {"metadata": metadata, "spec": {"clusterIP": address, "selector": {}, **spec}}


def given(scene, *items):
    """Have the server list these, whatever is asked for."""
    scene.server.items = lambda _watched: list(items)


def test_services_are_listed_and_followed(tmp_path):
    """P-172: rows of what containers learn, and that they are all there."""

    async def work(scene):
        given(scene, service(), service("db", ports=[{"port": 5432, "protocol": "UDP"}]))
        Services(scene.kit).start()
        assert not listed(scene.process).services
        await turns()
        assert listed(scene.process) == ListedRow(services=True)
        rows = scene.cluster()
        assert rows["service/ns/web"] == {
            "name": "web",
            "namespace": "ns",
            "cluster_ip": "10.0.0.1",
            "ports": [{"port": 80, "name": "http"}],
        }
        assert rows["service/ns/db"]["ports"] == [{"port": 5432, "protocol": "UDP"}]
        (watch,) = scene.server.watches
        assert watch.watched.path == PATH
        watch.watcher.deleted(service("db"))
        watch.watcher.changed(service("new"))
        assert sorted(scene.cluster()) == ["listed", "service/ns/new", "service/ns/web"]

    on_stage(tmp_path, work)


def test_only_what_changed_for_containers_is_written(tmp_path):
    """A big cluster's services change all the time in ways that no container learns of."""

    async def work(scene):
        given(scene, service(), service("db"))
        Services(scene.kit).start()
        await turns()
        watch = scene.server.watches[0]
        watch.watcher.changed(service(sessionAffinity="ClientIP"))
        watch.watcher.listed([service(), service("db", address="10.0.0.9")], "5")
        assert scene.process.puts == {"service/ns/web": 1, "service/ns/db": 2, "listed": 1}

    on_stage(tmp_path, work)


def test_what_is_gone_from_the_list_is_gone(tmp_path):
    """What a predecessor knew and is not listed goes; other rows of the table stay."""

    async def work(scene):
        scene.process.put(CLUSTER, "node", NodeRow("node-1").to_wire())
        given(scene, service(), service("db"))
        Services(scene.kit).start()
        await turns()
        await scene.die()
        given(scene, service("db"))
        Services(scene.kit).start()
        await turns()
        assert sorted(scene.cluster()) == ["listed", "node", "service/ns/db"]

    on_stage(tmp_path, work)


def test_a_service_that_loses_its_address_loses_its_row(tmp_path):
    """P-171: headless services are no variables."""

    async def work(scene):
        given(scene, service(), service("head", address="None"), service("ext", address=""))
        Services(scene.kit).start()
        await turns()
        assert sorted(scene.cluster()) == ["listed", "service/ns/web"]
        scene.server.watches[0].watcher.changed(service(address="None"))
        assert sorted(scene.cluster()) == ["listed"]

    on_stage(tmp_path, work)


ODD = [
    {},
    {"metadata": None},
    {"metadata": {"name": "x"}},
    {"metadata": {"name": 5, "namespace": "ns"}},
    {"metadata": {"name": "", "namespace": "ns"}},
]


@pytest.mark.parametrize("item", ODD, ids=repr)
def test_services_without_a_name_are_passed_over(item):
    """There is nothing to call them."""
    assert key_of(item) == ""


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        ({"ports": None}, 0),
        ({"ports": "http"}, 0),
        ({"ports": [None, "x", {}, {"port": "80"}, {"port": 0}, {"port": 70000}]}, 0),
        ({"ports": [{"port": 80, "name": None, "protocol": 7}]}, 1),
    ],
)
def test_odd_ports_are_passed_over(spec, ports):
    """The rest of the service counts."""
    assert len(row_of(service(**spec)).ports) == ports


@pytest.mark.parametrize("spec", [None, [], {"clusterIP": 5}])
def test_an_odd_service_has_no_address(spec):
    """It is as if it were not there."""
    assert row_of({**service(), "spec": spec}) is None


def test_runtime_classes_are_listed_and_followed(tmp_path):
    """P-164, N-62: the handler of each; one without is no class."""

    async def work(scene):
        kata = {"metadata": {"name": "kata"}, "handler": "kata-qemu", "overhead": {}}
        odd = [{"metadata": {"name": "odd"}}, {"handler": "x"}, {"metadata": 5}]
        given(scene, kata, *odd)
        note_listed(scene.process, services=True)
        RuntimeClasses(scene.kit).start()
        await turns()
        rows = scene.cluster()
        assert sorted(rows) == ["listed", "runtimeclass//kata"]
        assert rows["runtimeclass//kata"] == {"name": "kata", "handler": "kata-qemu"}
        assert listed(scene.process) == ListedRow(services=True, runtime_classes=True)

    on_stage(tmp_path, work)


def test_a_list_that_cannot_be_had_is_a_trouble(tmp_path):
    """It is named, nothing counts as listed, and what was known stays."""

    async def work(scene):
        given(scene, service())
        Services(scene.kit).start()
        await turns()
        await scene.die()
        scene.server.faults[PATH] = away()
        Services(scene.kit).start()
        await turns()
        assert "refused" in str(scene.told["services"])
        assert sorted(scene.cluster()) == ["listed", "service/ns/web"]
        scene.server.watches[0].told(None)
        assert scene.told["services"] is None

    on_stage(tmp_path, work)
