"""The hash of a container's definition (P-78)."""

from __future__ import annotations

import pytest

from procs.syncloop.runtime.hashing import (
    HASH_ANNOTATION,
    container_hash,
    fnv32a,
    go_json,
    matches,
)
from tests.unit.plan.made import PROBE, changed, con, rec


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],
)
def test_fnv_is_the_known_one(data, expected):
    """The published values of FNV-1a with 32 bits."""
    assert fnv32a(data) == expected


def test_the_hash_is_that_of_the_json_of_name_and_image():
    """In hexadecimal digits, name first."""
    data = b'{"name":"test_container","image":"foo/image:v1"}'
    assert go_json({"name": "test_container", "image": "foo/image:v1"}) == data
    made = con("test_container", image="foo/image:v1")
    assert container_hash(made) == f"{fnv32a(data):x}" == "8c57f1ec"


def test_json_is_escaped_as_go_does():
    """What could be HTML, and two line separators; other letters stay as they are."""
    assert go_json("<a>&\u2028\u2029é\n") == '"\\u003ca\\u003e\\u0026\\u2028\\u2029é\\n"'.encode()


def test_only_name_and_image_change_it():
    """Whatever else is edited restarts nothing."""
    base = con("app")
    same = changed(base, args=("x",), liveness_probe=PROBE, restart_policy="Always")
    assert container_hash(base) == container_hash(same)
    assert container_hash(base) != container_hash(changed(base, image="app:2"))
    assert container_hash(base) != container_hash(changed(base, name="app2"))


@pytest.mark.parametrize(
    ("carried", "expected"),
    [("8c57f1ec", True), ("8e45cbd0", True), ("1", False), ("", None)],
)
def test_a_go_kubelet_s_hash_is_as_good_as_ours(carried, expected):
    """0x8e45cbd0 is what Go kubelets write for this one; without a hash nobody knows."""
    made = con("test_container", image="foo/image:v1")
    found = rec("test_container", annotations={HASH_ANNOTATION: carried} if carried else {})
    assert matches(made, found) is expected
