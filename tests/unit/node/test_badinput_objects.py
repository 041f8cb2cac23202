"""Objects of pods that the API server does not give, and what is said of that."""

from __future__ import annotations

import pytest
from objects_scene import away, forbidden, later, on_stage, pod, secret, turns

from procs.node.apiserver.types import ApiError

S, KEY = "/api/v1/namespaces/ns/secrets/s", "secret/ns/s"
SECRETS = "/api/v1/namespaces/ns/secrets"
MAPS = "/api/v1/namespaces/ns/configmaps"
WHAT = "objects of pods"
USES = {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}
USES_TWO = {"volumes": [*USES["volumes"], {"name": "m", "configMap": {"name": "m"}}]}


@pytest.mark.parametrize(
    "error",
    [
        forbidden("s"),
        ApiError("who are you", status=401, reason="Unauthorized"),
        ApiError("the store is ill", status=500, reason="InternalError"),
    ],
)
def test_what_is_refused_is_a_trouble_until_it_is_given(tmp_path, error):
    """Which object, and the server's own words; nothing of it is left when it comes."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.server.faults[SECRETS] = error
        scene.objects.start()
        scene.pods.put(pod(**USES))
        for _ in range(20):
            for watch in list(scene.server.watches):
                watch.told(error)
            await later(1)
        assert scene.told[WHAT] == f"{KEY}: {error}"
        del scene.server.faults[SECRETS]
        for watch in list(scene.server.watches):
            watch.told(None)
            watch.watcher.listed([secret("s", key="value")], "7")
        await later(31)
        assert scene.object(KEY).found
        assert scene.told[WHAT] is None

    on_stage(tmp_path, work)


def test_a_server_that_is_away_is_said_elsewhere(tmp_path):
    """One sentence for all of it, which is not said for each object."""

    async def work(scene):
        scene.server.faults[SECRETS] = away()
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        for _ in range(3):
            scene.server.watches[0].told(away())
            await later(10)
        assert scene.object(KEY).error
        assert WHAT not in scene.told

    on_stage(tmp_path, work)


def test_several_are_one_sentence(tmp_path):
    """The first by name, and how many more; with its pod, each is forgotten."""

    async def work(scene):
        scene.server.faults |= {SECRETS: forbidden("s"), MAPS: forbidden("m")}
        scene.objects.start()
        scene.pods.put(pod(**USES_TWO))
        await later(20)
        assert scene.told[WHAT] == f"configmap/ns/m: {forbidden('m')} (and 1 more objects)"
        scene.pods.remove("u1")
        await turns()
        assert scene.told[WHAT] is None
        assert scene.keys() == []

    on_stage(tmp_path, work)


def test_what_is_kept_for_nobody_and_refused_is_let_go(tmp_path):
    """A node may not read what no pod of it refers to: that is no trouble, and no more calls."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.pods.remove("u1")
        await turns()
        assert scene.keys() == [KEY]  # another pod may come for it
        scene.server.faults[SECRETS] = forbidden("s")
        scene.server.watches[0].told(forbidden("s"))
        await later(10)
        assert scene.keys() == []
        assert scene.server.watches == []
        assert WHAT not in scene.told
        del scene.server.faults[SECRETS]
        scene.pods.put(pod(**USES))
        await turns()
        assert scene.object(KEY).found
        await later(100)  # no timer of the time before is left
        assert scene.object(KEY).found

    on_stage(tmp_path, work)


def test_a_pod_that_comes_in_the_same_moment_keeps_it(tmp_path):
    """What is about to be let go is not, when somebody needs it again."""

    async def work(scene):
        scene.server.put(S, secret("s", key="value"))
        scene.objects.start()
        scene.pods.put(pod(**USES))
        await turns()
        scene.pods.remove("u1")
        await turns()
        assert scene.objects._let_go(KEY)
        scene.pods.put(pod("u2", **USES))
        await turns()
        assert scene.object(KEY).found
        assert not scene.objects._let_go(KEY)

    on_stage(tmp_path, work)
