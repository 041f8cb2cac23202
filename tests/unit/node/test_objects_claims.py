"""Claims of pods and the volumes that they are bound to."""

from __future__ import annotations

import json

from objects_scene import away, forbidden, later, on_stage, pod, turns

CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/data"
VOLUME = "/api/v1/persistentvolumes/pv-1"
KEY = "claim/ns/data"
USES = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}


def claim(phase="Bound", version="1"):
    metadata = {"name": "data", "resourceVersion": version, "managedFields": [{"manager": "x"}]}
    return {"metadata": metadata, "spec": {"volumeName": "pv-1"}, "status": {"phase": phase}}


PV = {"metadata": {"name": "pv-1"}, "spec": {"hostPath": {"path": "/data"}}}


def test_a_bound_claim_is_read_with_its_volume(tmp_path):
    """Two reads, and both are in the row, as JSON without the notes on who changed what."""

    async def work(scene):
        scene.server.objects |= {CLAIM: claim(), VOLUME: PV}
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        row = scene.claim(KEY)
        assert json.loads(row.claim)["metadata"] == {"name": "data", "resourceVersion": "1"}
        assert json.loads(row.volume) == PV
        assert row.error == ""
        await later(200)
        assert scene.process.puts[KEY] == 1
        assert 2 <= scene.server.count("GET", CLAIM) <= 5, "about once a sync: a volume may grow"
        scene.pods.remove("u1")
        assert scene.keys() == []

    on_stage(tmp_path, work)


def test_an_unbound_claim_is_read_until_it_is_bound(tmp_path):
    """It is there without a volume, and is looked at again soon."""

    async def work(scene):
        scene.server.objects |= {CLAIM: claim("Pending"), VOLUME: PV}
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        row = scene.claim(KEY)
        assert (json.loads(row.claim)["status"], row.volume) == ({"phase": "Pending"}, b"")
        scene.server.objects[CLAIM] = claim(version="2")
        await later(0.21)
        assert json.loads(scene.claim(KEY).volume) == PV

    on_stage(tmp_path, work)


def test_a_claim_that_is_not_there_says_so_until_it_comes(tmp_path):
    """The API server's own words; an ephemeral volume's claim may come after its pod."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.claim(KEY).error == 'persistentvolumeclaims "data" not found'
        await later(60)
        assert scene.server.count("GET", CLAIM) < 20
        scene.server.objects |= {CLAIM: claim(), VOLUME: PV}
        await later(5.1)
        assert scene.claim(KEY).error == ""
        assert scene.claim(KEY).volume

    on_stage(tmp_path, work)


def test_a_refusal_is_believed_after_some_seconds(tmp_path):
    """The authorizer learns of claim and volume after the binding of the pod."""

    async def work(scene):
        scene.server.objects |= {CLAIM: claim(), VOLUME: PV}
        scene.server.faults[VOLUME] = forbidden("pv")
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await later(4)
        assert scene.claim(KEY) is None
        await later(4)
        assert scene.claim(KEY).error == str(forbidden("pv"))
        assert scene.claim(KEY).claim
        del scene.server.faults[VOLUME]
        await later(31)
        assert (scene.claim(KEY).error, json.loads(scene.claim(KEY).volume)) == ("", PV)

    on_stage(tmp_path, work)


def test_what_was_read_of_a_claim_holds_while_the_server_is_away(tmp_path):
    """An outage takes no volume away; neither does a refusal, which is said."""

    async def work(scene):
        scene.server.objects |= {CLAIM: claim(), VOLUME: PV}
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.server.faults[CLAIM] = away()
        await later(300)
        assert scene.process.puts[KEY] == 1
        scene.server.faults[CLAIM] = forbidden("data")
        await later(300)
        row = scene.claim(KEY)
        assert (row.error, json.loads(row.volume)) == (str(forbidden("data")), PV)

    on_stage(tmp_path, work)
