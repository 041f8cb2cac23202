"""Secrets and config maps of pods: read at once, once for all pods, and forgotten (L-24)."""

from __future__ import annotations

import asyncio

import pytest
from objects_scene import (
    away,
    config_map,
    forbidden,
    later,
    on_stage,
    pod,
    secret,
    turns,
)

from kubelet.cluster.rows import OBJECTS, ObjectRow
from procs.node.objects.strategy import TTL_ANNOTATION

SECRETS = "/api/v1/namespaces/ns/secrets"
S = f"{SECRETS}/s"
KEY = "secret/ns/s"
USES = {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}
CA = {"volumes": [{"name": "ca", "configMap": {"name": "kube-root-ca.crt"}}]}
CA_PATH = "/api/v1/namespaces/ns/configmaps/kube-root-ca.crt"
STRATEGY = "configMapAndSecretChangeDetectionStrategy"


@pytest.fixture
def configured(tmp_path):
    """A file with a strategy, as settings of a scene."""

    def made(strategy):
        path = tmp_path / "config.yaml"
        head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        path.write_text(f"{head}{STRATEGY}: {strategy}\n", encoding="utf-8")
        return {"config": path, "kubeconfig": tmp_path / "kubeconfig"}

    return made


def test_a_new_pods_secret_is_read_at_once(tmp_path):
    """One list of one object, no time passes, and the watch is what reads it."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        row = scene.object(KEY)
        assert (row.found, row.data, row.version, row.error) == (True, {"key": b"value"}, "1", "")
        assert (row.type, row.uid) == ("Opaque", "s-uid")
        assert scene.server.asked == [("LIST", SECRETS, None)]

    on_stage(tmp_path, work)


def test_many_pods_share_one_watch(tmp_path):
    """30 pods of a namespace with the cluster's CA: one watch."""

    async def work(scene):
        scene.server.put(CA_PATH, config_map("kube-root-ca.crt", ca="pem"))
        scene.objects.start()
        for number in range(30):
            scene.pods.put(pod(uid=f"u{number}", **CA))
        await turns()
        assert len(scene.server.watches) == 1
        assert scene.process.puts["configmap/ns/kube-root-ca.crt"] == 1
        for number in range(29):
            scene.pods.remove(f"u{number}")
        await later(600)
        assert scene.object("configmap/ns/kube-root-ca.crt").found

    on_stage(tmp_path, work)


def test_a_change_is_written_when_it_says_something(tmp_path):
    """A change is a row at once; what only repeats what is known is none."""

    async def work(scene):
        scene.server.put(S, secret("s", key="old"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.server.put(S, secret("s", key="old"))
        assert scene.process.puts[KEY] == 1
        scene.server.put(S, secret("s", version="2", key="new"))
        assert scene.object(KEY).data == {"key": b"new"}
        scene.server.remove(S)
        assert scene.object(KEY).found is False
        assert scene.object(KEY).data == {}

    on_stage(tmp_path, work)


def test_what_is_not_there_is_known_as_missing_until_it_comes(tmp_path):
    """404 is a row that says so, and the watch tells when it comes."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        row = scene.object(KEY)
        assert (row.found, row.error) == (False, "")
        scene.server.put(S, secret("s", key="value"))
        assert scene.object(KEY).found

    on_stage(tmp_path, work)


def test_what_nobody_refers_to_is_forgotten_after_a_minute(tmp_path):
    """L-24: a watch that is not used for max(syncFrequency, 1 min) ends, and its row with it."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.pods.remove("u1")
        await later(59)
        assert scene.object(KEY)
        scene.pods.put(pod(uid="u2", **USES))
        await later(120)
        assert scene.object(KEY), "it is used again"
        assert len(scene.server.asked) == 1
        scene.pods.remove("u2")
        await later(61)
        assert scene.keys() == []
        assert scene.server.watches == []

    on_stage(tmp_path, work)


def test_a_pod_that_has_ended_keeps_nothing(tmp_path):
    """Its end is our own word, which nobody tells back: it is seen within a minute."""

    async def work(scene):
        scene.server.put(S, {**secret("s", key="value"), "immutable": True})
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.pods.pods["u1"] = pod(**USES, status={"phase": "Succeeded"})
        await later(61)
        assert scene.keys() == []

    on_stage(tmp_path, work)


def test_an_immutable_object_is_not_watched(tmp_path):
    """L-24: it is read once; when its last pod goes it is forgotten, as it may be another then."""

    async def work(scene):
        scene.server.put(S, {**secret("s", key="value"), "immutable": True})
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(KEY).found
        assert scene.server.watches == []
        scene.pods.put(pod(uid="u2", **USES))
        scene.pods.remove("u1")
        await turns()
        assert scene.object(KEY).found
        scene.pods.remove("u2")
        assert scene.keys() == []

    on_stage(tmp_path, work)


def test_a_container_added_later_brings_its_objects(tmp_path):
    """An ephemeral container's secret is read when it is added."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod())
        await turns()
        assert scene.keys() == []
        debug = [{"name": "d", "envFrom": [{"secretRef": {"name": "s"}}]}]
        scene.pods.put(pod(ephemeralContainers=debug))
        await turns()
        assert scene.object(KEY).found

    on_stage(tmp_path, work)


def test_a_refusal_right_after_binding_is_asked_again_at_once(tmp_path):
    """The authorizer lags: a fraction of a second later it is there, and no error was said."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.server.faults[SECRETS] = [forbidden()] * 3
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(KEY) is None
        await later(0.36)
        assert scene.object(KEY).found
        assert scene.process.puts[KEY] == 1
        assert len(scene.server.watches) == 1

    on_stage(tmp_path, work)


def test_a_lasting_refusal_is_an_error_and_is_asked_again(tmp_path):
    """After some seconds the row says what the API server says; when it gives in, all is well."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.server.faults[SECRETS] = forbidden("s")
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await later(5)
        assert scene.object(KEY) is None
        await later(3)
        row = scene.object(KEY)
        assert (row.found, row.error) == (False, str(forbidden("s")))
        asked = len(scene.server.asked)
        await later(600)
        assert len(scene.server.asked) - asked <= 25, "it is not asked all the time"
        del scene.server.faults[SECRETS]
        await later(31)
        assert (scene.object(KEY).found, scene.object(KEY).error) == (True, "")

    on_stage(tmp_path, work)


def test_another_pod_has_a_refused_object_asked_for_at_once(tmp_path):
    """A new pod may be what the API server needs to know."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.server.faults[SECRETS] = forbidden("s")
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await later(60)
        del scene.server.faults[SECRETS]
        scene.pods.put(pod(uid="u2", **USES))
        await turns()
        assert scene.object(KEY).found

    on_stage(tmp_path, work)


def test_what_was_read_holds_while_the_server_is_away(tmp_path):
    """An outage changes no row; a right that is taken away is said, and the data stay."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        (watch,) = scene.server.watches
        for _ in range(3):
            watch.told(away())
            await later(30)
        assert scene.process.puts[KEY] == 1
        scene.server.faults[SECRETS] = forbidden("s")
        watch.told(forbidden("s"))
        await later(30)
        row = scene.object(KEY)
        assert (row.found, row.data) == (True, {"key": b"value"})
        assert row.error == str(forbidden("s"))
        del scene.server.faults[SECRETS]
        await later(31)
        assert scene.object(KEY).error == ""

    on_stage(tmp_path, work)


def test_an_unknown_object_tells_that_the_server_is_away(tmp_path):
    """Where nothing was ever read, the row says after a while why."""

    async def work(scene):
        scene.server.faults[SECRETS] = away()
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        (watch,) = scene.server.watches
        assert scene.object(KEY) is None
        await later(6)
        watch.told(away())
        assert "connection refused" in scene.object(KEY).error
        assert scene.server.watches == [watch], "it goes on by itself"

    on_stage(tmp_path, work)


def test_a_name_that_cannot_be_is_never_asked_for(tmp_path):
    """No text of a pod becomes part of a request; it is simply not there."""

    async def work(scene):
        volumes = [
            {"name": "v", "secret": {"secretName": "../../nodes"}},
            {"name": "w", "persistentVolumeClaim": {"claimName": "a/b"}},
        ]
        scene.objects.start()
        scene.pods.put(pod(volumes=volumes))
        await later(120)
        assert scene.server.asked == []
        row = scene.object("secret/ns/../../nodes")
        assert (row.found, row.error) == (False, "")
        assert scene.claim("claim/ns/a/b").error == 'persistentvolumeclaims "a/b" not found'
        scene.pods.remove("u1")
        assert scene.keys() == []

    on_stage(tmp_path, work)


def test_a_successor_takes_over_what_was_read(tmp_path):
    """Rows are valid until they are read again; those of pods that are gone are removed."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        gone = ObjectRow("secret", "ns", "gone", found=True)
        scene.process.put(OBJECTS, "secret/ns/gone", gone.to_wire())
        await scene.die()
        scene.pods.listed = False
        scene.server.faults[SECRETS] = away()
        scene.objects.start()
        await later(130)
        assert scene.object(KEY).data == {"key": b"value"}
        assert scene.object("secret/ns/gone"), "not all pods are known yet"
        scene.pods.listed = True
        await later(61)
        assert scene.keys() == [KEY]

    on_stage(tmp_path, work)


def test_get_reads_at_each_pod_and_each_sync(tmp_path, configured):
    """L-24, Get: at once for a new pod, then once a sync, and no watch."""

    async def work(scene):
        scene.server.put(S, secret("s", key="old"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(KEY).data == {"key": b"old"}
        scene.server.put(S, secret("s", version="2", key="new"))
        scene.pods.put(pod(uid="u2", **USES))
        await turns()
        assert scene.object(KEY).data == {"key": b"new"}
        assert scene.server.count("GET", S) == 2
        await later(67)
        assert scene.server.count("GET", S) == 3
        assert scene.process.puts[KEY] == 2
        assert scene.server.watches == []
        scene.pods.remove("u1")
        scene.pods.remove("u2")
        assert scene.keys() == []
        await later(600)
        assert scene.server.count("GET", S) == 3

    on_stage(tmp_path, work, **configured("Get"))


def test_cache_reads_when_the_nodes_ttl_is_over(tmp_path, configured):
    """L-24, Cache: the node's annotation says how long; a new pod has it read at once."""

    async def work(scene):
        scene.view.document = {"metadata": {"annotations": {TTL_ANNOTATION: "300"}}}
        scene.server.put(S, secret("s", key="old"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await later(299)
        assert scene.server.count("GET", S) == 1
        await later(40)
        assert scene.server.count("GET", S) == 2
        scene.pods.put(pod(uid="u2", **USES))
        await turns()
        assert scene.server.count("GET", S) == 3

    on_stage(tmp_path, work, **configured("Cache"))


def test_what_is_polled_and_missing_is_looked_for_soon(tmp_path, configured):
    """A pod waits for it: half a second, then ever more rarely."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(KEY).found is False
        scene.server.put(S, secret("s", key="value"))
        await later(0.51)
        assert scene.object(KEY).found
        scene.server.faults[S] = forbidden("s")
        await later(200)
        assert scene.object(KEY).data == {"key": b"value"}
        assert scene.object(KEY).error == str(forbidden("s"))

    on_stage(tmp_path, work, **configured("Get"))


def test_nothing_secret_is_logged(tmp_path, capfd):
    """No value of a secret or token is in any line, whatever goes wrong."""

    async def work(scene):
        odd = secret("s", key="PASSWORD")
        odd["data"]["odd"] = "PASSWORD*"
        scene.server.put(S, odd)
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.server.faults[SECRETS] = forbidden("s")
        scene.server.watches[0].told(forbidden("s"))
        await later(20)
        assert scene.object(KEY).data == {"key": b"PASSWORD"}

    on_stage(tmp_path, work)
    said = capfd.readouterr()
    assert "data[odd]" in said.err
    assert "PASSWORD" not in said.err + said.out
    assert "UEFTU1dPUkQ" not in said.err + said.out


def test_a_full_table_is_a_trouble_and_no_crash(tmp_path):
    """What does not fit is said; everything else goes on."""

    async def work(scene):
        from shm.errors import TableFull

        def full(*_):
            raise TableFull(OBJECTS, wanted=1, used=1, limit=1, why="it is full")

        scene.server.put(S, secret("s", key="value"))
        put, scene.process.put = scene.process.put, full
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(KEY) is None
        assert "full" in str(scene.told["objects of pods"])
        scene.process.put = put
        scene.server.put(S, secret("s", version="2", key="value"))
        assert scene.object(KEY).found
        assert scene.told["objects of pods"] is None

    on_stage(tmp_path, work)


def test_a_watch_that_goes_on_talking_after_its_end_is_not_heard(tmp_path):
    """Stopping takes a moment; what comes meanwhile must not bring a row back."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        (watch,) = scene.server.watches
        scene.pods.remove("u1")
        await asyncio.sleep(61)
        watch.watcher.changed(secret("s", version="9", key="late"))
        watch.watcher.listed([], "10")
        watch.watcher.deleted(secret("s"))
        watch.told(forbidden())
        await later(61)
        assert scene.keys() == []
        assert scene.server.watches == []

    on_stage(tmp_path, work)
