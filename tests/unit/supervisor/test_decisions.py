"""The supervisor's smaller decisions: silence, quarantine, endings, cgroup places, paths."""

from __future__ import annotations

import signal

import pytest

from supervisor import cgroups, liveness, privileges, quarantine
from supervisor.exits import Exit, ExitCode
from supervisor.kinds import BY_NAME, KINDS, NAMES
from supervisor.linux import CAPABILITIES
from supervisor.liveness import Silence, Verdict
from supervisor.notify import take_stored, watchdog_period
from supervisor.rundir import RunDir, RunDirError, check_paths, prepare


@pytest.mark.parametrize(
    ("silence", "verdict"),
    [
        (Silence(since_beat=4.9, timeout=5), Verdict.ALIVE),
        (Silence(since_beat=5.0, timeout=5), Verdict.STUCK),
        (Silence(since_beat=5.0, timeout=5, watched=2.5, run_delay=0.1), Verdict.STUCK),
        (Silence(since_beat=5.0, timeout=5, watched=2.5, run_delay=2.0), Verdict.STARVED),
        (Silence(since_beat=29.9, timeout=5, watched=27, run_delay=26), Verdict.STARVED),
        (Silence(since_beat=30.0, timeout=5, watched=27, run_delay=26), Verdict.STUCK),
    ],
)
def test_a_starved_process_is_not_a_stuck_one(silence: Silence, verdict: Verdict) -> None:
    """Waiting for a CPU excuses silence, up to six time-outs."""
    assert liveness.judge(silence) is verdict


def test_the_supervisors_own_absence_is_noticed() -> None:
    """Twice the period and half a second later than the last look is a gap."""
    assert not liveness.gap(10.0, 12.4, period=1.0)
    assert liveness.gap(10.0, 12.6, period=1.0)


def test_the_third_death_quarantines_a_pod_for_that_kind() -> None:
    """Two deaths do not; other kinds are not told to leave it alone."""
    cases: tuple[quarantine.Case, ...] = ()
    for now in (1.0, 2.0):
        cases = quarantine.blame(cases, "uid", "pleg", now)
    assert quarantine.pods(cases, "pleg") == ()
    cases = quarantine.blame(cases, "uid", "pleg", 3.0)
    assert quarantine.pods(cases, "pleg") == ("uid",)
    assert quarantine.pods(cases, "syncloop") == ()
    assert quarantine.release(cases, "uid") == ()


def test_old_deaths_are_forgotten_but_a_quarantine_is_not() -> None:
    """Deaths must fall into one window; what is quarantined stays so."""
    cases = quarantine.blame((), "old", "pleg", 0.0)
    cases = quarantine.blame(cases, "old", "pleg", quarantine.WINDOW + 1)
    assert cases[0].deaths == 1
    for now in (0.0, 1.0, 2.0):
        cases = quarantine.blame(cases, "bad", "pleg", now)
    cases = quarantine.blame(cases, "other", "pleg", quarantine.WINDOW * 10)
    assert quarantine.pods(cases, "pleg") == ("bad",)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (Exit(-signal.SIGKILL), "killed by SIGKILL"),
        (Exit(-signal.SIGKILL, out_of_memory=True), "killed by SIGKILL (out of memory)"),
        (Exit(ExitCode.CRASHED), "exit 70 (crashed)"),
        (Exit(3), "exit 3"),
        (Exit(-50), "killed by signal 50"),
    ],
)
def test_endings_are_said_in_words(how: Exit, text: str) -> None:
    """Signals by name, codes by their meaning."""
    assert how.text == text


def test_cgroups_go_below_a_delegated_unit_on_v2() -> None:
    """A systemd unit with Delegate=yes is divided as it is."""
    mounts = cgroups.parse_mounts(
        "26 23 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    own = cgroups.parse_own("0::/system.slice/kubelet.service\n")
    (found,) = cgroups.plan(own, mounts, "/run/kubelet")
    assert found.version == 2
    assert found.base == "/sys/fs/cgroup/system.slice/kubelet.service"
    again = cgroups.parse_own("0::/system.slice/kubelet.service/supervisor\n")
    assert cgroups.plan(again, mounts, "/run/kubelet") == [found]


def test_cgroups_on_v1_get_a_group_of_their_own_named_after_the_run_directory() -> None:
    """One group per hierarchy, co-mounted controllers once, and no collision between two nodes."""
    mounts = cgroups.parse_mounts(
        "1 2 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n"
        "1 2 0:2 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "1 2 0:3 / /cg/unified rw - cgroup2 cgroup2 rw\n"
    )
    own = cgroups.parse_own("4:memory:/\n3:cpu,cpuacct:/slice\n0::/\n")
    found = cgroups.plan(own, mounts, "/run/a")
    assert [h.version for h in found] == [1, 1]
    assert found[0].base.startswith("/cg/memory/kubelet-")
    assert found[1].base.startswith("/cg/cpu,cpuacct/slice/kubelet-")
    assert found[1].controllers == ("cpu", "cpuacct")
    other = cgroups.plan(own, mounts, "/run/b")
    assert {h.base for h in found}.isdisjoint(h.base for h in other)


def test_no_cgroup_mounted_is_a_reason_not_an_error() -> None:
    """Without a hierarchy nothing is made, and the reason is there to be shown."""
    groups = cgroups.Groups(cgroups.plan({}, {}, "/run/a"))
    assert not groups.active
    assert groups.problem


def test_a_run_directory_too_long_for_sockets_is_refused_with_the_limit() -> None:
    """The error names the path, its length, and what would fit."""
    with pytest.raises(RunDirError, match=r"107 are allowed; use a path of at most \d+ bytes"):
        check_paths(RunDir("/" + "x" * 100), NAMES)
    check_paths(RunDir("/run/kubelet"), NAMES)


def test_a_run_directory_that_is_a_file_is_refused(tmp_path) -> None:
    """The error names the directory and the cause."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(RunDirError, match=r"--run-dir: .*/file/run: cannot be used"):
        prepare(RunDir(str(file / "run")), {}, 0)


@pytest.mark.parametrize("user", ["root", "0", "0:5", "12:0", "no-such-user", "12:x"])
def test_a_bad_unprivileged_user_is_refused(user: str) -> None:
    """Root, a missing user and a malformed group are errors that name the flag and the value."""
    with pytest.raises(ValueError, match=f"--unprivileged-user: {user}"):
        privileges.resolve(user, "kubelet")


def test_the_default_user_may_be_missing() -> None:
    """A host without it still runs those processes without root, and says so."""
    found = privileges.resolve("surely-not-here", "surely-not-here")
    assert (found.uid, found.gid) == (privileges.FALLBACK_ID, privileges.FALLBACK_ID)
    assert found.note


def test_a_watchdog_of_a_second_or_less_is_an_error() -> None:
    """K-1: WatchdogSec must be above 1 s; half of it is the period; another pid's is not ours."""
    assert watchdog_period({}, 7) is None
    assert watchdog_period({"WATCHDOG_USEC": "30000000"}, 7) == 15.0
    assert watchdog_period({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, 7) is None
    with pytest.raises(ValueError, match="longer than 1 s"):
        watchdog_period({"WATCHDOG_USEC": "1000000"}, 7)


def test_stored_descriptors_of_another_process_are_left_alone() -> None:
    """LISTEN_PID decides; the variables are consumed either way."""
    environ = {"LISTEN_FDS": "2", "LISTEN_PID": "8", "LISTEN_FDNAMES": "a:b"}
    assert take_stored(environ, 7) == {}
    assert environ == {}


def test_the_table_of_kinds_is_complete() -> None:
    """Seven kinds, each with an entry, a stop stage, known capabilities, and none without root."""
    assert len(KINDS) == len(BY_NAME) == 7
    for kind in KINDS:
        assert kind.entry == f"procs.{kind.name}.main:main"
        assert kind.stop_stage >= 1
        assert kind.capabilities <= CAPABILITIES.keys()
        assert kind.root or not kind.capabilities
