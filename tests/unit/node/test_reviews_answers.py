"""Token and access reviews: what is asked, what is answered, what is kept (H-40)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from types import SimpleNamespace

import pytest

from kubelet.channels.messages import AccessReviewed, ReviewAccess, ReviewToken, TokenReviewed
from procs.node.apiserver.client import Client
from procs.node.apiserver.limiter import Limits
from procs.node.kit import Kit
from procs.node.reviews import ACCESS, KEPT, NO_API, TOKENS, Answers, Reviews, Standalone
from tests.unit.node.events_scene import Standing
from tests.unit.node.loopback import Time, answer, hang_up, refusal, serving, story

ALICE = {
    "authenticated": True,
    "user": {
        "username": "alice",
        "uid": "7",
        "groups": ["a", "b"],
        "extra": {"k": ["v"], "odd": 3},
    },
}


def token(**status):
    return answer({"kind": "TokenReview", "status": status})


def access(**status):
    return answer({"kind": "SubjectAccessReview", "status": status})


class Scene:
    """The process, as whoever serves asks it."""

    def __init__(self, process, server, transport):
        self.process = process
        self.server = server
        self.time = Time()
        client = Client(transport, Limits(), self.time, sleep=self.time.sleep)
        kit = Kit(process, client, None, None, None, None, None, clock=self.time)
        kit.random = random.Random(1)
        Reviews(kit, self.time.sleep).start()

    async def ask(self, message, seconds=0.1):
        deadline = self.time.now_ns + int(seconds * 1e9)
        caller = SimpleNamespace(kind="api", uid=0, pid=1, deadline_ns=deadline)
        return await self.process.channels.ask(message, caller)


def run(tmp_path, script, work, *flags):
    async def go():
        process = Standing(tmp_path, "--kubeconfig=/k", *flags)
        async with serving(*script) as (server, transport):
            with contextlib.closing(process.tables):
                return await work(Scene(process, server, transport))

    return story(go())


def test_a_token_is_reviewed_once_while_the_answer_holds(tmp_path):
    """The answer is kept for cacheTTL, and then asked for again."""

    async def work(s):
        found = [await s.ask(ReviewToken("t", ("x",))), await s.ask(ReviewToken("t", ("x",)))]
        s.time.pass_(119)
        found.append(await s.ask(ReviewToken("t", ("x",))))
        s.time.pass_(2)
        found.append(await s.ask(ReviewToken("t", ("x",))))
        return found, s.server.asked

    status = {**ALICE, "audiences": ["x", "y"]}
    found, asked = run(tmp_path, [token(**status), token(authenticated=False)], work)
    alice = TokenReviewed(True, "alice", "7", ("a", "b"), {"k": ("v",), "odd": ()})
    assert found == [alice, alice, alice, TokenReviewed(False)]
    assert [a.path for a in asked] == [TOKENS, TOKENS]
    assert asked[0].json == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t", "audiences": ["x"]},
    }


def test_the_time_comes_from_the_configuration(tmp_path):
    """Each of the three times is what the configuration says."""
    flags = [
        "--authentication-token-webhook-cache-ttl=10s",
        "--authorization-webhook-cache-authorized-ttl=20s",
        "--authorization-webhook-cache-unauthorized-ttl=30s",
    ]
    yes, no = ReviewAccess("u", "get"), ReviewAccess("u", "delete")

    async def work(s):
        for message in (ReviewToken("t"), yes, no):
            await s.ask(message)
        counts = []
        for _ in range(4):
            s.time.pass_(9)
            for message in (ReviewToken("t"), yes, no):
                await s.ask(message)
            counts.append(len(s.server.asked))
        return counts

    first = [token(**ALICE), access(allowed=True), access(allowed=False)]
    script = [*first, token(**ALICE), access(allowed=True), token(**ALICE), access(allowed=False)]
    # Asked again: at 18 s the token, at 27 s yes, at 36 s the token and no.
    assert run(tmp_path, script, work, *flags) == [3, 4, 5, 7]


@pytest.mark.parametrize(
    ("status", "audiences", "found"),
    [
        ({}, (), TokenReviewed(False)),
        ({"authenticated": False}, (), TokenReviewed(False)),
        ({"authenticated": "true", "user": ALICE["user"]}, (), TokenReviewed(False)),
        ({"authenticated": True}, (), "the answer has no status.user.username"),
        ({"authenticated": True, "user": {"username": 7}}, (), "no status.user.username"),
        ({"authenticated": True, "user": [], "error": "bad\nsign"}, (), "bad\\nsign"),
        (ALICE, ("x",), "not for the audience"),
        ({**ALICE, "audiences": ["y"]}, ("x",), "not for the audience"),
    ],
)
def test_odd_answers_let_nobody_in(tmp_path, status, audiences, found):
    """Whatever is missing or odd, nobody is authenticated by it; what is an error is not kept."""

    async def work(s):
        request = ReviewToken("t", audiences)
        first = await s.ask(request)
        assert await s.ask(request) == first
        return first, len(s.server.asked)

    answered, asked = run(tmp_path, [token(**status)] * 2, work)
    assert not answered.authenticated
    if isinstance(found, str):
        assert found in answered.error
        assert asked == 2
    else:
        assert (answered, asked) == (found, 1)


@pytest.mark.parametrize("body", [[], {"status": 7}, {}])
def test_odd_documents_let_nobody_in(tmp_path, body):
    """An answer that is no review allows nothing."""

    async def work(s):
        return await s.ask(ReviewToken("t")), await s.ask(ReviewAccess("u", "get"))

    found = run(tmp_path, [answer(body)] * 2, work)
    assert (found[0].authenticated, found[1].allowed) == (False, False)


@pytest.mark.parametrize(
    ("request_", "spec"),
    [
        (
            ReviewAccess("u", "get", "proxy", groups=("g",), uid="7", extra={"k": ("v",)}),
            {
                "user": "u",
                "uid": "7",
                "groups": ["g"],
                "extra": {"k": ["v"]},
                "resourceAttributes": {
                    "verb": "get",
                    "version": "v1",
                    "resource": "nodes",
                    "subresource": "proxy",
                    "name": "n1",
                },
            },
        ),
        (
            ReviewAccess("u", "get", path="/healthz"),
            {"user": "u", "nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
        ),
    ],
)
def test_what_is_asked_about_an_access(tmp_path, request_, spec):
    """It is about this node and what is below it, or about a path."""

    async def work(s):
        assert await s.ask(request_) == AccessReviewed(True, reason="RBAC")
        return s.server.asked

    (asked,) = run(tmp_path, [access(allowed=True, reason="RBAC")], work)
    assert asked.path == ACCESS
    assert asked.json == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"allowed": True}, AccessReviewed(True)),
        ({"allowed": True, "denied": True}, AccessReviewed(False, True)),
        ({"allowed": False, "denied": True, "reason": "no"}, AccessReviewed(False, True, "no")),
        ({"allowed": 1}, AccessReviewed(False)),
        ({"evaluationError": "role gone"}, AccessReviewed(False, reason="role gone")),
    ],
)
def test_what_an_answer_means(tmp_path, status, found):
    """Only a plain yes is one; a no is kept too, for its own time."""

    async def work(s):
        first = await s.ask(ReviewAccess("u", "get"))
        return first, await s.ask(ReviewAccess("u", "get")), len(s.server.asked)

    assert run(tmp_path, [access(**status)], work) == (found, found, 1)


def test_different_questions_have_different_answers(tmp_path):
    """Each part of a question counts."""
    questions = [
        ReviewAccess("u", "get"),
        ReviewAccess("u2", "get"),
        ReviewAccess("u", "create"),
        ReviewAccess("u", "get", "log"),
        ReviewAccess("u", "get", path="/x"),
        ReviewAccess("u", "get", uid="1"),
        ReviewAccess("u", "get", groups=("g",)),
        ReviewAccess("u", "get", extra={"a": ("b",)}),
    ]

    async def work(s):
        for question in questions:
            await s.ask(question)
        return len(s.server.asked)

    assert run(tmp_path, [access(allowed=True)] * 8, work) == 8


@pytest.mark.parametrize(
    "step", [hang_up, refusal(403, "Forbidden", "not you"), refusal(500, "InternalError", "oh")]
)
def test_a_failure_is_said_and_not_kept(tmp_path, step):
    """What could not be found out is an error in words, and is asked again."""

    async def work(s):
        failed = await s.ask(ReviewToken("t")), await s.ask(ReviewAccess("u", "get"))
        again = await s.ask(ReviewToken("t")), await s.ask(ReviewAccess("u", "get"))
        return failed, again

    failed, again = run(tmp_path, [step, step, token(**ALICE), access(allowed=True)], work)
    assert [bool(f.error) for f in failed] == [True, True]
    assert (failed[0].authenticated, failed[1].allowed) == (False, False)
    assert (again[0].authenticated, again[1].allowed) == (True, True)


def test_what_may_pass_is_asked_again_while_the_asker_waits(tmp_path):
    """A server that is restarting does not cost a request, if there is time."""

    async def work(s):
        return await s.ask(ReviewToken("t"), seconds=5)

    assert run(tmp_path, [hang_up, hang_up, token(**ALICE)], work).authenticated


def test_one_question_is_asked_once_at_a_time(tmp_path):
    """Many connections with one token are one review."""

    async def work(s):
        asks = [asyncio.create_task(s.ask(ReviewToken("t"))) for _ in range(5)]
        found = await asyncio.gather(*asks)
        return {f.user for f in found}, len(s.server.asked)

    assert run(tmp_path, [token(**ALICE)], work) == ({"alice"}, 1)


def test_a_token_is_in_no_memory_afterwards(tmp_path):
    """What is kept is found by a hash; the token itself is gone with its call."""
    secret = "very-secret-token"

    async def work(s):
        await s.ask(ReviewToken(secret))
        return s.process.channels.handlers[ReviewToken].__self__

    reviews = run(tmp_path, [token(**ALICE)], work)
    assert reviews._tokens._kept
    assert secret not in repr(reviews._tokens.__dict__)


def test_answers_are_bounded():
    """The oldest go when there are too many; one that holds for no time is not kept."""

    async def go():
        time, asked = Time(), []
        answers = Answers(time, limit=3)

        async def get(key, seconds=60.0):
            async def ask():
                asked.append(key)
                return AccessReviewed(True), seconds

            await answers.get(key, ask)

        for key in (b"a", b"b", b"c", b"a", b"d", b"a", b"b"):
            await get(key)
        await get(b"e", 0)
        await get(b"e", 0)
        return asked

    assert story(go()) == [b"a", b"b", b"c", b"d", b"b", b"e", b"e"]
    assert KEPT >= 1000


def test_standalone_says_why(tmp_path):
    """Without an API server there is nobody to ask, and that is said (C-8)."""

    async def go():
        process = Standing(tmp_path)
        with contextlib.closing(process.tables):
            Standalone(process).start()
            return (
                await process.channels.ask(ReviewToken("t")),
                await process.channels.ask(ReviewAccess("u", "get")),
            )

    assert story(go()) == (
        TokenReviewed(False, error=NO_API),
        AccessReviewed(False, error=NO_API),
    )
