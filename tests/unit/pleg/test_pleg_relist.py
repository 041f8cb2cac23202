"""Looking: what costs calls, what is written, and what a failure leaves behind (G-1, G-4)."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import Code, CriError, Internal, Unavailable
from procs.pleg import relist
from procs.pleg.book import Book
from procs.pleg.relist import Relister, UnseenError
from tests.unit.pleg.standing import Runtime, until

BROKEN = Internal(Code.INTERNAL, "boom", "ContainerStatus")


@pytest.fixture
def runtime():
    return Runtime()


def story(process, runtime, work):
    async def main():
        book = Book(process)
        book.load()
        async with asyncio.timeout(10):
            await work(Relister(process, runtime, book), book)

    asyncio.run(main())


def test_g1_unchanged_pods_cost_two_lists(process, runtime):
    """The first look inspects, the second does not; nothing is written."""
    runtime.pod("u", ("a", "b"))

    async def work(eye, book):
        await eye.full()
        assert runtime.calls["ContainerStatus"] == 2
        hints = list(process.hints)
        await eye.full()
        assert runtime.calls == {
            "ListPodSandbox": 2,
            "ListContainers": 2,
            "PodSandboxStatus": 1,
            "ContainerStatus": 2,
        }
        assert process.hints == hints
        assert book.seen_ns("u") == book.full_look_ns

    story(process, runtime, work)


def test_a_successor_inspects_only_what_changed(process, runtime):
    """After a restart the table is compared with the runtime; no reader sees a hole."""
    for uid in "uvw":
        runtime.pod(uid)

    async def first(eye, _book):
        await eye.full()

    async def second(eye, book):
        runtime.calls.clear()
        process.hints.clear()
        runtime.containers["v-c"].state = pb.CONTAINER_EXITED
        del runtime.containers["w-c"], runtime.sandboxes["w-box"]
        await eye.full()
        assert runtime.calls["ContainerStatus"] == 1
        assert sorted(process.hints) == ["v", "w"]
        assert set(book.records) == {"u", "v"}

    story(process, runtime, first)
    story(process, runtime, second)


def test_g4_a_failed_inspection_keeps_the_old_record(process, runtime):
    """It is tried again at each full look, and the look does not claim to have seen the pod."""
    runtime.pod("u")
    runtime.pod("v")

    async def work(eye, book):
        await eye.full()
        before, stamp_ns = book.records["u"], book.seen_ns("u")
        runtime.containers["u-c"].state = pb.CONTAINER_EXITED
        runtime.faults["u-c"] = BROKEN
        await eye.full()
        assert book.records["u"] == before
        assert book.seen_ns("u") < book.full_look_ns
        assert book.seen_ns("u") < stamp_ns + 10**9
        assert book.unseen == ("u",)
        assert "pod u could not be inspected: ContainerStatus" in eye.problem
        del runtime.faults["u-c"]
        await eye.full()
        assert book.records["u"] != before
        assert (book.unseen, eye.problem) == ((), "")

    story(process, runtime, work)


def test_a_listing_that_fails_changes_nothing(process, runtime):
    """Neither records nor the stamp of the full look."""
    runtime.pod("u")

    async def work(eye, book):
        await eye.full()
        stamp_ns = book.full_look_ns
        runtime.faults["ListContainers"] = Unavailable(Code.UNAVAILABLE, "no", "ListContainers")
        with pytest.raises(CriError):
            await eye.full()
        assert book.full_look_ns == stamp_ns
        assert "u" in book.records

    story(process, runtime, work)


def test_a_failed_look_at_a_pod_that_is_not_there_is_forgotten(process, runtime):
    """What the next full look does not list is no problem any more, known before or not."""

    async def work(eye, book):
        runtime.faults["ListContainers"] = Unavailable(Code.UNAVAILABLE, "no", "ListContainers")
        with pytest.raises(CriError):
            await eye.pod("gone", asked=False)
        assert "gone" in eye.problem
        del runtime.faults["ListContainers"]
        await eye.full()
        assert (book.unseen, eye.problem) == ((), "")

    story(process, runtime, work)


def test_one_inspection_that_hangs_holds_up_no_other(process, runtime, monkeypatch):
    """The full look goes on without it, and it ends when it is answered."""
    monkeypatch.setattr(relist, "PATIENCE", 0.5)
    runtime.pod("u")
    runtime.pod("v")

    async def work(eye, book):
        stuck = runtime.faults["u-c"] = asyncio.Event()
        await eye.full()
        assert set(book.records) == {"v"}
        assert book.unseen == ("u",)
        calls = runtime.calls["ContainerStatus"]
        await eye.full()
        assert runtime.calls["ContainerStatus"] == calls  # asked once
        stuck.set()
        await until(lambda: "u" in book.records)
        await eye.full()
        assert book.unseen == ()

    story(process, runtime, work)


def test_too_many_that_fail_are_a_failed_look(process, runtime):
    """Then nobody is told that everything was looked at."""
    for number in range(relist.MAX_UNSEEN + 1):
        runtime.pod(f"p{number}")
    runtime.faults["ContainerStatus"] = BROKEN

    async def work(eye, book):
        with pytest.raises(UnseenError, match="and 100 more could not be inspected"):
            await eye.full()
        assert book.full_look_ns == 0

    story(process, runtime, work)


def test_a_look_at_one_pod(process, runtime):
    """Only its own objects are listed and asked for; what it finds is stamped with its begin."""
    runtime.pod("u")
    runtime.pod("v")

    async def work(eye, book):
        looked = await eye.pod("u", asked=True)
        assert looked.changed
        assert book.seen_ns("u") == looked.stamp_ns
        assert set(book.records) == {"u"}
        again = await eye.pod("u", asked=True)
        assert not again.changed
        assert process.view.pod("u").stamp_ns == again.stamp_ns

    story(process, runtime, work)


def test_a_look_that_finds_nothing_says_gone(process, runtime):
    """Until a newer full look speaks for it; a hint about nobody writes nothing."""
    runtime.pod("u")

    async def work(eye, book):
        await eye.full()
        del runtime.containers["u-c"], runtime.sandboxes["u-box"]
        looked = await eye.pod("u", asked=False)
        assert process.view.pod("u") == (None, looked.stamp_ns)
        await eye.full()
        assert book.records["u"].gone  # nobody may know less than before, even for a moment
        await eye.full()
        assert book.records == {}
        await eye.pod("nobody", asked=False)
        assert "nobody" not in book.records
        looked = await eye.pod("nobody", asked=True)
        assert process.view.pod("nobody") == (None, looked.stamp_ns)

    story(process, runtime, work)


def test_what_goes_while_it_is_looked_at_is_not_an_error(process, runtime):
    """NotFound between list and status: it is simply not there."""
    runtime.pod("u", ("a", "b"))
    listed = runtime.list_containers

    async def and_gone(chosen=None):
        found = await listed(chosen)
        runtime.containers.pop("u-a", None)
        return found

    runtime.list_containers = and_gone

    async def work(eye, book):
        await eye.full()
        assert [c.id for c in book.records["u"].containers] == ["u-b"]
        calls = runtime.calls["ContainerStatus"]
        await eye.full()
        assert runtime.calls["ContainerStatus"] == calls

    story(process, runtime, work)


def test_a_quarantined_pod_is_left_alone(process, runtime):
    """Its handling has killed this process before."""
    runtime.pod("u")
    process.quarantined = frozenset({"u"})

    async def work(eye, book):
        await eye.full()
        assert not (await eye.pod("u", asked=True)).changed
        assert book.records == {}
        assert book.unseen == ("u",)

    story(process, runtime, work)


def test_what_no_kubelet_made_is_counted_and_said_once(process, runtime):
    """It is never asked about."""
    runtime.containers["alien"] = pb.Container(id="alien")

    async def work(eye, _book):
        await eye.full()
        await eye.full()
        assert eye.foreign == ("alien",)
        assert runtime.calls["ContainerStatus"] == 0
        assert [r for r in process.records if r[0] == "foreign"] == [("foreign", "1: alien", "")]

    story(process, runtime, work)
