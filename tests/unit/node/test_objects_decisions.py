"""How often objects are read, and when a token is replaced: pure decisions (L-24, L-26, T-12)."""

from __future__ import annotations

import pytest
from objects_scene import NS, WALL, away, forbidden

from kubelet.cluster.names import possible
from procs.node.apiserver.types import ApiError
from procs.node.objects import patience
from procs.node.objects.claims import bound_to, unbound_seconds
from procs.node.objects.content import row_of
from procs.node.objects.patience import Tries
from procs.node.objects.references import ObjectReference, TokenReference
from procs.node.objects.strategy import Settings, Strategy, ttl_seconds
from procs.node.objects.tokens import Life, answer_of, refresh_at, request_of

HOUR = 3600 * NS


@pytest.mark.parametrize(
    ("life", "jitter", "due"),
    [
        (HOUR, 0, HOUR * 80 // 100),
        (HOUR, 10 * NS, HOUR * 80 // 100 - 10 * NS),
        (600 * NS, 0, 480 * NS),
        (48 * HOUR, 0, 24 * HOUR),  # the older of the two rules
        (48 * HOUR, 5 * NS, 24 * HOUR - 5 * NS),
        (8760 * HOUR, 10 * NS, 24 * HOUR - 10 * NS),
        (10 * NS, 10 * NS, 6 * NS),  # a life so short that the jitter would eat it up
        (0, 10 * NS, 0),
    ],
)
def test_a_token_is_replaced_after_four_fifths_of_its_life_or_a_day(life, jitter, due):
    """L-26, T-12: 80 % of the TTL or 24 h, up to 10 s sooner."""
    assert refresh_at(Life(WALL, WALL + life), jitter) == WALL + due


REFERENCE = TokenReference("u1", "web", "ns", "robot", "vault", 600)


def test_a_token_is_asked_for_its_pod_alone():
    """L-26: bound to the pod's name and UID, for one audience, as long as the pod says."""
    spec = request_of(REFERENCE)["spec"]
    assert spec["audiences"] == ["vault"]
    assert spec["expirationSeconds"] == 600
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}
    assert spec["boundObjectRef"] == bound
    plain = TokenReference("u1", "web", "ns", "robot", "", 600)
    assert request_of(plain)["spec"]["audiences"] == []


ANSWERS = [
    ({"status": {"token": "t"}, "spec": {"expirationSeconds": 3607}}, 3607),
    ({"status": {"token": "t"}, "spec": {"expirationSeconds": "x"}}, 600),
    ({"status": {"token": "t", "expirationTimestamp": "2023-11-14T22:14:20Z"}}, 60),
    ({"status": {"token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z"}}, 600),
    ({"status": {"token": "t", "expirationTimestamp": "tomorrow"}}, 600),
    ({"status": {"token": "t"}}, 600),
    ({"status": {"token": ""}}, None),
    ({"status": {"token": 7}}, None),
    ({"status": "odd"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("answer", "seconds"), ANSWERS, ids=str)
def test_a_token_lives_by_our_own_clock(answer, seconds):
    """A server whose clock differs makes no token look spent; an odd answer has none."""
    found = answer_of(answer, 600, WALL)
    if seconds is None:
        assert found is None
    else:
        assert found == ("t", Life(WALL, WALL + seconds * NS))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("15", 15), ("300", 300), ("-1", 60), ("soon", 60), (None, 60), (5, 60)],
)
def test_the_node_says_how_long_something_read_is_true(text, seconds):
    """L-24: annotation node.alpha.kubernetes.io/ttl, a minute where it is missing or odd."""
    annotations = {} if text is None else {"node.alpha.kubernetes.io/ttl": text}
    assert ttl_seconds({"metadata": {"annotations": annotations}}) == seconds


def test_without_a_node_object_a_minute_is_true():
    """The default holds before the node was ever seen, and for odd objects."""
    assert [ttl_seconds(odd) for odd in (None, {}, {"metadata": []})] == [60, 60, 60]


def test_how_often_objects_are_read():
    """L-24: Get at each sync, Cache no sooner than the TTL; what is watched lingers."""
    node = {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "300"}}}
    assert Settings(Strategy.GET, 60).period(node) == 60
    assert Settings(Strategy.CACHE, 60).period(node) == 300
    assert Settings(Strategy.CACHE, 60).period({}) == 60
    assert Settings(Strategy.WATCH, 10).linger_seconds == 60
    assert Settings(Strategy.WATCH, 90).linger_seconds == 90


def test_a_refusal_is_not_believed_at_once():
    """The API server hears of a new pod's binding late: 50 ms doubling, an error after 5 s."""
    tries, now, delays = Tries(), 0, []
    while not patience.counts(tries.failed(now), forbidden(), now):
        tries = tries.failed(now)
        delays.append(patience.delay(tries, forbidden()))
        now += int(delays[-1] * NS)
    assert delays == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert patience.delay(Tries(1000), forbidden()) == 30.0


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (ApiError("no", status=404), True),
        (ApiError('pod "web" not found', status=404, details={"kind": "pod"}), False),
        (ApiError("no", status=404, details={"kind": "serviceaccounts"}), True),
        (ApiError("no", status=400), True),
        (forbidden(), False),
        (ApiError("no", status=401), False),
        (ApiError("no", status=429), False),
        (ApiError("no", status=500), False),
        (away(), False),
    ],
)
def test_what_may_pass_is_waited_for(error, counted):
    """A first failure is shown only where another try cannot help."""
    assert patience.counts(Tries().failed(7), error, 7) is counted


@pytest.mark.parametrize(("asked", "seconds"), [(None, 0.5), (3.0, 3.0), (86400.0, 60.0)])
def test_the_servers_wish_is_obeyed_within_reason(asked, seconds):
    """429 with Retry-After: not sooner, but not tomorrow either."""
    error = ApiError("no", status=429, retry_after=asked)
    assert patience.delay(Tries().failed(0), error) == seconds


def test_an_unbound_claim_is_read_more_and_more_rarely():
    """0.2 s doubling to 5 s."""
    assert [unbound_seconds(n) for n in (1, 2, 3, 100)] == [0.2, 0.4, 0.8, 5.0]


@pytest.mark.parametrize(
    ("claim", "volume"),
    [
        ({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}, "pv"),
        ({"spec": {"volumeName": "pv"}, "status": {"phase": "Pending"}}, ""),
        ({"spec": {}, "status": {"phase": "Bound"}}, ""),
        ({"spec": {"volumeName": "../nodes/x"}, "status": {"phase": "Bound"}}, ""),
        ({"spec": {"volumeName": 5}, "status": {"phase": "Bound"}}, ""),
        ({"spec": [], "status": None}, ""),
    ],
)
def test_what_a_claim_is_bound_to(claim, volume):
    """Only a bound claim has a volume, and an odd name is never asked for."""
    assert bound_to(claim) == volume


@pytest.mark.parametrize("name", ["a", "a.b-c", "0", "kube-root-ca.crt", "a" * 253])
def test_names_that_can_be(name):
    """DNS subdomains."""
    assert possible(name)


@pytest.mark.parametrize("name", ["", "A", "a/b", "../x", "a,b=c", "a b", "-a", "a.", "a" * 254])
def test_names_that_cannot_be(name):
    """A pod may refer to any text; it does not become part of a request."""
    assert not possible(name)


def test_odd_objects_lose_what_is_odd_in_them():
    """Bad base64, wrong types and unknown fields cost that key and no more."""
    data = {"good": "eA==", "bad": "***", "number": 5, "empty": "", "none": None}
    item = {"metadata": {"name": "s", "resourceVersion": "7"}, "data": data, "new": {}}
    row = row_of(ObjectReference("secret", "ns", "s"), item, 5)
    assert row.found
    assert row.version == "7"
    assert row.data == {"good": b"x", "empty": b"", "none": b""}
    for odd in ({}, {"metadata": "x", "data": []}, {"data": "x", "binaryData": 7}):
        for kind in ("secret", "configmap"):
            assert row_of(ObjectReference(kind, "ns", "s"), odd, 5).data == {}


def test_a_config_map_has_texts_and_binary_data():
    """Both are data of the row; what is binary is said."""
    item = {"data": {"t": "grün", "n": 1}, "binaryData": {"b": "/w=="}}
    row = row_of(ObjectReference("configmap", "ns", "s"), item, 5)
    assert row.data == {"t": "grün".encode(), "b": b"\xff"}
    assert row.binary == ("b",)
