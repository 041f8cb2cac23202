"""Service account tokens of pods (L-26, T-12)."""

from __future__ import annotations

import pytest
from objects_scene import NS, WALL, away, forbidden, later, on_stage, pod, turns

from kubelet.cluster.rows import token_key
from procs.node.apiserver.types import ApiError

PATH = "/api/v1/namespaces/ns/serviceaccounts/robot/token"


def uses(*tokens):
    sources = [{"serviceAccountToken": token} for token in tokens]
    volumes = [{"name": "t", "projected": {"sources": sources}}]
    return {"serviceAccountName": "robot", "volumes": volumes}


HOUR = uses({"path": "token"})
KEY = token_key("u1", "", 3600)


def test_a_token_is_asked_for_at_once_and_kept(tmp_path):
    """One request for each pod, audience and life time, bound to the pod."""

    async def work(scene):
        scene.objects.start()
        vault = {"path": "v", "audience": "vault", "expirationSeconds": 600}
        scene.pods.put(pod(**uses({"path": "token"}, {"path": "two"}, vault)))
        await turns()
        assert scene.server.count("POST", PATH) == 2
        row = scene.token(KEY)
        assert row.token.startswith("token-")
        assert (row.pod_uid, row.account, row.audience, row.seconds) == ("u1", "robot", "", 3600)
        assert (row.issued_ns, row.expires_ns) == (WALL, WALL + 3600 * NS)
        assert scene.token(token_key("u1", "vault", 600)).expires_ns == WALL + 600 * NS
        scene.pods.remove("u1")
        assert scene.keys() == []
        await later(7200)
        assert scene.server.count("POST", PATH) == 2

    on_stage(tmp_path, work)


def test_a_token_is_replaced_before_it_ends(tmp_path):
    """L-26: after 80 % of its life, up to 10 s sooner."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await later(2869)
        assert scene.token(KEY).token == "token-1"
        await later(12)
        assert scene.token(KEY).token == "token-2"
        await later(2881)
        assert scene.token(KEY).token == "token-3"
        assert scene.server.count("POST", PATH) == 3

    on_stage(tmp_path, work)


def test_a_long_token_is_replaced_after_a_day(tmp_path):
    """L-26, T-12: never older than 24 h."""

    async def work(scene):
        scene.server.life = 30 * 86400
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await later(86400 - 11)
        assert scene.server.count("POST", PATH) == 1
        await later(12)
        assert scene.server.count("POST", PATH) == 2

    on_stage(tmp_path, work, seconds=90_000)


def test_a_token_that_lives_a_moment_is_not_asked_for_all_the_time(tmp_path):
    """A server that gives a second's life does not get a storm for it."""

    async def work(scene):
        scene.server.life = 1
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await later(60)
        assert scene.server.count("POST", PATH) <= 62

    on_stage(tmp_path, work)


def test_a_token_is_served_until_it_expires_when_none_can_be_had(tmp_path):
    """L-26: refreshing fails; the old one is served to its end, and only then there is an error."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await turns()
        scene.server.faults[PATH] = ApiError("etcdserver: request timed out", status=500)
        await later(3599)
        assert scene.token(KEY).token == "token-1"
        assert scene.process.puts[KEY] == 1
        asked = scene.server.count("POST", PATH)
        assert 5 < asked < 60
        await later(31)
        row = scene.token(KEY)
        assert row.token == ""
        assert row.error == "failed to fetch token: etcdserver: request timed out"
        del scene.server.faults[PATH]
        await later(40)
        assert (scene.token(KEY).token, scene.token(KEY).error) == ("token-2", "")

    on_stage(tmp_path, work)


@pytest.mark.parametrize(
    ("error", "at_once"),
    [
        (ApiError('serviceaccounts "robot" not found', status=404), True),
        (forbidden(), False),
        (away(), False),
        (ApiError("too many requests", status=429, retry_after=1), False),
    ],
)
def test_a_token_that_was_never_had_says_why(tmp_path, error, at_once):
    """An account that is not there is said at once; what may pass, after a few seconds."""

    async def work(scene):
        scene.server.faults[PATH] = error
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await turns()
        assert (scene.token(KEY) is not None) is at_once
        await later(20)
        row = scene.token(KEY)
        assert (row.token, row.error) == ("", f"failed to fetch token: {error}")
        assert scene.process.puts[KEY] == 1
        del scene.server.faults[PATH]
        await later(40)
        assert scene.token(KEY).token == "token-1"

    on_stage(tmp_path, work)


def test_a_refusal_right_after_binding_costs_a_moment(tmp_path):
    """The authorizer lags behind the binding: no error is ever said."""

    async def work(scene):
        scene.server.faults[PATH] = [forbidden(), forbidden()]
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await later(0.2)
        assert scene.token(KEY).token == "token-1"
        assert scene.process.puts[KEY] == 1

    on_stage(tmp_path, work)


def test_a_successor_asks_for_no_token_that_is_still_fresh(tmp_path):
    """Its predecessor's is taken over, and replaced when its time has come."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await turns()
        await scene.die()
        scene.jump_ns = 1000 * NS
        scene.objects.start()
        await later(60)
        assert scene.server.count("POST", PATH) == 1
        assert scene.token(KEY).token == "token-1"
        await later(1900)
        assert scene.token(KEY).token == "token-2"

    on_stage(tmp_path, work)


def test_a_clock_that_was_set_back_makes_no_token_eternal(tmp_path):
    """A token from the future is replaced at once."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await turns()
        await scene.die()
        scene.jump_ns = -86400 * NS
        scene.objects.start()
        await turns()
        assert scene.token(KEY).token == "token-2"

    on_stage(tmp_path, work)


def test_an_account_that_cannot_be_is_never_asked_for(tmp_path):
    """No text of a pod becomes part of a request."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(pod(**{**HOUR, "serviceAccountName": "../x"}))
        await later(60)
        assert scene.server.asked == []
        assert scene.token(KEY).error == 'failed to fetch token: serviceaccounts "../x" not found'

    on_stage(tmp_path, work)


def test_an_answer_without_a_token_is_a_failure(tmp_path):
    """Garbage is said and asked for again."""

    async def work(scene):
        async def create(path, body, **_more):
            scene.server.asked.append(("POST", path, body))
            return {"status": {"token": None}}

        scene.server.create = create
        scene.objects.start()
        scene.pods.put(pod(**HOUR))
        await later(60)
        assert "has no token" in scene.token(KEY).error
        assert 3 < scene.server.count("POST", PATH) < 12

    on_stage(tmp_path, work)
