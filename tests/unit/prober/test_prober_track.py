"""What results make of a container: thresholds, holds and initial values (B-3, B-5 to B-9)."""

from __future__ import annotations

import pytest

from kubelet.pods.probes import Finding, ProbeKind, Track, Verdict
from procs.prober import track
from procs.prober.track import Standing, Thresholds

L, R, S = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP
GOOD, POOR, OPEN = Verdict.SUCCESS, Verdict.FAILURE, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "status", "verdict"),
    [
        (L, {}, GOOD),
        (R, {}, POOR),
        (S, {}, OPEN),
        (S, {"started": True}, GOOD),
        (R, {"ready": True}, GOOD),
        (R, {"started": True}, POOR),
        (S, {"ready": True}, OPEN),
        (L, {"started": True, "ready": True}, GOOD),
    ],
)
def test_a_probe_begins_with_its_initial_value_or_with_what_the_status_says(kind, status, verdict):
    """B-3, B-7: a container that had started or was ready stays so until a probe says otherwise."""
    assert track.initial(kind, **status) == Standing(verdict)


def history(kind, results, limits, standing=None):
    """The verdicts after each result: ``+`` succeeded, ``-`` failed; ``h`` marks a hold."""
    standing = standing or track.initial(kind)
    found = []
    for result in results:
        standing = track.after(kind, standing, limits, failed=result == "-")
        held = "h" if track.is_held(kind, standing) else ""
        found.append(standing.verdict.value[0] + held)
    return " ".join(found)


@pytest.mark.parametrize(
    ("kind", "results", "limits", "verdicts"),
    [
        (L, "+--", Thresholds(1, 3), "s s s"),
        (L, "---", Thresholds(1, 3), "s s fh"),
        (L, "--+--", Thresholds(1, 3), "s s s s s"),
        (L, "-", Thresholds(1, 1), "fh"),
        (R, "+", Thresholds(1, 3), "s"),
        (R, "++-++", Thresholds(2, 1), "f s f f s"),
        (R, "+-+-+", Thresholds(2, 3), "f f f f f"),
        (R, "+--+---+", Thresholds(1, 3), "s s s s s s f s"),
        (S, "---", Thresholds(1, 4), "u u u"),
        (S, "--+", Thresholds(1, 3), "u u sh"),
        (S, "---", Thresholds(1, 3), "u u fh"),
    ],
)
def test_as_many_equal_results_in_a_row_as_asked_for_make_a_verdict(
    kind, results, limits, verdicts
):
    """B-8, B-9: thresholds count results in a row; a decided startup and a failed liveness hold."""
    assert history(kind, results, limits) == verdicts


@pytest.mark.parametrize(
    ("kind", "verdict", "after"),
    [(L, POOR, GOOD), (S, OPEN, GOOD), (S, POOR, GOOD), (R, POOR, POOR), (R, GOOD, GOOD)],
)
def test_the_end_of_a_pod_makes_liveness_and_startup_a_success(kind, verdict, after):
    """B-6: readiness alone goes on as it is."""
    assert track.ended(kind, Standing(verdict, 2, failing=True)).verdict is after


@pytest.mark.parametrize(
    ("kind", "startup", "waits"),
    [
        (L, None, False),
        (R, None, False),
        (L, OPEN, True),
        (R, OPEN, True),
        (R, POOR, True),
        (L, GOOD, False),
        (S, OPEN, False),
    ],
)
def test_liveness_and_readiness_wait_for_the_container_to_have_started(kind, startup, waits):
    """B-5: without a startup probe nothing is waited for."""
    assert track.waits(kind, startup and Standing(startup)) is waits


def test_a_streak_goes_on_in_the_next_process():
    """B-8: two failures before a death and one after it are three in a row."""
    past = track.remembered(L, Finding(GOOD), Track(streak=2, failing=True))
    assert history(L, "-", Thresholds(1, 3), past) == "fh"


def test_a_verdict_counts_though_its_writer_died_before_it_wrote_the_streak():
    """B-9: what was decided is held, whatever the other row says."""
    past = track.remembered(L, Finding(POOR), Track(streak=2, failing=True))
    assert track.is_held(L, past)
    assert track.is_held(S, track.remembered(S, Finding(GOOD), Track(streak=0)))


@pytest.mark.parametrize(
    ("standing", "settled"),
    [
        (Standing(GOOD), False),
        (Standing(GOOD, 1), True),
        (Standing(GOOD, 1, failing=True), False),
        (Standing(POOR, 1), False),
        (Standing(OPEN, 3), False),
    ],
)
def test_a_rhythm_is_shifted_only_while_a_probe_succeeds(standing, settled):
    """A probe that fails, or has no verdict yet, keeps the rhythm that its user asked for."""
    assert standing.settled is settled
