"""Statuses on their way to the API server, and the last delete (P-13, P-41, P-131, T-5)."""

from __future__ import annotations

import asyncio

import pytest
from apipods_scene import condition, mirror, pod, scene, story

from kubelet.pods.rows import STATUS
from procs.node.apiserver.types import ApiError
from procs.node.pods.writer import MOST, RECONCILE_SECONDS, StatusWriter

WEB = "/api/v1/namespaces/default/pods/web"
ETCD = "/api/v1/namespaces/default/pods/etcd"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}


async def begin(s, *pods):
    """Have the server hold pods, and the writer at work."""
    s.server.give(*pods)
    s.pods.start()
    s.server.list()
    s.writer = StatusWriter(s.kit, s.pods)
    s.writer.start()
    await s.settle()


async def succeed(s):
    """Kill the process, and have its successor begin."""
    s.die()
    s.pods.start()
    s.writer = StatusWriter(s.kit, s.pods)
    s.writer.start()
    await s.settle()


def phase(s, path=WEB):
    return s.server.objects[path]["status"]["phase"]


def test_a_status_is_written_at_once_and_only_once(tmp_path):
    """P-131: a patch on the subresource with the UID; nothing when nothing changed."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.status("uid-web", "web", phase="Running")
            await s.settle()
            s.process.hint(STATUS)
            s.status("uid-web", "web", phase="Running")
            await asyncio.sleep(3 * RECONCILE_SECONDS)
            body = {"metadata": {"uid": "uid-web"}, "status": {"phase": "Running"}}
            assert s.server.calls == [("patch", f"{WEB}/status", body)]
            assert s.process.row.counters["status_patches"] == 1

    story(main)


def test_no_time_passes_between_a_status_and_its_patch(tmp_path):
    """P-131: batching only holds back what has a call under way already."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            before = asyncio.get_running_loop().time()
            s.status("uid-web", "web", phase="Running")
            for _ in range(3):
                await asyncio.sleep(0)
            assert len(s.server.calls) == 1
            assert asyncio.get_running_loop().time() == before

    story(main)


def test_while_a_call_is_under_way_only_the_newest_waits(tmp_path):
    """P-131: of many statuses during a call, the last one is sent after it."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            gate = s.server.gates[f"{WEB}/status"] = asyncio.Event()
            for number in range(10):
                s.status("uid-web", "web", message=str(number))
                await s.settle()
            assert len(s.server.calls) == 1
            gate.set()
            await s.settle()
            assert [body["status"] for _, body in s.server.of("patch")] == [
                {"phase": "Running", "message": "0"},
                {"message": "9"},
            ]

    story(main)


def test_calls_are_bounded_and_urgent_ones_first(tmp_path):
    """P-131: so many at a time; who becomes ready or ends does not wait for the others."""

    async def main():
        async with scene(tmp_path) as s:
            names = [f"p{i:02}" for i in range(40)]
            await begin(s, *(pod(name) for name in names))
            gate = asyncio.Event()
            for name in names:
                s.server.gates[f"/api/v1/namespaces/default/pods/{name}/status"] = gate
            for name in names[:38]:
                s.status(f"uid-{name}", name, phase="Running")
            s.status("uid-p38", "p38", phase="Failed")
            s.status("uid-p39", "p39", conditions=[condition("Ready")])
            await s.settle()
            assert len(s.server.calls) == MOST
            gate.set()
            await s.settle()
            order = [path.split("/")[-2] for path, _ in s.server.of("patch")]
            assert sorted(order) == names
            assert set(order[MOST : MOST + 2]) == {"p38", "p39"}
            assert s.server.most == MOST

    story(main)


def test_what_others_wrote_is_kept(tmp_path):
    """P-128: a patch names nothing of others', and their conditions stay."""

    async def main():
        async with scene(tmp_path) as s:
            foreign = {"conditions": [condition("gate")], "resourceClaimStatuses": [{"name": "x"}]}
            await begin(s, pod(status=foreign))
            s.status("uid-web", "web", conditions=[condition("Ready")])
            await s.settle()
            status = s.server.objects[WEB]["status"]
            assert status["conditions"] == [condition("gate"), condition("Ready")]
            assert status["resourceClaimStatuses"] == [{"name": "x"}]
            (_, body), *_ = s.server.of("patch")
            assert [c["type"] for c in body["status"]["conditions"]] == ["Ready"]

    story(main)


def test_what_somebody_else_changed_of_ours_is_put_right(tmp_path):
    """T-5: each 10 s what is there is compared with what is true."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.status("uid-web", "web", phase="Running", podIP="10.0.0.1")
            await s.settle()
            s.server.change(pod(status={"phase": "Running", "podIP": "6.6.6.6"}))
            await s.settle()
            assert len(s.server.calls) == 1
            await asyncio.sleep(RECONCILE_SECONDS + 1)
            assert s.server.objects[WEB]["status"]["podIP"] == "10.0.0.1"
            assert len(s.server.calls) == 2

    story(main)


def test_what_the_server_does_not_keep_is_not_said_for_ever(tmp_path):
    """A field that a server drops costs one patch, not one each 10 s, nor an endless loop."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.server.lossy = {"observedGeneration"}
            s.status("uid-web", "web", observedGeneration=3)
            await asyncio.sleep(10 * RECONCILE_SECONDS)
            assert len(s.server.calls) == 1
            s.status("uid-web", "web", observedGeneration=3, podIP="10.0.0.1")
            await asyncio.sleep(10 * RECONCILE_SECONDS)
            assert len(s.server.calls) == 2

    story(main)


def test_what_the_server_does_not_keep_holds_no_delete_up(tmp_path):
    """P-41: a pod whose status is said as far as it can be is deleted."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod(metadata=DELETED))
            s.server.lossy = {"observedGeneration"}
            s.status("uid-web", "web", phase="Failed", observedGeneration=3, finished=True)
            await s.settle()
            assert [verb for verb, *_ in s.server.calls] == ["patch", "delete"]

    story(main)


def test_a_terminal_phase_is_never_unsaid(tmp_path):
    """P-115: what ended in the API stays so, whatever is computed here."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod(status={"phase": "Failed", "reason": "Gone"}))
            s.status("uid-web", "web", phase="Running", podIP="10.0.0.1")
            await s.settle()
            status = s.server.objects[WEB]["status"]
            assert (status["phase"], status["reason"]) == ("Failed", "Gone")

    story(main)


def test_an_illegal_step_back_is_not_sent(tmp_path):
    """P-115: a container that ended for good is not shown as running."""

    async def main():
        async with scene(tmp_path) as s:
            over = {"name": "c", "state": {"terminated": {"exitCode": 0}}}
            runs = {"name": "c", "state": {"running": {}}}
            never = pod(spec={"restartPolicy": "Never"}, status={"containerStatuses": [over]})
            await begin(s, never)
            s.status("uid-web", "web", containerStatuses=[runs])
            await asyncio.sleep(3 * RECONCILE_SECONDS)
            assert s.server.calls == []
            assert s.process.row.counters["status_backwards"] == 1

    story(main)


# --- The end. ------------------------------------------------------------------------------------


def test_a_finished_pod_is_deleted_after_its_last_status(tmp_path):
    """P-41: grace 0 and its UID, when its phase is terminal there and nothing of it is left."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod(metadata=DELETED))
            s.status("uid-web", "web", phase="Succeeded")
            await s.settle()
            assert [c[0] for c in s.server.calls] == ["patch"]
            s.status("uid-web", "web", phase="Succeeded", finished=True)
            await s.settle()
            assert s.server.of("delete") == [(WEB, {"grace": 0, "uid": "uid-web"})]
            assert s.server.objects == {}
            assert s.rows == {}

    story(main)


def test_a_pod_that_ended_long_ago_goes_when_it_is_deleted(tmp_path):
    """P-41: a deletion mark on a pod that is finished here needs nothing else."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.status("uid-web", "web", phase="Succeeded", finished=True)
            await s.settle()
            assert s.server.of("delete") == []
            s.server.change(pod(status={"phase": "Succeeded"}, metadata=DELETED))
            await s.settle()
            assert len(s.server.of("delete")) == 1

    story(main)


def test_a_pod_with_a_finalizer_is_deleted_once(tmp_path):
    """The object stays for who has the finalizer; nothing is said again, for as long as it does."""

    async def main():
        async with scene(tmp_path) as s:
            held = {**DELETED, "finalizers": ["example.com/x"]}
            await begin(s, pod(metadata=held))
            s.status("uid-web", "web", phase="Succeeded", finished=True)
            await asyncio.sleep(5 * RECONCILE_SECONDS)
            assert len(s.server.of("delete")) == 1

    story(main)


def test_a_delete_that_got_lost_is_repeated(tmp_path):
    """An answer that never came, and an object that is still there: it is said again."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod(metadata=DELETED))
            s.server.errors["delete"] = [ApiError("timeout", status=0)] * 3
            s.status("uid-web", "web", phase="Succeeded", finished=True)
            await asyncio.sleep(60)
            assert len(s.server.of("delete")) == 4
            assert s.server.objects == {}

    story(main)


def test_another_pod_of_that_name_is_not_touched(tmp_path):
    """Deleted and made again: neither the status nor the delete of the first meets the second."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod("web", "one", metadata=DELETED))
            s.server.telling = False
            s.server.give(pod("web", "two"))
            s.status("one", "web", phase="Succeeded", finished=True)
            await asyncio.sleep(60)
            assert phase(s) == "Pending"
            assert s.troubles == {}
            assert len(s.server.calls) <= 7  # one for each reconciliation

    story(main)


# --- Static pods. --------------------------------------------------------------------------------


def test_the_status_of_a_static_pod_goes_to_its_mirror(tmp_path):
    """P-13: under the mirror's UID, as soon as there is one; a finished one is not deleted here."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s)
            s.status("static-1", "etcd", phase="Running")
            await s.settle()
            assert s.server.calls == []
            s.server.give(mirror("etcd"))
            await s.settle()
            body = {"metadata": {"uid": "mirror-etcd"}, "status": {"phase": "Running"}}
            assert s.server.calls == [("patch", f"{ETCD}/status", body)]
            s.status("static-1", "etcd", phase="Failed", finished=True)
            await asyncio.sleep(3 * RECONCILE_SECONDS)
            assert s.server.of("delete") == []

    story(main)


def test_a_mirror_of_another_manifest_is_not_written_to(tmp_path):
    """P-11: a mirror whose hash is another one's shows nothing of this pod."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, mirror("etcd", "other"))
            s.status("static-1", "etcd", phase="Running")
            await asyncio.sleep(3 * RECONCILE_SECONDS)
            assert s.server.calls == []

    story(main)


def test_pods_that_no_api_server_knows_are_not_spoken_of(tmp_path):
    """A pod that was submitted here has no object."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.status("local-1", "job", phase="Running", finished=True)
            await asyncio.sleep(3 * RECONCILE_SECONDS)
            assert s.server.calls == []

    story(main)


# --- What goes wrong. ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 429, 503])
def test_a_server_that_is_away_meets_no_storm(tmp_path, status):
    """Many pods, a server away for a minute: few calls, and on its return everything newest."""

    async def main():
        async with scene(tmp_path) as s:
            names = [f"p{i:02}" for i in range(30)]
            await begin(s, *(pod(name) for name in names))
            s.server.errors["patch"] = ApiError("away", status=status)
            for number in range(60):
                for name in names:
                    s.status(f"uid-{name}", name, message=str(number))
                await asyncio.sleep(1)
            assert len(s.server.calls) < 40
            s.server.calls.clear()
            del s.server.errors["patch"]
            await asyncio.sleep(15)
            assert len(s.server.calls) == 30
            messages = {one["status"]["message"] for one in s.server.objects.values()}
            assert messages == {"59"}

    story(main)


def test_a_new_list_ends_the_waiting(tmp_path):
    """Whoever could list can be written to: nothing waits for the end of a pause."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.server.errors["patch"] = ApiError("away", status=0)
            s.status("uid-web", "web", phase="Running")
            await asyncio.sleep(60)
            del s.server.errors["patch"]
            s.server.list()
            await s.settle()
            assert phase(s) == "Running"

    story(main)


def test_retry_after_is_heeded(tmp_path):
    """A server that says when to come back is not asked before."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.server.errors["patch"] = [ApiError("slow down", status=429, retry_after=7.0)]
            s.status("uid-web", "web", phase="Running")
            await asyncio.sleep(6.9)
            assert len(s.server.calls) == 1
            await asyncio.sleep(0.2)
            assert phase(s) == "Running"

    story(main)


@pytest.mark.parametrize("status", [500, 504, 409])
def test_one_pod_that_fails_holds_nobody_up(tmp_path, status):
    """A pod whose writes fail is tried again ever more rarely; the others go on at once."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod("bad"), pod("web"))
            bad = "/api/v1/namespaces/default/pods/bad/status"
            s.server.errors["patch", bad] = ApiError("no", status=status)
            s.status("uid-bad", "bad", phase="Failed")
            for number in range(100):
                s.status("uid-web", "web", message=str(number))
                await s.settle()
                assert s.server.objects[WEB]["status"]["message"] == str(number)
                await asyncio.sleep(1)
            tries = [path for path, _ in s.server.of("patch") if path == bad]
            assert 5 < len(tries) < 30
            assert s.troubles == {"pod status": "default/bad: no"}
            del s.server.errors["patch", bad]
            await asyncio.sleep(15)
            assert s.troubles == {}
            assert phase(s, bad.removesuffix("/status")) == "Failed"

    story(main)


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_a_refusal_is_a_trouble_with_the_pods_name(tmp_path, status):
    """What is refused is shown, tried again each 10 s, and forgotten when it works."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod("web"), pod("two"))
            s.server.errors["patch"] = ApiError("not for you", status=status)
            s.status("uid-web", "web", phase="Running")
            await s.settle()
            assert s.troubles == {"pod status": "default/web: not for you"}
            s.status("uid-two", "two", phase="Running")
            await asyncio.sleep(5 * RECONCILE_SECONDS + 1)
            told = {"pod status": "default/two: not for you (and 1 more pods)"}
            assert s.troubles == told
            assert len(s.server.calls) == 12
            del s.server.errors["patch"]
            await asyncio.sleep(2 * RECONCILE_SECONDS)
            assert phase(s) == "Running"
            assert s.troubles == {}

    story(main)


def test_a_pod_that_is_gone_is_forgotten(tmp_path):
    """404: there is nobody to tell, and nothing wrong."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.server.telling = False
            s.server.take(pod())
            s.status("uid-web", "web", phase="Running")
            await asyncio.sleep(25)
            assert len(s.server.calls) == 3  # the watch has not told, so it is asked each 10 s
            assert s.troubles == {}
            s.server.list()
            await asyncio.sleep(25)
            assert len(s.server.calls) == 3

    story(main)


def test_a_pod_that_goes_while_it_waits_is_no_trouble_any_more(tmp_path):
    """What nobody knows any more is neither tried again nor said to fail."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.server.errors["patch"] = ApiError("no", status=500)
            s.status("uid-web", "web", phase="Running")
            await s.settle()
            assert "pod status" in s.troubles
            s.forget(STATUS, "uid-web")
            await asyncio.sleep(60)
            assert s.troubles == {}
            assert len(s.server.calls) == 1

    story(main)


# --- Deaths. -------------------------------------------------------------------------------------


def test_a_successor_repeats_nothing(tmp_path):
    """What was written is in the ledger: not even before the list is there is it said again."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.status("uid-web", "web", phase="Running", podIP="10.0.0.1")
            await s.settle()
            await succeed(s)
            s.server.list()
            await asyncio.sleep(3 * RECONCILE_SECONDS)
            assert len(s.server.calls) == 1

    story(main)


def test_a_successor_says_what_its_predecessor_could_not(tmp_path):
    """Killed during the call, or before it: the newest status is written, when all is listed."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod(), pod("two"))
            s.server.gates[f"{WEB}/status"] = asyncio.Event()
            s.status("uid-web", "web", phase="Running")
            await s.settle()
            s.status("uid-two", "two", phase="Running", hint=False)
            s.die()
            s.server.gates.clear()
            await s.settle()
            s.pods.start()
            StatusWriter(s.kit, s.pods).start()
            await s.settle()
            assert len(s.server.calls) == 1
            s.server.list()
            await s.settle()
            assert phase(s) == "Running"
            assert phase(s, "/api/v1/namespaces/default/pods/two") == "Running"

    story(main)


def test_a_successor_compares_with_what_the_server_has(tmp_path):
    """The row of a pod knows nothing of our own words since: what they undid is said again."""

    async def main():
        async with scene(tmp_path) as s:
            ready, unready = condition("Ready"), condition("Ready", "False", reason="X")
            await begin(s, pod(status={"conditions": [ready]}))
            s.status("uid-web", "web", conditions=[unready])
            await s.settle()
            s.status("uid-web", "web", podIP="10.0.0.1", conditions=[ready], hint=False)
            await succeed(s)
            s.server.list()
            await s.settle()
            (found,) = s.server.objects[WEB]["status"]["conditions"]
            assert found["status"] == "True"
            assert len(s.server.calls) == 2

    story(main)


def test_an_object_that_is_newer_than_was_known_is_written_again(tmp_path):
    """What a patch did not say, because a list was old, is not taken for what a server drops."""

    async def main():
        async with scene(tmp_path) as s:
            ready, unready = condition("Ready"), condition("Ready", "False", reason="X")
            await begin(s, pod(status={"conditions": [ready]}))
            s.server.telling = False
            s.server.change(pod(status={"conditions": [unready]}))
            s.status("uid-web", "web", podIP="10.0.0.1", conditions=[ready])
            await s.settle()
            (found,) = s.server.objects[WEB]["status"]["conditions"]
            assert found["status"] == "True"
            assert len(s.server.calls) == 2

    story(main)


def test_a_table_of_statuses_that_began_anew_is_read_anew(tmp_path):
    """Versions that count from one again are other statuses, not older ones."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            for number in range(5):
                s.status("uid-web", "web", message=str(number))
                await s.settle()
            s.versions.clear()
            s.status("uid-web", "web", message="new")
            await s.settle()
            assert s.server.objects[WEB]["status"]["message"] == "new"

    story(main)


def test_what_nobody_knows_any_more_leaves_the_ledger(tmp_path):
    """The ledger does not grow with the pods that ever were."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            s.status("uid-web", "web", phase="Running")
            await s.settle()
            assert dict(s.kit.ledger.items("status"))
            s.forget(STATUS, "uid-web")
            assert not dict(s.kit.ledger.items("status"))

    story(main)


def test_a_broken_row_costs_nothing_else(tmp_path):
    """A row that is none is left out, and the next good one is taken."""

    async def main():
        async with scene(tmp_path) as s:
            await begin(s, pod())
            for odd in ({"uid": 5}, "text", {"document": b"[]", "uid": "u"}):
                s.syncloop.put(STATUS, "uid-web", odd)
                s.process.hint(STATUS, "uid-web")
            s.status("uid-web", "web", phase="Running")
            await s.settle()
            assert phase(s) == "Running"

    story(main)


def test_at_a_stop_the_rest_is_said(tmp_path):
    """What is queued is still written, if the server answers; else nobody waits for long."""

    async def main():
        async with scene(tmp_path) as s:
            names = [f"p{i:02}" for i in range(30)]
            await begin(s, *(pod(name) for name in names))
            for name in names:
                s.status(f"uid-{name}", name, phase="Running")
            await s.writer.stop()
            assert {one["status"]["phase"] for one in s.server.objects.values()} == {"Running"}
            s.server.gates["/api/v1/namespaces/default/pods/p00/status"] = asyncio.Event()
            s.status("uid-p00", "p00", phase="Failed")
            before = asyncio.get_running_loop().time()
            await s.writer.stop()
            assert asyncio.get_running_loop().time() - before < 3

    story(main)
