"""The table of requests, the names of sockets, and the errors."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubelet.channels import messages, paths
from kubelet.channels.errors import (
    ChannelError,
    ErrorKind,
    RequestTimeoutError,
    SocketPathTooLong,
    remote_error,
)
from kubelet.channels.messages import ANYONE, CTL, KINDS, Request, request
from kubelet.channels.schema import decode
from supervisor.kinds import NAMES


def test_every_request_is_whole():
    """Each row names a frozen body and reply that decode, known kinds and a known name."""
    for name, row in messages.BY_NAME.items():
        assert row.name == name
        assert row.handled_by <= KINDS
        assert row.allowed <= ANYONE
        for cls in (row.body, row.reply):
            assert dataclasses.is_dataclass(cls)
            assert cls.__dataclass_params__.frozen
            with pytest.raises(ValueError, match="not a map"):
                decode(cls, None)


@pytest.mark.parametrize("name", ["tasks", "profile", "metrics", "restart", "set-verbosity"])
def test_what_changes_or_shows_a_process_is_for_the_operator(name):
    """No process of the tree may send these to another."""
    assert messages.BY_NAME[name].allowed == {CTL}


def test_who_may_send_the_rest():
    """Anyone pings; a reader of a table, whatever its kind, may have it checked."""
    assert messages.BY_NAME["ping"].allowed == set(NAMES) | {CTL}
    assert messages.BY_NAME["check-table"].allowed == set(NAMES)


def test_a_row_is_entered_once_and_for_known_kinds():
    """A name entered twice and a kind that does not exist are found at import."""
    with pytest.raises(ValueError, match="twice"):
        request("ping", allowed=ANYONE)(messages.Ping)
    with pytest.raises(ValueError, match="nobody"):
        request("new", allowed={"nobody"})(messages.Ping)
    with pytest.raises(ValueError, match="supervisor"):
        request("new", allowed=ANYONE, handled_by={"supervisor"})(messages.Ping)
    assert issubclass(messages.Ping, Request)


@pytest.mark.parametrize(
    "body",
    [
        {"seconds": 0},
        {"seconds": -1.0},
        {"seconds": float("nan")},
        {"seconds": 601},
        {"seconds": 1, "hertz": 0},
        {"seconds": 1, "hertz": 5000},
        {"seconds": 1, "mode": "gpu"},
    ],
)
def test_a_profile_out_of_range_is_refused(body):
    """Ranges belong to the type."""
    with pytest.raises(ValueError, match=r"allowed|one of"):
        decode(messages.Profile, body)


def test_a_verbosity_out_of_range_is_refused():
    """Levels go from 0 to 10."""
    assert decode(messages.SetVerbosity, {"level": 10}).level == 10
    with pytest.raises(ValueError, match="0 to 10"):
        decode(messages.SetVerbosity, {"level": 11})


def test_a_socket_path_of_the_kernel_s_length_is_accepted_and_one_more_is_not():
    """The limit is exact, counted in bytes, and the error names path and limit."""
    rest = len("/channels/eviction/requests")
    fits = Path("/" + "d" * (paths.PATH_LIMIT - rest - 1))
    paths.check_socket_paths(fits, NAMES)
    assert len(str(paths.socket_path(fits, "eviction", paths.REQUESTS))) == 107
    with pytest.raises(SocketPathTooLong) as caught:
        paths.check_socket_paths(Path(f"{fits}d"), NAMES)
    assert caught.value.limit == 107
    assert caught.value.path.startswith(f"{fits}d/channels/")
    assert caught.value.path.endswith("/requests")
    assert "108 bytes" in str(caught.value)
    with pytest.raises(SocketPathTooLong):
        paths.check_socket_paths(Path(str(fits)[:-1] + "é"), NAMES)


def test_the_path_check_does_not_import_zeromq():
    """The supervisor, which must stay free of it, can use the check."""
    code = "import sys, kubelet.channels.paths; sys.exit('zmq' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_every_error_kind_is_an_exception(kind):
    """Each kind of error reply has a type, and its text says who answered what."""
    error = remote_error("pleg", "ping", kind, "because")
    assert isinstance(error, ChannelError)
    assert str(error) == "pleg answered ping: because"
    assert isinstance(error, TimeoutError) == (kind is ErrorKind.TIMEOUT)
    assert issubclass(RequestTimeoutError, TimeoutError)


def test_the_page_lists_every_request_and_its_senders():
    """The table in docs/channels.md is the table of messages."""
    page = (Path(__file__).parents[3] / "docs" / "channels.md").read_text()
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", page, re.MULTILINE))
    names = {frozenset(ANYONE): "every kind, `kubeletctl`", frozenset({CTL}): "`kubeletctl`"}
    names[frozenset(KINDS)] = "every kind"
    for row in messages.BY_NAME.values():
        assert listed[row.name] == names.get(row.allowed, ", ".join(sorted(row.allowed)))
