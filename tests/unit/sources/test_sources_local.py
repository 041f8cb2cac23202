"""Pods submitted over the kubelet's own socket: kept, changed by the API's rules, ended."""

from __future__ import annotations

import os
import signal

import pytest

from kubelet.api import codec
from kubelet.api.pod import Pod
from kubelet.channels.errors import ErrorKind, HandlerError
from procs.syncloop.sources import store as storing
from procs.syncloop.sources.store import Store
from tests.unit.sources.sources_scene import Scene, place, pod, scene, story, text


def kept(root):
    """Return the files of submitted pods."""
    try:
        return sorted(os.listdir(root / "root" / "local-pods"))
    except FileNotFoundError:
        return []


def refused(s, document):
    with pytest.raises(HandlerError) as caught:
        s.sources.submit(document if isinstance(document, bytes) else text(document))
    assert caught.value.kind is ErrorKind.BAD_REQUEST
    return caught.value.text


def alone(tmp_path, work):
    """Run a story with the local source alone."""

    async def main():
        async with scene(tmp_path) as s:
            work(s)

    story(main)


def test_a_pod_is_taken_and_kept(tmp_path):
    """It is no static pod: own UID, own name, generation, on disk before the answer."""

    def work(s):
        done = s.sources.submit(text(pod(shiny=1)))
        assert (done.name, done.namespace, done.result) == ("web", "default", "created")
        assert done.warnings == ('unknown field "spec.shiny"',)
        assert kept(tmp_path) == [f"{done.uid}.json"]
        found, source = s.sources.desired()[done.uid]
        assert source == "local"
        assert found.spec.node_name == "node-1"
        assert found.spec.tolerations == ()
        assert found.metadata.generation == 1
        assert found.metadata.creation_timestamp
        assert found.metadata.annotations["kubernetes.io/config.source"] == "local"
        assert "kubernetes.io/config.seen" in found.metadata.annotations
        assert s.ops == [("add", "web")]

    alone(tmp_path, work)


def test_the_same_again_changes_nothing(tmp_path):
    """Submitting is idempotent; another label is another version of the same spec."""

    def work(s):
        first = s.sources.submit(text(pod()))
        again = s.sources.submit(text(pod()))
        assert (again.uid, again.result) == (first.uid, "unchanged")
        assert len(s.changes) == 1
        done = s.sources.submit(text(pod(metadata={"labels": {"a": "b"}})))
        assert (done.uid, done.result) == (first.uid, "configured")
        found, _ = s.sources.desired()[first.uid]
        assert found.metadata.labels == {"a": "b"}
        assert found.metadata.generation == 1
        assert s.ops == [("add", "web"), ("update", "web")]

    alone(tmp_path, work)


def test_a_name_can_be_made_up(tmp_path):
    """A generateName gives a name that nobody has; a given UID is taken."""

    def work(s):
        document = pod(metadata={"generateName": "job-", "uid": "mine-1"})
        del document["metadata"]["name"]
        done = s.sources.submit(text(document))
        assert done.name.startswith("job-")
        assert len(done.name) == 9
        assert done.uid == "mine-1"

    alone(tmp_path, work)


BASE = {"activeDeadlineSeconds": 100, "terminationGracePeriodSeconds": 5}
GATE = {"key": "a", "operator": "Exists"}
ALLOWED = [
    ("image", {"image": "app:latest"}),
    ("a lower deadline", {"activeDeadlineSeconds": 50}),
    ("another toleration", {"tolerations": [GATE, {"key": "b", "operator": "Exists"}]}),
    ("an ephemeral container", {"ephemeralContainers": [{"name": "debug", "image": "x"}]}),
    ("an init container's image", {"initContainers": [{"name": "init", "image": "app:2"}]}),
]
FORBIDDEN = "spec: Forbidden: pod updates may not change fields other than"
REFUSED = [
    ("command", {"container": {"command": ["x"]}}, FORBIDDEN),
    ("command by its path", {"container": {"command": ["x"]}}, "spec.containers[0].command"),
    ("grace", {"terminationGracePeriodSeconds": 6}, FORBIDDEN),
    ("host network", {"hostNetwork": True}, FORBIDDEN),
    ("a higher deadline", {"activeDeadlineSeconds": 101}, "less than or equal to previous value"),
    ("no deadline", {"activeDeadlineSeconds": None}, "must not update from a positive integer"),
    ("a toleration less", {"tolerations": []}, "existing toleration can not be modified"),
    ("no init container", {"initContainers": []}, "may not add or remove containers"),
    ("an invalid image", {"image": ""}, "spec.containers[0].image"),
    ("another node", {"nodeName": "node-2"}, "spec.nodeName: Invalid value: 'node-2'"),
    ("another uid", {"metadata": {"uid": "other"}}, "metadata.uid: Invalid value: 'other'"),
]


def versions(changes):
    before = {
        **BASE,
        "tolerations": [GATE],
        "initContainers": [{"name": "init", "image": "app:1"}],
    }
    return pod(**before), pod(**{**before, **changes})


@pytest.mark.parametrize("changes", [a[1] for a in ALLOWED], ids=[a[0] for a in ALLOWED])
def test_what_an_update_may_change(tmp_path, changes):
    """Images, lower deadlines, more tolerations and ephemeral containers; generation counts."""

    def work(s):
        old, new = versions(changes)
        first = s.sources.submit(text(old))
        done = s.sources.submit(text(new))
        assert (done.uid, done.result) == (first.uid, "configured")
        found, _ = s.sources.desired()[first.uid]
        assert found.metadata.generation == 2
        assert found.spec.containers[0].image_pull_policy == "IfNotPresent"
        assert s.ops == [("add", "web"), ("update", "web")]

    alone(tmp_path, work)


@pytest.mark.parametrize(
    ("changes", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_an_update_may_not_change(tmp_path, changes, words):
    """The API server's sentence, with the fields that were changed; the pod stays as it is."""

    def work(s):
        old, new = versions(changes)
        s.sources.submit(text(old))
        assert words in refused(s, new)
        assert len(s.changes) == 1

    alone(tmp_path, work)


def test_ephemeral_containers_stay(tmp_path):
    """The manifest that a pod was made from does not list them, and takes none away."""

    def work(s):
        debug = {"name": "debug", "image": "x"}
        first = s.sources.submit(text(pod()))
        s.sources.submit(text(pod(ephemeralContainers=[debug])))
        assert s.sources.submit(text(pod())).result == "unchanged"
        words = "existing ephemeral containers 'debug' may not be"
        assert words in refused(s, pod(ephemeralContainers=[{"name": "other", "image": "x"}]))
        assert words in refused(s, pod(ephemeralContainers=[{**debug, "image": "y"}]))
        found, _ = s.sources.desired()[first.uid]
        assert [c.name for c in found.spec.ephemeral_containers] == ["debug"]

    alone(tmp_path, work)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"{", "the document cannot be read: line 1"),
        ({"kind": "Pod"}, "the document is not a pod: apiVersion: Required value"),
        ({"kind": "PodList", "apiVersion": "v1"}, 'kind: Invalid value: "PodList"'),
        (pod(container={"image": ""}), 'Pod "web" is invalid: spec.containers[0].image'),
        (pod(metadata={"uid": "../x"}), "metadata.uid: Invalid value: '../x'"),
        (pod(name=""), "metadata.name"),
    ],
)
def test_a_bad_document_is_refused(tmp_path, document, words):
    """With what is wrong, and nothing is kept."""

    def work(s):
        assert words in refused(s, document)
        assert kept(tmp_path) == []
        assert s.changes == []

    alone(tmp_path, work)


def test_a_pod_ends_with_grace_that_only_shrinks(tmp_path):
    """The mark is set once, the grace may become shorter, and the file goes at the end (P-37)."""

    def work(s):
        uid = s.sources.submit(text(pod(terminationGracePeriodSeconds=40))).uid
        s.sources.finished(uid)  # it is not to end: nothing happens
        assert s.sources.delete("default", "web", None).grace == 40
        first = s.changes[-1]
        assert (str(first.op), first.pod.metadata.deletion_grace_period_seconds) == ("delete", 40)
        assert s.sources.delete("default", "web", 50).grace == 40
        assert s.changes[-1] is first
        assert s.sources.delete("default", "web", 0).grace == 0
        assert s.changes[-1].pod.metadata.deletion_timestamp < first.pod.metadata.deletion_timestamp
        assert "is being deleted" in refused(s, pod())
        s.sources.finished(uid)
        assert kept(tmp_path) == []
        assert s.sources.desired() == {}
        assert s.ops == [("add", "web"), ("delete", "web"), ("delete", "web"), ("remove", "web")]
        assert s.sources.submit(text(pod())).result == "created"

    alone(tmp_path, work)


def test_what_is_not_there_cannot_be_deleted(tmp_path):
    """Said as the API server says it."""

    def work(s):
        with pytest.raises(HandlerError, match='pods "x" not found'):
            s.sources.delete("default", "x", None)

    alone(tmp_path, work)


def test_submitted_pods_outlive_us(tmp_path):
    """After any restart they are there as they were, those on their way out with their mark."""

    async def work():
        async with scene(tmp_path) as s:
            s.sources.submit(text(pod("a")))
            s.sources.submit(text(pod("b")))
            s.sources.delete("default", "b", 7)
            before = s.sources.desired()
        async with scene(tmp_path) as s:
            assert s.sources.desired() == before
            assert sorted(s.ops) == [("add", "a"), ("add", "b")]
            grace = {c.pod.name: c.pod.metadata.deletion_grace_period_seconds for c in s.changes}
            assert grace == {"a": None, "b": 7}

    story(work)


def test_a_broken_file_in_the_store_loses_nothing(tmp_path):
    """It is said, left as it is, and its pod goes on if it ran; the others are there."""

    async def work():
        async with scene(tmp_path) as s:
            ran, other = (s.sources.submit(text(pod(n))).uid for n in ("ran", "other"))
            s.remember()
        directory = tmp_path / "root" / "local-pods"
        (directory / f"{ran}.json").write_bytes(b'{"metadata": ')
        (directory / "stray.json").write_bytes(text(pod("stray", metadata={"uid": "x"})))
        async with scene(tmp_path) as s:
            assert set(s.sources.desired()) == {ran, other}
            assert f"{directory}/{ran}.json: cannot be read" in s.problems
            assert "pod default/ran goes on as it was" in s.problems
            assert "stray.json: metadata.uid: Invalid value: 'x': must be 'stray'" in s.problems
            assert (directory / f"{ran}.json").read_bytes() == b'{"metadata": '
            s.sources.submit(text(pod("ran", image="app:2")))
            assert f"{ran}.json" not in s.problems
        async with scene(tmp_path) as s:
            assert s.wanted == {"ran": "app:2", "other": "app:1"}

    story(work)


def test_a_full_disk_refuses_and_changes_nothing(tmp_path, monkeypatch):
    """What cannot be kept is not taken."""

    def full(_fd):
        raise OSError(28, "No space left on device")

    def work(s):
        s.sources.submit(text(pod()))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(HandlerError, match="No space left on device"):
            s.sources.submit(text(pod(image="app:2")))
        with pytest.raises(HandlerError, match="No space left on device"):
            s.sources.delete("default", "web", None)
        assert s.wanted == {"web": "app:1"}
        assert len(s.changes) == 1

    alone(tmp_path, work)


@pytest.mark.parametrize("call", ["fsync", "replace", "close"])
def test_a_kill_in_the_middle_leaves_the_old_or_the_new(tmp_path, call):
    """Killed for real at each step of a write: one whole version is there, and no rubbish."""
    store = Store(str(tmp_path / "store"))
    old, new = (codec.read(Pod, pod(image=i, metadata={"uid": "u"})) for i in ("a", "b"))
    store.put(old)
    child = os.fork()
    if child == 0:
        die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731 - one line of a child
        setattr(storing.os, call, die)
        store.put(new)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert [one.pod for one in store.load()] == [old]
    assert os.listdir(tmp_path / "store") == ["u.json"]


def test_a_static_pods_name_is_taken(tmp_path):
    """Neither its name nor its UID can be submitted, nor can it be deleted here."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    place(manifests / "web.yaml", pod(metadata={"uid": "static-1"}))

    async def work():
        async with scene(tmp_path, pod_manifest_path=manifests) as s:
            await s.until(lambda: s.wanted)
            words = refused(s, pod("web-node-1"))
            assert f"its name is that of the pod from {manifests}/web.yaml" in words
            assert "its uid 'static-1'" in refused(s, pod("other", metadata={"uid": "static-1"}))
            with pytest.raises(HandlerError, match="can only be removed there"):
                s.sources.delete("default", "web-node-1", None)

    story(work)


def test_a_submitted_pod_keeps_its_name(tmp_path):
    """A file that comes later with its name is a problem, until the pod is gone."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()

    async def work():
        async with scene(tmp_path, pod_manifest_path=manifests) as s:
            await s.until(lambda: s.sources.ready)
            uid = s.sources.submit(text(pod("web-node-1", image="app:9"))).uid
            place(manifests / "web.yaml", pod())
            await s.until(lambda: s.problems)
            assert f"is already given by submitted pod {uid}" in s.problems
            s.remember()
        async with scene(tmp_path, pod_manifest_path=manifests) as s:
            await s.until(lambda: s.problems)
            assert s.wanted == {"web-node-1": "app:9"}
            s.sources.delete("default", "web-node-1", 0)
            s.sources.finished(uid)
            assert s.wanted == {"web-node-1": "app:1"}
            assert s.problems == ""

    story(work)


def test_an_unreadable_store_is_not_an_empty_one(tmp_path):
    """Nothing is taken, and nothing unknown may be ended, until it can be read (P-4)."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "local-pods").write_bytes(b"")  # not even a directory

    async def work():
        s = Scene(tmp_path)
        s.sources.start()
        assert not s.sources.ready
        assert "local-pods: cannot be read" in s.problems
        with pytest.raises(HandlerError, match="cannot be read yet"):
            s.sources.submit(text(pod()))
        await s.close()

    story(work)


def test_without_sources_the_node_is_ready(tmp_path):
    """Pods can be submitted to a node that nobody configured any source for (P-4)."""

    async def work():
        async with scene(tmp_path) as s:
            assert s.sources.ready
            assert s.calls == 1
            assert s.changes == []
            assert s.row.delivered == {"local": True}

    story(work)
