"""What changed between two sets of pods (P-1, P-2, P-9), and who gets a name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubelet.api.container import Container
from kubelet.api.meta import ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.api.status import PodStatus
from procs.syncloop.sources.changes import SEEN, SOURCE, Candidate, Op
from procs.syncloop.sources.merge import compare, settle


def pod(uid="u", name="web", created="", **spec):
    metadata = ObjectMeta(name=name, namespace="default", uid=uid, creation_timestamp=created)
    return Pod(metadata=metadata, spec=PodSpec(**spec))


def with_meta(one, **metadata):
    return replace(one, metadata=replace(one.metadata, **metadata))


def known(*pods):
    return compare("file", {}, pods, lambda _: "then").pods


def again(old, *pods):
    return compare("file", old, pods, lambda _: "now")


CASES = [
    ("P-1 the same", lambda p: p, None),
    ("P-1 spec", lambda p: replace(p, spec=PodSpec(containers=(Container(name="c"),))), Op.UPDATE),
    ("P-2 labels", lambda p: with_meta(p, labels={"a": "b"}), Op.UPDATE),
    ("P-2 annotations", lambda p: with_meta(p, annotations={"a": "b"}), Op.UPDATE),
    ("P-2 local annotation", lambda p: with_meta(p, annotations={SEEN: "b", SOURCE: "x"}), None),
    ("P-2 deletion", lambda p: with_meta(p, deletion_timestamp="2026-01-01T00:00:00Z"), Op.DELETE),
    ("P-2 grace", lambda p: with_meta(p, deletion_grace_period_seconds=3), Op.UPDATE),
    ("P-1 status only", lambda p: replace(p, status=PodStatus(phase="Running")), Op.RECONCILE),
    ("P-2 other metadata", lambda p: with_meta(p, resource_version="7"), None),
]


@pytest.mark.parametrize(("change", "op"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_pod_that_is_there_again(change, op):
    """What differs decides what happened (P-1, P-2)."""
    found = again(known(pod()), change(pod()))
    assert [c.op for c in found.changes] == ([op] if op else [])
    assert found.pods["u"].metadata.annotations[SEEN] == "then"
    assert found.pods["u"].metadata.annotations[SOURCE] == "file"


def test_an_update_keeps_the_notes_and_takes_the_rest():
    """Local annotations are preserved, others are replaced (P-2)."""
    old = known(with_meta(pod(), annotations={"old": "1"}))
    (change,) = again(old, with_meta(pod(), annotations={"new": "2"})).changes
    assert change.pod.metadata.annotations == {"new": "2", SEEN: "then", SOURCE: "file"}


def test_removals_come_before_additions():
    """An edited static pod has another UID: the old one goes, the new one comes (P-1)."""
    found = again(known(pod("u1")), pod("u2"))
    assert [(c.op, c.pod.uid) for c in found.changes] == [(Op.REMOVE, "u1"), (Op.ADD, "u2")]


def test_additions_are_in_order_of_creation():
    """The oldest pod comes first, whatever order the source has (P-9)."""
    times = {"a": "2026-01-03T00:00:00Z", "b": "2026-01-01T00:00:00Z", "c": "", "d": "nonsense"}
    pods = [pod(uid, uid, created) for uid, created in times.items()]
    found = again({}, *pods)
    assert [c.pod.uid for c in found.changes] == ["c", "d", "b", "a"]


def test_a_pod_that_is_on_its_way_out_when_it_is_first_seen_is_added():
    """The worker sees the deletion mark (P-1)."""
    going = with_meta(pod(), deletion_timestamp="2026-01-01T00:00:00Z")
    assert [c.op for c in again({}, going).changes] == [Op.ADD]


def candidate(origin, uid="u", name="web", source="file"):
    return Candidate(source, origin, pod(uid, name))


def origins(settled):
    return [c.origin for c in settled.chosen]


def test_the_first_of_two_names_stays_and_both_are_named():
    """The later one is a problem that names both files."""
    found = settle([candidate("/m/a", "u1"), candidate("/m/b", "u2")], {})
    assert origins(found) == ["/m/a"]
    assert found.problems == (
        "/m/b: metadata.name: pod default/web is already given by /m/a, which stays in force",
    )


def test_two_of_one_uid():
    """Another name with the same UID is refused, too."""
    found = settle([candidate("/m/a"), candidate("/m/b", name="other")], {})
    assert origins(found) == ["/m/a"]
    assert found.problems == (
        "/m/b: metadata.uid: 'u' is already given by /m/a, which stays in force",
    )


def test_who_has_a_name_keeps_it():
    """A new file that sorts before does not end the pod of another file."""
    held = settle([candidate("/m/b", "u2")], {}).holders
    found = settle([candidate("/m/a", "u1"), candidate("/m/b", "u3")], held)
    assert [c.pod.uid for c in found.chosen] == ["u3"]
    assert found.problems[0].startswith("/m/a: ")


def test_sources_share_the_names():
    """A name is one pod's on the node, from wherever it comes."""
    both = [candidate("/m/a", "u1"), candidate("http://x#default/web", "u2", source="http")]
    found = settle(both, {})
    assert origins(found) == ["/m/a"]
    assert "http://x#default/web: " in found.problems[0]
    assert origins(settle(both[1:], found.holders)) == ["http://x#default/web"]


def test_a_name_waits_for_the_source_that_had_it():
    """At a start the fastest source does not take the names of the slowest (P-4)."""
    held = {"web_default": ("http", "there")}
    here = candidate("/m/a")
    found = settle([here], held, frozenset({"http"}))
    assert found.chosen == ()
    assert found.problems == ()
    there = candidate("there", "u2", source="http")
    assert origins(settle([here, there], found.holders)) == ["there"]
    assert origins(settle([here], found.holders)) == ["/m/a"]
