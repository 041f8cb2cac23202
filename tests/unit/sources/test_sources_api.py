"""The pods of the API server as a source: table ``assigned`` (P-1, P-2, P-4, P-15, P-124)."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from sources_scene import Scene, place, pod, story

from kubelet.channels.wire import ANY_KEY, Hint
from kubelet.cluster.rows import ASSIGNED, ASSIGNED_KEY, AssignedRow, AssignedState
from kubelet.pods.rows import API, PODS, PodRow, WorkerState, document_of
from kubelet.process.tables import Tables
from procs.syncloop.sources.changes import SEEN, SOURCE

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 7}


class ApiScene(Scene):
    """Sources of a node that has an API server, and the table that ``node`` writes."""

    def __init__(self, root, **settings):
        self.node = Tables(root, "node")
        self.listeners = []
        self.written = 0
        super().__init__(root, kubeconfig="/k", **settings)
        self.process.on_hint = self.listeners.append
        self.process.tables.tick()

    def assign(self, name="web", uid="", *, hint=True, **more):
        status = more.pop("status", {"phase": "Pending"})
        document = pod(name, **more)
        document["metadata"] |= {"uid": uid or f"uid-{name}", "namespace": "default"}
        document["status"] = status
        self.put(document["metadata"]["uid"], json.dumps(document).encode(), name, hint=hint)

    def put(self, uid, document, name="web", *, hint=True):
        self.written += 1
        row = AssignedRow(uid, name, "default", str(self.written), document)
        self.node.put(ASSIGNED, uid, row.to_wire())
        if hint:
            self.hint(uid)

    def listed(self):
        self.node.put(ASSIGNED, ASSIGNED_KEY, AssignedState(listed=True).to_wire())
        self.hint(ASSIGNED_KEY)

    def drop(self, uid):
        self.node.writers[ASSIGNED].delete(uid)
        self.hint(uid)

    def hint(self, key=ANY_KEY):
        for listener in self.listeners:
            listener(Hint(ASSIGNED, key, 0))

    async def settle(self):
        for _ in range(5):
            await asyncio.sleep(0)
        for task in self.process.tasks:
            if task.done():
                task.result()

    def news(self):
        """Return what changed since the last time."""
        found, self.changes = self.changes, []
        return [(str(c.op), c.pod.uid) for c in found if c.source == API]


@contextlib.asynccontextmanager
async def api_scene(root, **settings):
    one = ApiScene(root, **settings)
    one.sources.start()
    try:
        yield one
    finally:
        await one.close()
        one.node.close()


def test_without_an_api_server_there_is_no_such_source(tmp_path):
    """A node on its own does not wait for pods of a server that nobody named."""

    async def main():
        s = Scene(tmp_path)
        assert API not in s.row.delivered
        s.sources.start()
        assert s.sources.ready
        await s.close()

    story(main)


def test_sources_are_ready_when_everything_was_listed(tmp_path):
    """P-4: pods are taken as they come, but nobody is unknown before all were listed."""

    async def main():
        async with api_scene(tmp_path) as s:
            assert not s.sources.ready
            s.assign()
            await s.settle()
            assert s.news() == [("add", "uid-web")]
            assert not s.sources.ready
            assert s.row.delivered[API] is False
            s.listed()
            await s.settle()
            assert s.sources.ready
            assert s.row.delivered[API] is True

    story(main)


def test_the_life_of_a_pod(tmp_path):
    """P-1: added, changed, reconciled, deleted with its grace, and gone."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign()
            await s.settle()
            assert s.news() == [("add", "uid-web")]
            (found, _), *_ = s.sources.desired().values()
            assert found.metadata.annotations[SOURCE] == "api"
            seen = found.metadata.annotations[SEEN]
            s.assign(image="app:2")
            await s.settle()
            assert s.news() == [("update", "uid-web")]
            s.assign(image="app:2", status={"conditions": [{"type": "gate", "status": "True"}]})
            await s.settle()
            assert s.news() == [("reconcile", "uid-web")]
            s.assign(image="app:2", metadata=DELETED)
            await s.settle()
            (change,) = s.changes
            assert change.pod.metadata.deletion_grace_period_seconds == 7
            assert change.pod.metadata.annotations[SEEN] == seen
            assert s.news() == [("delete", "uid-web")]
            s.drop("uid-web")
            await s.settle()
            assert s.news() == [("remove", "uid-web")]

    story(main)


def test_the_same_again_is_no_news(tmp_path):
    """Another version number of the same pod, and the tick of each second, change nothing."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign(metadata={"resourceVersion": "1"})
            await s.settle()
            s.news()
            calls = s.calls
            s.assign(metadata={"resourceVersion": "2"})
            s.hint()
            s.hint(ASSIGNED_KEY)
            s.hint("nobody")
            await s.settle()
            assert (s.news(), s.calls) == ([], calls)

    story(main)


def test_many_hints_are_one_delivery(tmp_path):
    """P-9: pods that come together are handled together, in the order of their creation."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            await s.settle()
            calls = s.calls
            for number in range(30):
                made = f"2026-01-01T00:00:{59 - number:02}Z"
                s.assign(f"p{number:02}", metadata={"creationTimestamp": made})
            await s.settle()
            assert s.calls == calls + 1
            assert s.news() == [("add", f"uid-p{29 - n:02}") for n in range(30)]

    story(main)


def test_only_what_changed_is_decoded(tmp_path, monkeypatch):
    """One pod of many changes: the others are not taken apart again, also at a tick."""
    decoded = []
    from procs.syncloop.sources import api

    real = api._pod
    monkeypatch.setattr(api, "_pod", lambda value, uid: decoded.append(uid) or real(value, uid))

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            for number in range(20):
                s.assign(f"p{number}")
            await s.settle()
            decoded.clear()
            s.assign("p7", image="app:2", hint=False)
            s.hint()
            await s.settle()
            assert decoded == ["uid-p7"]

    story(main)


def test_a_hint_that_got_lost_is_made_good(tmp_path):
    """``*``: what came, changed and went is found by looking at all."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign("a")
            s.assign("b")
            await s.settle()
            s.news()
            s.assign("c", hint=False)
            s.assign("a", image="app:2", hint=False)
            s.node.writers[ASSIGNED].delete("uid-b")
            s.hint()
            await s.settle()
            assert sorted(s.news()) == [("add", "uid-c"), ("remove", "uid-b"), ("update", "uid-a")]

    story(main)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"{", "the API server: pod default/web: Expecting"),
        (b"[]", "must be an object"),
        (b'{"metadata":{"uid":"uid-web"},"spec":{"containers":5}}', "spec.containers"),
        (b'{"metadata":{"uid":"other"}}', "metadata.uid: is 'other'"),
        (b'{"metadata":{"uid":"uid-web"},"spec":{}}', "spec.containers: must have at least one"),
        (b'{"metadata":{"uid":"uid-web"},"spec":{"containers":[{}]}}', "each with a name"),
    ],
)
def test_what_cannot_be_read_is_a_sentence_and_nothing_else(tmp_path, document, said):
    """A broken pod is named; the others come, and a known one goes on as it was."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.put("uid-web", document)
            s.assign("other")
            await s.settle()
            assert s.news() == [("add", "uid-other")]
            assert said in s.problems
            s.assign("web")
            await s.settle()
            assert (s.news(), s.problems) == ([("add", "uid-web")], "")
            s.put("uid-web", document)
            await s.settle()
            assert s.news() == []
            assert "goes on as it was" in s.problems
            s.drop("uid-web")
            await s.settle()
            assert (s.news(), s.problems) == ([("remove", "uid-web")], "")

    story(main)


def test_unknown_fields_are_for_newer_kubelets(tmp_path):
    """Nobody validates a pod of the API server, and what is new in it is no problem."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign(newField={"a": 1}, metadata={"other": 2}, container={"image": "UPPER://x"})
            await s.settle()
            assert (s.news(), s.problems) == ([("add", "uid-web")], "")

    story(main)


def test_a_table_that_was_begun_anew_takes_no_pod_away(tmp_path):
    """Until everything is listed again, what is missing is not gone."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign("a")
            s.assign("b")
            await s.settle()
            s.news()
            s.node.writers[ASSIGNED].delete(ASSIGNED_KEY)
            for uid in ("uid-a", "uid-b"):
                s.drop(uid)
            s.hint()
            await s.settle()
            assert s.news() == []
            assert s.sources.ready
            s.assign("a")
            s.listed()
            s.hint()
            await s.settle()
            assert s.news() == [("remove", "uid-b")]

    story(main)


def test_a_table_that_cannot_be_read_takes_no_pod_away(tmp_path):
    """Unreadable is not empty."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign("a")
            await s.settle()
            s.news()
            s.process.tables._set_unavailable(ASSIGNED, "it is broken")
            s.hint()
            s.hint("uid-a")
            await s.settle()
            assert s.news() == []
            assert "uid-a" in s.sources.desired()

    story(main)


def test_a_name_used_again_is_another_pod(tmp_path):
    """P-15: the first goes, the second comes; both at once are no quarrel either."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign("web", "one")
            await s.settle()
            s.news()
            s.assign("web", "two")
            await s.settle()
            assert (s.news(), s.problems) == ([("add", "two")], "")
            s.drop("one")
            await s.settle()
            assert s.news() == [("remove", "one")]

    story(main)


def test_a_static_pod_and_one_of_the_api_may_have_one_name(tmp_path):
    """P-15: neither is refused, whoever comes first: one waits for the other."""

    async def main():
        manifests = tmp_path / "manifests"
        manifests.mkdir()
        place(manifests / "a.json", pod("web"))
        async with api_scene(tmp_path, pod_manifest_path=manifests) as s:
            s.listed()
            s.assign("web-node-1")
            await s.until(lambda: len(s.sources.desired()) == 2)
            assert s.problems == ""

    story(main)


def test_a_successor_finds_its_pods_as_they_were(tmp_path):
    """Nothing changes for a pod by a restart, in whatever state it is: it is seen since when."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign("a")
            s.assign("b", status={"phase": "Succeeded"})
            await s.settle()
            documents = {}
            for uid, (one, source) in s.sources.desired().items():
                state = WorkerState.SYNC if uid == "uid-a" else WorkerState.TERMINATED
                text = documents[uid] = document_of(one)
                row = PodRow(uid, one.name, "default", source, state=state, document=text)
                s.process.tables.put(PODS, uid, row.to_wire())
        async with api_scene(tmp_path) as s:
            await s.settle()
            found = {uid: document_of(one) for uid, (one, _) in s.sources.desired().items()}
            assert found == documents
            assert s.sources.ready

    story(main)


def test_pods_of_the_api_are_no_origins_of_manifests(tmp_path):
    """The file that remembers manifests is not written for them."""

    async def main():
        async with api_scene(tmp_path) as s:
            s.listed()
            s.assign("a")
            await s.settle()
            assert not (tmp_path / "run" / "static-pods.json").exists()

    story(main)
