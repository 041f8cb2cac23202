"""An API server that refuses, hangs, cuts, lies and errs; and credentials that are none.

Whatever it is: no process of the kubelet ends over it, it is said what is wrong, it is not asked
like mad, a pod that runs is left alone, and all is well by itself as soon as the cause is gone.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import time
from email.utils import formatdate, parsedate_to_datetime
from types import SimpleNamespace

import pytest

from tests.cluster.admin import TERMINATED
from tests.cluster.bad_scene import (
    ODD,
    WITNESS,
    assert_shown,
    await_row,
    await_trouble,
    await_well,
    beats,
    endings,
    gaps,
    life_of,
    numbers,
    odd,
    row,
    run_one,
)
from tests.cluster.cluster_node import OURS, cluster_node, processes_of
from tests.cluster.fixtures import make_namespace
from tests.cluster.meddler import Answer, Change, Cut, Hold, Words, meddler
from tests.cluster.pki import Authority, write_kubeconfig
from tests.node.pod_node import PAUSE, SECONDS, SLEEP
from tests.node.shared import container_of, pod
from tests.processes.node import wait_for

NAME = "bad-input"
HOME = "bad-input"  # the namespace of the pod that runs through all of it
CONFIG = {
    # Heartbeats come each other second, and with them what is wrong with them.
    "nodeLeaseDurationSeconds": 8,
    "nodeStatusUpdateFrequency": "2s",
    "nodeStatusReportFrequency": "2s",
    "syncFrequency": "1s",
}
PODS, NODES, LEASES = r"^/api/v1/pods\?", r"^/api/v1/nodes", r"/leases/"
POD_STATUS, EVENTS = r"/pods/[^/]+/status$", r"/events"
TOKENS = r"/serviceaccounts/[^/]+/token$"
EVERYTHING = ""
NO = "meddler says no"
ACCOUNT = "robot"

# A node behind a meddler.


@pytest.fixture(scope="module")
def between(plane):
    """What is between the kubelet and its API server."""
    with meddler(plane, NAME) as made:
        yield made


@pytest.fixture(scope="module")
def login(plane, between):
    """The kubeconfig of the node, and how to write it."""
    pair = plane.authority.issue(NAME, f"system:node:{NAME}", "system:nodes")
    path = plane.directory / f"{NAME}.kubeconfig"

    def write(ca=plane.ca):
        new = write_kubeconfig(
            path.with_suffix(".new"),
            between.url,
            ca,
            client_certificate=str(pair.certificate),
            client_key=str(pair.key),
        )
        new.rename(path)

    write()
    return SimpleNamespace(path=path, pair=pair, write=write)


@pytest.fixture(scope="module")
def shared_cluster_node(plane, login, shared_containerd, root):
    """The node, and a pod on it whose life is not to be touched."""
    options = {"kind": OURS, "kubeconfig": login.path, "config": CONFIG}
    with cluster_node(plane, shared_containerd, root, NAME, **options) as made:
        made.start()
        made.namespace = HOME
        make_namespace(plane, HOME)
        made.create(pod(WITNESS))
        made.await_pod_ready(WITNESS)
        yield made
        made.clear()
        made.admin.delete(f"/api/v1/namespaces/{HOME}")


@pytest.fixture
def node(shared_cluster_node):
    """The node, with a namespace of the test's own; nothing is harmed at the end."""
    node = shared_cluster_node
    node.namespace = HOME
    witness, ends = life_of(node), endings(node)
    node.namespace = f"bad{next(numbers)}"
    make_namespace(node.plane, node.namespace)
    yield node
    await_well(node)
    for made in node.admin.get(node.pods_path)["items"]:
        node.delete(made["metadata"]["name"], gracePeriodSeconds=1)
    node.await_pods("all are gone", lambda pods: not pods)
    node.admin.delete(f"/api/v1/namespaces/{node.namespace}")
    node.namespace = HOME
    assert life_of(node) == witness
    assert endings(node) == ends
    assert "Process crashed" not in node.kubelet.log()


# Watches.

BROKEN = {
    "half a frame": Cut(),
    "no JSON": Words(b'{"type":"ADDED","object":\x00}\n'),
    "no object": Words(b"[1]\n"),
    "no pod": Words(b'{"type":"ADDED"}\n{"type":7,"object":{}}\n'),
}


def test_watches_break(node, between):
    """What a broken watch did not bring comes with the next one: pods run and end."""
    names = []
    for deed in BROKEN.values():
        with between.rule("GET", PODS, deed, times=1) as rule:
            names.append(run_one(node))
            wait_for("it is broken", lambda rule=rule: rule.hits, SECONDS, PAUSE)
    for name in names:
        node.await_phase(name, "Succeeded")


# Credentials.


def test_a_wrong_ca(node, between, login, tmp_path):
    """Another CA in the kubeconfig: its file is named, and the right one is taken when it comes."""
    began = time.monotonic()
    login.write(Authority(tmp_path, "stranger").pair.certificate)
    try:
        named = f"is not signed by the CA in {tmp_path}/stranger.crt"
        await_row(node, "it is not trusted", lambda r: not r.connected and named in r.error)
        assert_shown(node, "cannot be reached", named)
        await_row(node, "the lease is missed", lambda r: "lease" in {t.what for t in r.troubles})
        seconds = time.monotonic() - began
    finally:
        login.write()
    assert len([d for d in between.dials if d >= began]) < 30 + 20 * seconds
    await_well(node)
    node.create(pod("after"))
    node.await_pod_ready("after")


def test_a_kubeconfig_that_is_none(node, login):
    """What cannot be read is named with its file; the good one is taken when it comes."""
    try:
        login.path.write_text("")  # is being written, for all that is known
        for text, words in (("{half", "is not YAML"), ("kind: Config\n", "current-context")):
            login.path.write_text(text)
            await_trouble(node, "bootstrap", str(login.path), words)
            assert not row(node).connected
        assert_shown(node, "bootstrap", str(login.path), words)
    finally:
        login.write()
    await_well(node)


def test_an_expired_certificate(node, between, login, plane):
    """The certificate and its end are named; another one in its file is taken by itself."""
    between.transparent = True
    between.cut()
    good = login.pair.certificate.read_bytes(), login.pair.key.read_bytes()
    plane.authority.issue(NAME, f"system:node:{NAME}", "system:nodes", life=dt.timedelta(seconds=3))
    try:
        named = f"client certificate {login.pair.certificate} expired on"
        await_trouble(node, "lease", named)
        assert_shown(node, "lease", named)
    finally:
        between.transparent = False
        login.pair.certificate.write_bytes(good[0])
        login.pair.key.write_bytes(good[1])
        between.cut()
    await_well(node)


# Refusals.


REFUSED = [
    # Of which calls, and what is said to be wrong then.
    pytest.param("GET", PODS, "pods", id="pods"),
    pytest.param("PATCH", POD_STATUS, "pod status", id="pod-status"),
    pytest.param("POST|PATCH", EVENTS, "events", id="events"),
]
REFUSED_TO_THE_NODE = [
    pytest.param("GET", rf"{NODES}\?", "watch of the node", id="node-watch"),
    pytest.param("GET|PATCH", rf"{NODES}/", "node status", id="node-status"),
    pytest.param("GET|PUT|POST", LEASES, "lease", id="lease"),
    pytest.param("GET", r"/services\?", "services", id="services"),
    pytest.param("GET", r"/runtimeclasses\?", "runtime classes", id="runtime-classes"),
]


@pytest.mark.parametrize(("method", "path", "what"), REFUSED)
def test_a_right_is_revoked(node, between, method, path, what):
    """403 on one kind of call: it alone is said to fail, and works when it is allowed again."""
    began = time.monotonic()
    with between.rule(method, path, Answer(403, NO)) as rule:
        name = run_one(node, then=SLEEP)
        await_trouble(node, what, NO)
        assert_shown(node, what, NO)
        told = {t.what for t in row(node).troubles}
        seconds = time.monotonic() - began
    assert told == {what}
    assert rule.hits < 15 + 6 * seconds
    node.await_pod_ready(name)
    assert node.output(name) == "hello\n"
    if what == "events":  # what was refused is dropped: the next one tells that all is well
        node.delete(name, gracePeriodSeconds=1)


def test_rights_that_single_pods_need_are_revoked(node, between):
    """403 on a configmap, on a token and on the last delete, each of another pod: others run."""
    ending = run_one(node, then=SLEEP)
    node.await_pod_ready(ending)
    began = time.monotonic()
    mine = rf"/{node.namespace}/configmaps\?.*mine"  # others may still be kept for pods to come
    maps = between.rule("GET", mine, Answer(403, f"{NO} map"))
    tokens = between.rule("POST", rf"/serviceaccounts/{ACCOUNT}/token$", Answer(403, f"{NO} token"))
    deletes = between.rule("DELETE", r"/pods/", Answer(403, f"{NO} delete"))
    with maps, tokens, deletes:
        node.delete(ending, gracePeriodSeconds=1)
        node.kubectl("create", "serviceaccount", ACCOUNT, "-n", node.namespace)
        node.create(pod("untokened", serviceAccountName=ACCOUNT))
        unconfigured = run_one(node, then=SLEEP)
        node.create(pod("other"))
        node.await_pod_ready("other")
        await_trouble(node, "pod status", f"{node.namespace}/{ending}: {NO} delete")
        await_trouble(node, "objects of pods", f"configmap/{node.namespace}/mine: {NO} map")
        node.await_event("untokened", "FailedMount", lambda e: f"{NO} token" in e["message"])
        told = {t.what for t in row(node).troubles}
        seconds = time.monotonic() - began
    assert told == {"pod status", "objects of pods"}
    for rule in (maps, tokens, deletes):
        assert rule.hits < 10 + 2 * seconds, rule
    node.await_gone(ending)
    node.await_pod_ready("untokened")
    node.await_pod_ready(unconfigured)


@pytest.mark.parametrize(("method", "path", "what"), REFUSED_TO_THE_NODE)
def test_a_right_of_the_node_is_revoked(node, between, method, path, what):
    """The same for what is asked without any pod."""
    began = time.monotonic()
    with between.rule(method, path, Answer(403, NO)) as rule:
        await_trouble(node, what, NO)
        told = {t.what for t in row(node).troubles}
        seconds = time.monotonic() - began
    assert told == {what}
    assert rule.hits < 15 + 6 * seconds


CONFLICTS = {
    "lease": ("PUT", LEASES),
    "node status": ("PATCH", rf"{NODES}/[^/]+/status"),
    "pod status": ("PATCH", POD_STATUS),
}


def test_a_storm_of_conflicts(node, between):
    """409 again and again: each is tried at an ever slower pace, said, and done in the end."""
    message = "the object has been modified; please apply your changes to the latest version"
    with contextlib.ExitStack() as stack:
        rules = {
            what: stack.enter_context(between.rule(method, path, Answer(409, message)))
            for what, (method, path) in CONFLICTS.items()
        }
        began = time.monotonic()
        name = run_one(node, then=SLEEP)
        for what in CONFLICTS:
            await_trouble(node, what, "has been modified")
        wait_for("some more", lambda: time.monotonic() - began > 4)
        seconds = time.monotonic() - began
    for what, rule in rules.items():
        assert rule.hits < 12 + 4 * seconds, what
    node.await_pod_ready(name)


# Overload and failure.


def test_too_many_requests(node, between):
    """429 with Retry-After: no call of any kind is made again before its time."""
    began = time.monotonic()
    with between.rule(".*", EVERYTHING, Answer(429, "slow down", retry_after=2)):
        name = run_one(node)
        await_row(node, "that is said", lambda r: any("slow down" in t.error for t in r.troubles))
        assert_shown(node, "slow down")
        wait_for("some of it", lambda: time.monotonic() - began > 5.5)
        ended = time.monotonic()
    early = {
        kind: [round(gap, 2) for gap in found if gap < 1.9]
        for kind, found in gaps(s for s in between.asked(".*", "", began) if s.at < ended).items()
    }
    assert {kind: found for kind, found in early.items() if found} == {}
    node.await_phase(name, "Succeeded")


def test_nothing_works(node, between):
    """Each call fails for a while: few are made, and what was missed is made up for."""
    began = time.monotonic()
    reads = between.rule("GET", EVERYTHING, Answer(503, "meddler is ill"))
    # Events are told again in their own time: half a minute until they are said to be well.
    with reads, between.rule(".*", r"^((?!/events).)*$", Answer(500, "meddler is ill")) as writes:
        name = run_one(node)
        await_trouble(node, "lease", "meddler is ill")
        assert_shown(node, "lease", "meddler is ill")
        wait_for("some more", lambda: time.monotonic() - began > 3)
        seconds = time.monotonic() - began
    assert reads.hits + writes.hits < 60 + 20 * seconds
    node.await_phase(name, "Succeeded")
    assert node.output(name) == "hello\n"


TORN = {
    # What is answered, to what, and what is said then.
    "lease": ("PUT", LEASES, Words(), "connection was closed"),
    "node status": ("PATCH", NODES, Words(b"220 mail.example ESMTP\r\n"), "is not HTTP"),
    "services": ("GET", r"/services\?", Cut(), "ended in the middle"),
}


def test_no_answer_is_whole(node, between):
    """Connections that are closed, speak something else or end early: that is said of each."""
    with contextlib.ExitStack() as stack:
        for method, path, deed, _ in TORN.values():
            stack.enter_context(between.rule(method, path, deed))
        between.cut("GET", r"/services\?")
        name = run_one(node)
        for what, (*_, words) in TORN.items():
            await_trouble(node, what, words)
    node.await_phase(name, "Succeeded")


# Odd objects.


def test_odd_objects(node, between):
    """Pods that no sound API server sends are left out or fail; the good ones among them run.

    Fields that nobody here knows are no reason for anything.
    """
    change = Change(lambda document: odd(document, document["metadata"]["name"]))
    with between.rule("GET", PODS, change):
        for name in ODD:
            node.create(pod(name))
        good = run_one(node)
        node.await_phase(good, "Succeeded")
        between.cut("GET", PODS)  # and now as a list
        again = run_one(node)
        node.await_phase(again, "Succeeded")
        log = node.kubelet.log()
        for name in ("no-spec", "spec-text", "labels-list", "status-text", "containers-null"):
            assert f"{node.namespace}/{name}: " in log
        assert node.pod("containers-null")["status"]["phase"] == "Pending"
    for name in ODD:
        node.delete(name, **TERMINATED)
    between.cut("GET", PODS)


def test_a_running_pod_becomes_odd(node, between):
    """What is said of it then is left out, and it runs on; it is heard of when it makes sense."""
    node.create(pod("steady"))
    before = container_of(node.await_pod_ready("steady")["status"])
    kinds = iter(ODD)

    def change(document):
        mine = document["metadata"]["name"] == "steady"
        return odd(document, next(kinds, None)) if mine else document

    with between.rule("GET", PODS, Change(change)) as rule:
        for number, _ in enumerate(ODD, 1):
            node.admin.patch(node.pod_path("steady"), {"metadata": {"labels": {"n": str(number)}}})
        wait_for("all were sent", lambda: rule.hits >= len(ODD), SECONDS, PAUSE)
    node.admin.patch(node.pod_path("steady"), {"metadata": {"labels": {"n": "last"}}})
    row_of = node.kubelet.pods
    wait_for("it is heard", lambda: b'"last"' in row_of()["steady"].document, SECONDS, PAUSE)
    after = container_of(node.pod("steady")["status"])
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    assert processes_of(after["containerID"])


# Names, nodes, clocks.


def test_a_pod_is_made_anew_under_its_name(node):
    """Deleted at once and made again, over and over: the last one runs, nothing of the others."""
    made = []
    for _ in range(4):
        with contextlib.suppress(AssertionError):
            node.delete("same", **TERMINATED)
        made.append(node.create(pod("same"))["metadata"]["uid"])
    ready = node.await_pod_ready("same")
    assert ready["metadata"]["uid"] == made[-1]
    assert ready["status"]["containerStatuses"][0]["restartCount"] == 0

    def others():
        return [uid for uid in made[:-1] if (node.kubelet.root_dir / "pods" / uid).exists()]

    wait_for("nothing of the others is left", lambda: not others(), SECONDS, PAUSE)
    known = {r.uid for r in node.kubelet.rows() if r.name == "same"}
    assert known == {made[-1]}


def test_the_node_object_is_deleted(node):
    """It is made anew with what it needs, the lease is that of the new one, and pods are taken."""
    before = node.admin.get(node.path)["metadata"]["uid"]
    for _ in range(2):
        node.admin.delete(node.path)
        node.admin.wait_gone(node.path, uid=before)
        node.await_schedulable()
    after = node.admin.get(node.path)["metadata"]["uid"]
    assert after != before
    owner = node.admin.wait_one(
        "the lease is the new node's",
        node.lease_path,
        lambda lease: [
            o for o in lease.get("metadata", {}).get("ownerReferences", ()) if o["uid"] == after
        ],
    )
    assert owner
    name = run_one(node)
    node.await_phase(name, "Succeeded")


def test_the_clock_of_the_api_server(node, between):
    """Its clock goes ahead or behind by hours: pods run, with tokens, and the node is ready."""
    began = time.monotonic()
    names = ["ahead", "behind"]

    def shifted(document):
        new = copy.deepcopy(document)
        metadata = new.get("metadata", {})
        hours = -3 if metadata.get("name") == "behind" else 3
        for part, field in (
            (metadata, "creationTimestamp"),
            (metadata, "deletionTimestamp"),
            (new.get("status") or {}, "expirationTimestamp"),  # of a token
        ):
            if part.get(field):
                when = dt.datetime.fromisoformat(part[field]) + dt.timedelta(hours=hours)
                part[field] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
        return new

    def head(headers):
        when = parsedate_to_datetime(headers["date"]) + dt.timedelta(hours=3)
        headers["date"] = formatdate(when.timestamp(), usegmt=True)

    with between.rule(".*", EVERYTHING, Change(shifted, head)):
        between.cut()
        for name in names:
            node.create(pod(name))
        for name in names:
            node.await_pod_ready(name)
        await_well(node)
        for name in names:
            node.delete(name)
        for name in names:
            node.await_gone(name)
    assert len(between.asked("POST", TOKENS, began)) < 15


# Silence.


def await_given_up(node):
    """Wait until the API server is said to hang."""
    named = "no answer within"
    await_row(node, "it is given up", lambda r: not r.connected and named in r.error, 15)
    assert_shown(node, "cannot be reached", named)


def test_a_server_that_hangs(node, between):
    """Connections are taken and nothing is answered, for 20 s: the kubelet lives and says so.

    What was under way stays silent when others are answered again: watches begin anew.
    """
    began = time.monotonic()
    with between.rule(".*", EVERYTHING, Hold(dead=True)) as rule:
        name = run_one(node)
        await_given_up(node)
        before = beats(node)
        wait_for("20 s", lambda: time.monotonic() - began > 20, 30, 0.1)
        after = beats(node)
        assert all(after[kind] > before[kind] for kind in before), (before, after)
        assert rule.hits < 60
    await_well(node)
    node.await_phase(name, "Succeeded")
