"""The runtime's events (G-7): a reason to look, followed again whenever the stream breaks."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import Code, Unavailable, Unimplemented
from procs.pleg import events
from procs.pleg.events import FIRST_PAUSE, LAST_PAUSE, Events, next_pause, pod_of
from procs.pleg.listing import UID_LABEL
from tests.unit.pleg.standing import until


def event(kind=pb.CONTAINER_STOPPED_EVENT, uid="u"):
    made = pb.ContainerEventResponse(container_id="c", container_event_type=kind)
    if uid:
        made.pod_sandbox_status.labels[UID_LABEL] = uid
    return made


def test_g7_only_an_end_is_a_reason_to_look():
    """G-7: CONTAINER_STOPPED asks for a look at its pod; what is nobody's does not."""
    assert pod_of(event()) == "u"
    assert pod_of(event(pb.CONTAINER_STARTED_EVENT)) is None
    assert pod_of(event(uid="")) is None
    assert pod_of(event(uid="runtime")) is None
    made = event(uid="")
    made.containers_statuses.add(labels={UID_LABEL: "v"})
    assert pod_of(made) == "v"


def test_pauses_grow_from_a_tenth_to_thirty_seconds():
    """They double."""
    pauses = [FIRST_PAUSE]
    while pauses[-1] < LAST_PAUSE:
        pauses.append(next_pause(pauses[-1]))
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == next_pause(pauses[-1]) == 30.0


class Stream:
    """A client whose streams are given."""

    def __init__(self, *streams):
        self.streams = list(streams)
        self.opened = 0

    async def get_container_events(self):
        self.opened += 1
        if not self.streams:
            await asyncio.Event().wait()
        for item in self.streams.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item


@pytest.fixture
def follow(process, monkeypatch):
    """Follow streams until something is true; who was to be looked at."""
    monkeypatch.setattr(events, "FIRST_PAUSE", 0.001)

    def run(client, done, restart=False):
        looked = []

        async def main():
            restarted = asyncio.Event()
            task = asyncio.ensure_future(Events(process, client, looked.append, restarted).run())
            await until(done)
            if restart:
                opened = client.opened
                await asyncio.sleep(0.02)
                assert client.opened == opened
                restarted.set()
                await until(lambda: client.opened == opened + 1)
            task.cancel()

        asyncio.run(main())
        return looked

    return run


def test_a_stream_that_breaks_is_opened_again(follow, process):
    """After an error and after an end; what comes is counted."""
    broken = Unavailable(Code.UNAVAILABLE, "gone", "GetContainerEvents")
    client = Stream([event(uid="a"), broken], [event(uid="b")], [broken])
    assert follow(client, lambda: client.opened == 4) == ["a", "b"]
    assert process.row.counters["events"] == 2
    assert process.row.counters["event_errors"] == 2
    assert process.row.counters["event_connects"] == 4


def test_a_runtime_without_events_is_asked_again_when_it_restarted(follow):
    """Not before."""
    missing = Unimplemented(Code.UNIMPLEMENTED, "no", "GetContainerEvents")
    client = Stream([missing])
    follow(client, lambda: client.opened == 1, restart=True)
