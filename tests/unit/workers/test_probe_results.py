"""What the probes found, from table ``probes`` to the status and the plan (B-18, P-78, P-133)."""

from __future__ import annotations

import pytest

from kubelet.api.status import ContainerStatus, PodStatus
from kubelet.channels.wire import ANY_KEY
from kubelet.pods.probes import PROBES, Finding, ProbesRow
from kubelet.process.tables import Tables
from procs.syncloop.probes.results import Results, news_of, started_in, view_of
from procs.syncloop.status.context import ProbeView
from shm.codec import pack
from shm.table import Writer
from shm.tables import BY_NAME
from tests.unit.workers.probe_scene import (
    FAILURE,
    LIVENESS,
    READINESS,
    STARTUP,
    SUCCESS,
    UNKNOWN,
    findings,
    pod,
    probed,
)

BAD = pack({"id": 1})


class Hand:
    """The table as prober writes it, and its reader."""

    def __init__(self, directory) -> None:
        self.writer = Writer.attach(directory, BY_NAME[PROBES])
        self.tables = Tables(directory, "syncloop")

    def put(self, row: ProbesRow) -> None:
        self.writer.put(row.id, pack(row.to_wire()))

    def close(self) -> None:
        self.tables.close()
        self.writer.close()


@pytest.fixture
def hand(tmp_path):
    made = Hand(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("found", "ready", "started"),
    [
        ({}, None, None),
        ({"readiness": UNKNOWN, "startup": UNKNOWN}, None, None),
        ({"readiness": FAILURE}, False, None),
        ({"readiness": SUCCESS}, True, None),
        ({"startup": SUCCESS}, None, True),
        ({"startup": FAILURE, "readiness": SUCCESS}, True, False),
        ({"liveness": FAILURE}, None, None),
    ],
)
def test_what_a_row_says_of_ready_and_started(found, ready, started):
    """B-18, P-133: without a verdict nothing is said, so that a container stays what it was."""
    assert view_of(findings("app-0", **found)) == ProbeView(ready, started)


@pytest.mark.parametrize(
    ("before", "now", "planned"),
    [
        (None, {"readiness": SUCCESS}, False),
        ({"readiness": SUCCESS}, {"readiness": FAILURE}, False),
        (None, {"liveness": SUCCESS}, False),
        ({"liveness": SUCCESS}, {"liveness": FAILURE}, True),
        ({"liveness": FAILURE}, {"liveness": SUCCESS}, False),
        ({"startup": UNKNOWN}, {"startup": SUCCESS}, True),
        ({"startup": UNKNOWN}, {"startup": FAILURE}, True),
    ],
)
def test_the_plan_depends_on_failures_and_on_starts(before, now, planned):
    """P-78, P-75: a container is to be killed, or the next one may begin; readiness is shown."""
    old = None if before is None else findings("app-0", **before)
    news = news_of(old, findings("app-0", **now))
    assert news is not None
    assert (news.pod, news.planned) == ("u1", planned)


def test_a_new_moment_or_message_of_the_same_verdict_is_no_news():
    """Who reads of the same verdict again has nothing to do."""
    row = findings("app-0", readiness=FAILURE)
    again = ProbesRow("app-0", "u1", "app", {READINESS: Finding(FAILURE, 9, "timed out")})
    assert news_of(row, again) is None
    assert news_of(None, findings("app-0", liveness=UNKNOWN)) is None


def test_what_is_held_before_the_first_probe_is_no_story():
    """B-3: a new row is shown, but a trace says only what a probe has found."""
    news = news_of(None, findings("app-0", liveness=SUCCESS, readiness=FAILURE))
    assert news is not None
    assert news.words == ()
    news = news_of(None, findings("app-0", liveness=FAILURE, readiness=SUCCESS))
    assert news is not None
    assert len(news.words) == 2


def test_what_a_predecessor_did_not_see_is_there_from_the_beginning(hand):
    """A failure that was found while nobody read is acted on by who comes next (P-78)."""
    hand.put(findings("app-0", liveness=FAILURE, readiness=SUCCESS))
    results = Results(hand.tables)
    assert results.failed(LIVENESS, ["app-0", "side-0"]) == {"app-0"}
    assert results.failed(STARTUP, ["app-0"]) == frozenset()
    assert results.views(["app-0", "side-0"]) == {"app-0": ProbeView(ready=True)}


def test_only_rows_with_another_content_are_news(hand):
    """A hint about everything costs a comparison for each row, and tells of those that changed."""
    for number in range(20):
        hand.put(findings(f"app-{number}", f"u{number}", readiness=SUCCESS))
    results = Results(hand.tables)
    assert results.take(ANY_KEY) == []
    hand.put(findings("app-7", "u7", readiness=SUCCESS))  # written again, and the same
    hand.put(findings("app-8", "u8", readiness=FAILURE))
    (news,) = results.take(ANY_KEY)
    assert (news.pod, news.words) == (
        "u8",
        ("readiness of app app-8: failure, connection refused",),
    )
    assert results.take("app-8") == []


def test_a_row_that_goes_takes_its_verdict_along_and_is_no_news(hand):
    """P-133: a prober that forgets makes no container unready, and none is killed any more."""
    hand.put(findings("app-0", liveness=FAILURE, readiness=SUCCESS))
    results = Results(hand.tables)
    hand.writer.delete("app-0")
    assert results.take(ANY_KEY) == []
    assert results.views(["app-0"]) == {}
    assert results.failed(LIVENESS, ["app-0"]) == frozenset()


def test_a_row_that_makes_no_sense_says_nothing(hand):
    """It is neither a success nor a failure, and the next good one counts again."""
    hand.put(findings("app-0", readiness=SUCCESS))
    results = Results(hand.tables)
    hand.writer.put("app-0", BAD)
    assert results.take("app-0") == []
    assert results.views(["app-0"]) == {}
    hand.put(findings("app-0", readiness=SUCCESS))
    assert [news.pod for news in results.take("app-0")] == ["u1"]


def test_a_table_that_is_not_there_says_nothing(tmp_path):
    """Before prober was ever started there is no table; nothing is known then."""
    tables = Tables(tmp_path, "syncloop")
    results = Results(tables)
    assert results.take(ANY_KEY) == []
    assert results.views(["app-0"]) == {}
    tables.close()


def test_which_containers_have_started_is_what_their_status_says():
    """P-75, P-133: of containers with a startup probe, by the runtime's id, and of no others."""
    wanted = pod(
        probed("app", STARTUP),
        probed("free", LIVENESS),
        init=(probed("side", STARTUP, restartPolicy="Always"), probed("next", STARTUP)),
    )
    status = PodStatus(
        init_container_statuses=(
            ContainerStatus(name="side", container_id="containerd://s1", started=True),
            ContainerStatus(name="next"),
        ),
        container_statuses=(
            ContainerStatus(name="app", container_id="cri-o://a1", started=False),
            ContainerStatus(name="free", container_id="cri-o://f1", started=True),
        ),
    )
    assert started_in(wanted, status) == {"s1": True, "a1": False}
