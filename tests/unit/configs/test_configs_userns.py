"""Users of their own for pods (N-64)."""

from __future__ import annotations

import json
import os
import stat

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import Handler
from procs.syncloop.configs import userns
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.configs.userns import Range, UserNamespaces
from tests.unit.configs.config_pods import pod, site

ABLE = Handler("", user_namespaces=True)
SIZE = 65536


def own(uid):
    """Return a pod that wants users of its own."""
    return pod({"hostUsers": False}, meta={"uid": uid})


@pytest.fixture
def node(tmp_path):
    return site(str(tmp_path))


def giver(node, ids=None):
    """Return a giver of ids, of a range or of all."""
    return UserNamespaces(node, SIZE, lambda: ids)


def first_id(given):
    (users,), (groups,) = given.uids, given.gids
    assert users == groups
    assert (users.container_id, users.length) == (0, SIZE)
    return users.host_id


def test_pods_that_do_not_ask(node):
    """A pod that says nothing sends nothing; one that wants the node's users says so."""
    assert giver(node).mappings(pod(), None) is None
    assert giver(node).mappings(pod({"hostUsers": True}), None) == pb.UserNamespace(mode=pb.NODE)
    assert not os.path.exists(node.root_dir)


def test_blocks(node):
    """N-64: each pod has a block of its own, always the same one, lowest first."""
    users = giver(node)
    given = users.mappings(own("a"), ABLE)
    assert given.mode == pb.POD
    assert first_id(given) == SIZE
    assert first_id(users.mappings(own("b"), ABLE)) == 2 * SIZE
    assert users.mappings(own("a"), ABLE) == given


def test_blocks_are_remembered(node):
    """N-64: they are on the disk in the known form, and a successor reads them."""
    for uid in ("a", "b"):
        giver(node).mappings(own(uid), ABLE)
    path = f"{node.pod_dir('b')}/userns"
    with open(path, encoding="ascii") as file:
        mapping = [{"hostId": 2 * SIZE, "containerId": 0, "length": SIZE}]
        assert json.load(file) == {"uidMappings": mapping, "gidMappings": mapping}
    assert stat.S_IMODE(os.stat(node.pod_dir("b")).st_mode) & 0o007 == 0
    later = giver(node)
    assert first_id(later.mappings(own("b"), ABLE)) == 2 * SIZE
    assert first_id(later.mappings(own("c"), ABLE)) == 3 * SIZE
    later.release("a")
    later.release("a")
    assert first_id(later.mappings(own("d"), ABLE)) == SIZE


def test_blocks_of_another_size(node):
    """A block that was given with another size before is not touched."""
    os.makedirs(node.pod_dir("old"))
    mapping = [{"hostId": SIZE, "containerId": 0, "length": SIZE + 1}]
    with open(f"{node.pod_dir('old')}/userns", "w", encoding="ascii") as file:
        json.dump({"uidMappings": mapping, "gidMappings": mapping}, file)
    assert first_id(giver(node).mappings(own("a"), ABLE)) == 3 * SIZE


def test_range_of_the_system(node):
    """N-64: only ids of the range are given, and it must be aligned."""
    users = giver(node, Range(10 * SIZE, 2 * SIZE))
    assert [first_id(users.mappings(own(uid), ABLE)) for uid in "ab"] == [10 * SIZE, 11 * SIZE]
    with pytest.raises(ConfigError, match="no block of user ids is left") as caught:
        users.mappings(own("c"), ABLE)
    assert caught.value.reason == SANDBOX
    with pytest.raises(ConfigError, match="begin at 100000, which must be a multiple of 65536"):
        giver(node, Range(100_000, SIZE)).mappings(own("x"), ABLE)


@pytest.mark.parametrize("handler", [None, Handler("kata")])
def test_runtimes_that_cannot(node, handler):
    """N-64: a runtime handler that cannot is named."""
    with pytest.raises(ConfigError, match="does not support user namespaces"):
        giver(node).mappings(own("a"), handler)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"uidMappings":[],"gidMappings":[]}', "\x00", '{"uidMappings":[1]}']
)
def test_bad_files(node, text):
    """Ids that cannot be read are never given to another pod: nothing is given at all."""
    os.makedirs(node.pod_dir("bad"))
    with open(f"{node.pod_dir('bad')}/userns", "w", encoding="ascii") as file:
        file.write(text)
    with pytest.raises(ConfigError, match="bad/userns"):
        giver(node).mappings(own("a"), ABLE)


@pytest.mark.parametrize(
    ("users", "groups", "expected"),
    [
        ("", "", None),
        ("0: kubelet 65536 131072\n", "0: kubelet 65536 131072\n", Range(65536, 131072)),
    ],
)
def test_answers_of_the_tool(users, groups, expected):
    """N-64: one range, the same for users and groups; none is no rule."""
    assert userns._agreed(users, groups) == expected


@pytest.mark.parametrize(
    ("users", "groups"),
    [
        ("0: kubelet 65536 65536\n", "0: kubelet 131072 65536\n"),
        ("0: kubelet 65536 65536\n", ""),
        ("0: kubelet 1 2\n1: kubelet 3 4\n", "0: kubelet 1 2\n1: kubelet 3 4\n"),
        ("odd\n", "odd\n"),
    ],
)
def test_bad_answers_of_the_tool(users, groups):
    """N-64: anything else is an error in words."""
    with pytest.raises(ConfigError, match="range"):
        userns._agreed(users, groups)
