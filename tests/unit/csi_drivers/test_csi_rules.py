"""What is asked of a plugin that registers, as pure decisions."""

from __future__ import annotations

import pytest

from procs.volumes.csi.errors import CsiError, RegistrationError, TakenError
from procs.volumes.csi.registration_rules import (
    Offer,
    PluginInfo,
    check_free,
    highest,
    offer,
    wait_seconds,
)

SOCKET = "/registry/d-reg.sock"


@pytest.mark.parametrize(
    ("versions", "best"),
    [
        (["1.0.0"], (1, 0)),
        (["1.2.0", "1.11.3", "1.9"], (1, 11, 3)),
        (["v1.4.0-rc1"], (1, 4)),
        (["0.3.0", "1.0.0", "2.0.0"], (1, 0)),
        (["nonsense", "1.1"], (1, 1)),
    ],
)
def test_the_highest_version_that_both_know_counts(versions, best):
    """L-41: of 1.x the highest; 2.x is not known, and what is no version does not matter."""
    assert highest(versions) == best


@pytest.mark.parametrize("versions", [[], ["0.3.0"], ["2.0.0"], ["one"], ["1"], ["01.2"]])
def test_a_driver_without_version_1_is_refused(versions):
    """L-41: the sentence names the field and what it held."""
    with pytest.raises(RegistrationError, match="supported_versions"):
        highest(versions)


def test_a_plugin_without_an_endpoint_serves_where_it_registers():
    """L-40: one socket may be both; a scheme in front of an endpoint does not matter."""
    assert offer(PluginInfo("CSIPlugin", "d", "", ("1.0.0",)), SOCKET).endpoint == SOCKET
    given = PluginInfo("CSIPlugin", "d", "unix:///a/b", ("1.0.0",))
    assert offer(given, SOCKET) == Offer("d", "/a/b", (1, 0))


@pytest.mark.parametrize(
    ("info", "word", "again"),
    [
        (PluginInfo("DevicePlugin", "d", "/e", ("v1beta1",)), "DevicePlugin", False),
        (PluginInfo("DRAPlugin", "d", "/e", ("v1",)), "DRAPlugin", False),
        (PluginInfo("", "d", "/e", ("1.0",)), "plugin type ''", False),
        (PluginInfo("CSIPlugin", "", "/e", ("1.0",)), "name", True),
        (PluginInfo("CSIPlugin", "../up", "/e", ("1.0",)), "name '../up'", True),
        (PluginInfo("CSIPlugin", "a..b", "/e", ("1.0",)), "name 'a..b'", True),
        (PluginInfo("CSIPlugin", "a" * 64, "/e", ("1.0",)), "64 characters", True),
        (PluginInfo("CSIPlugin", "d", "relative", ("1.0",)), "endpoint 'relative'", True),
        (PluginInfo("CSIPlugin", "d", "/" + "x" * 200, ("1.0",)), "201 bytes", True),
    ],
)
def test_what_is_wrong_with_a_plugin_is_named(info, word, again):
    """L-40: a sentence names field and value; a type that nobody handles is not tried again."""
    with pytest.raises(RegistrationError) as caught:
        offer(info, SOCKET)
    assert word in str(caught.value)
    assert caught.value.again is again


@pytest.mark.parametrize(
    ("holder", "free"),
    [
        (None, True),
        ((SOCKET, (1, 9)), True),
        (("/other", (1, 1)), True),
        (("/other", (1, 2)), False),
        (("/other", (1, 2, 1)), False),
    ],
)
def test_a_name_is_taken_over_only_with_a_higher_version(holder, free):
    """L-41: a second plugin of the same name needs a higher version, at its own socket nothing."""
    wanted = Offer("d", "/e", (1, 2))
    if free:
        check_free(wanted, holder, SOCKET)
    else:
        with pytest.raises(TakenError, match="/other"):
            check_free(wanted, holder, SOCKET)


def test_waits_double_up_to_two_minutes():
    """L-40: 500 ms at first, then twice as long each time, 2m2s at most."""
    assert [wait_seconds(n) for n in (1, 2, 3, 8, 9, 10**6)] == [0.5, 1, 2, 64, 122, 122]


@pytest.mark.parametrize("code", range(1, 17))
def test_only_some_codes_leave_a_volume_in_doubt(code):
    """L-43: Canceled, DeadlineExceeded, ResourceExhausted, Aborted, Unavailable are not final."""
    error = CsiError("d", "NodeStageVolume", code, "words")
    assert error.final is (code not in {1, 4, 8, 10, 14})
    assert "NodeStageVolume of CSI driver d: rpc error: code = " in str(error)
