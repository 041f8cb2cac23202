"""Who is who: the kernel's credentials against the supervisor's list."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from kubelet.channels import peers
from kubelet.channels.peers import Credentials, PeerBook, parse_address

OWN = os.getuid()
UNPRIVILEGED = 64999


class State:
    """A ``state.json``, replaced by rename as the supervisor does."""

    def __init__(self, path):
        self.path = path

    def write(self, kinds: dict[str, int], supervisor: int = 1 << 30) -> None:
        processes = [{"name": name, "pid": pid, "state": "running"} for name, pid in kinds.items()]
        state = {"schema": 1, "pid": supervisor, "processes": processes}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(state | {"unprivileged_uid": UNPRIVILEGED}))
        new.rename(self.path)


@pytest.fixture
def state(tmp_path):
    return State(tmp_path / "state.json")


@pytest.fixture
def sleeper():
    """A real process that is our child."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost:0:0:2725", Credentials(0, 2725)),
        ("a:b:c:1000:100:7", Credentials(1000, 7)),
        (":1:2:3", Credentials(1, 3)),
        ("localhost", None),
        ("", None),
        ("127.0.0.1:5000", None),
        ("localhost:0:0:-1", None),
        ("localhost:0:0:\u0663", None),
        ("localhost:x:0:1", None),
    ],
)
def test_the_address_of_libzmq_is_read(address, expected):
    """Only user, group and process id, all plain numbers, are accepted."""
    assert parse_address(address) == expected


def test_a_listed_process_is_its_kind(state):
    """Kinds are known by process id, under the two users that the tree runs as."""
    state.write({"pleg": 4001, "prober": 4002, "api": 0})
    book = PeerBook(state.path, own_uid=OWN)
    assert book(OWN, 4001) == "pleg"
    assert book(UNPRIVILEGED, 4002) == "prober"


def test_a_listed_process_id_under_a_foreign_user_is_a_stranger(state):
    """A process id that somebody else got after a kind died does not pass for it."""
    state.write({"prober": 4002})
    assert PeerBook(state.path, own_uid=OWN)(12345, 4002) is None


def test_the_list_is_read_again_when_it_was_replaced(state):
    """A restarted kind is known by its new id at once, and by the old one no more."""
    book = PeerBook(state.path, own_uid=OWN)
    for old, new in [(4001, 5001), (5001, 6001), (6001, 7001)]:
        state.write({"pleg": old})
        assert book(UNPRIVILEGED, old) == "pleg"
        state.write({"pleg": new})
        assert book(UNPRIVILEGED, new) == "pleg"
        assert book(UNPRIVILEGED, old) is None


def test_an_unchanged_list_is_not_read_again(state, monkeypatch):
    """A lookup costs one stat."""
    state.write({"pleg": 4001})
    book = PeerBook(state.path, own_uid=OWN)
    assert book(OWN, 4001) == "pleg"
    monkeypatch.setattr(peers, "_parse", None)  # would raise TypeError, and forget the list
    assert book(OWN, 4001) == "pleg"


def test_root_from_outside_the_tree_is_the_operator(state, sleeper):
    """A process that does not descend from the supervisor, run by root, is kubeletctl."""
    state.write({"pleg": 4001})
    book = PeerBook(state.path, own_uid=OWN)
    assert book(0, sleeper) == "ctl"
    assert book(OWN, sleeper) == "ctl"
    assert book(0, 1) == "ctl"
    assert book(0, 0) == "ctl"  # outside our pid namespace


def test_root_inside_the_tree_is_not_the_operator(state, sleeper):
    """A child not listed yet, and the supervisor itself, get no operator's rights."""
    state.write({"pleg": 4001}, supervisor=os.getpid())
    book = PeerBook(state.path, own_uid=OWN)
    assert book(0, sleeper) is None
    assert book(0, os.getpid()) is None
    assert book(0, os.getppid()) == "ctl"


def test_another_user_is_a_stranger(state, sleeper):
    """Neither the tree's unprivileged user nor anyone else is the operator."""
    state.write({"pleg": 4001})
    book = PeerBook(state.path, own_uid=OWN)
    assert book(UNPRIVILEGED, sleeper) is None
    assert book(12345, sleeper) is None


def test_a_process_that_is_gone_is_a_stranger(state):
    """Of a process that ended nothing can be known, so nothing is allowed."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    state.write({"pleg": 4001})
    assert PeerBook(state.path, own_uid=OWN)(0, process.pid) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"pid": 1, "processes": [1]}', '{"pid": "x"}', "\0\xff"]
)
def test_a_broken_list_knows_nobody(state, text):
    """Without a list nobody is a kind or the operator, and the next good list is taken."""
    state.path.write_text(text)
    book = PeerBook(state.path, own_uid=OWN)
    assert book(OWN, 4001) is None
    assert book(0, 1) is None
    state.write({"pleg": 4001})
    assert book(OWN, 4001) == "pleg"


def test_no_list_knows_nobody(state, sleeper):
    """Before the supervisor wrote its first state nobody may ask anything."""
    book = PeerBook(state.path, own_uid=OWN)
    assert book(UNPRIVILEGED, 4001) is None
    assert book(0, sleeper) is None


def test_an_unknown_name_in_the_list_is_no_kind(state):
    """Only the kinds of the table count, whatever the file says."""
    state.write({"ctl": 4001, "supervisor": 4002})
    book = PeerBook(state.path, own_uid=OWN)
    assert book(UNPRIVILEGED, 4001) is None
    assert book(UNPRIVILEGED, 4002) is None


def test_a_lookup_is_cheap(state):
    """A thousand lookups of a kind take well under a tenth of a second."""
    state.write({"pleg": 4001})
    book = PeerBook(state.path, own_uid=OWN)
    begun = time.process_time()
    for _ in range(1000):
        book(OWN, 4001)
    assert time.process_time() - begun < 0.1


def test_a_process_name_with_brackets_does_not_confuse(state, tmp_path):
    """The parent is read from behind the name, which may hold any character."""
    script = tmp_path / ") 1 1 1 ("
    script.write_text(f"#!{sys.executable}\nimport signal\nprint(flush=True)\nsignal.pause()\n")
    script.chmod(0o755)
    state.write({}, supervisor=os.getpid())
    with subprocess.Popen([str(script)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert PeerBook(state.path, own_uid=OWN)(0, process.pid) is None
        process.send_signal(signal.SIGKILL)
