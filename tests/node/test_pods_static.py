"""Manifests of a node and the pods that come of them, on a real containerd."""

from __future__ import annotations

import json

import pytest

from tests.node.pod_node import PAUSE, SECONDS, is_ready, sh
from tests.node.shared import (
    LOOP,
    Notes,
    condition,
    container_of,
    note,
    pod,
    problem,
)
from tests.processes.node import alive, wait_for


def teller(word, notes):
    """A container that says when it begins and when it has ended."""
    return sh(
        f"trap 'sleep 0.3; {note(f'{word}-end')}; exit 0' TERM; {note(word)}; {LOOP}",
        **notes.mounts,
    )


@pytest.mark.both_versions
def test_a_static_pod(node):
    """Its name has the node's, its uid is made of what it says and where, and it is ready (P-7)."""
    name = node.write(pod("first"))
    status = node.await_ready(name)
    row = node.pods()[name]
    assert name == "first-testnode"
    assert (row.source, row.namespace) == ("file", "default")
    assert row.pod.metadata.annotations["kubernetes.io/config.hash"] == row.uid
    assert condition(status, "PodScheduled")[0] == "True"


@pytest.mark.both_versions
def test_an_edited_manifest(node):
    """Is another pod: the old one ends first, then the new one runs under its name (P-15)."""
    notes = Notes(node, "edited")
    name = node.write(pod("edited", teller("old", notes), volumes=notes.volumes, patient=True))
    node.await_ready(name)
    notes.await_line("old")
    before = node.uid(name)
    node.write(pod("edited", teller("new", notes), volumes=notes.volumes, patient=True))
    wait_for("it is another", lambda: node.pods()[name].uid != before, SECONDS, PAUSE)
    notes.await_line("new")
    node.await_ready(name)
    assert notes.lines() == ["old", "old-end", "new"]
    assert [row.name for row in node.rows()] == [name]


def test_an_edited_manifest_of_a_pod_that_has_ended(node):
    """The new pod runs, although the old one never would again."""
    name = node.write(pod("over", sh("exit 0"), restartPolicy="Never"))
    node.await_phase(name, "Succeeded")
    before = node.uid(name)
    node.write(pod("over", sh("exit 1"), restartPolicy="Never"))
    node.await_phase(name, "Failed")
    assert node.uid(name) != before


def test_a_removed_manifest(node):
    """Ends the pod."""
    name = node.write(pod("removed"))
    node.await_ready(name)
    pid = node.pid_of(name)
    node.remove("removed")
    node.await_gone(name)
    assert not alive(pid)


def test_a_manifest_that_comes_back(node):
    """Removed and written again while the pod ends: it runs once more, after its end (P-39)."""
    notes = Notes(node, "returns")
    document = pod("returns", teller("life", notes), volumes=notes.volumes, patient=True)
    name = node.write(document)
    node.await_ready(name)
    notes.await_line("life")
    uid = node.uid(name)
    node.remove("returns")
    node.await_event(name, "Killing")
    node.write(document)
    notes.await_line("life", times=2)
    node.await_ready(name)
    assert node.uid(name) == uid
    assert notes.lines() == ["life", "life-end", "life"]


def test_a_manifest_that_breaks(node):
    """The pod runs on and the complaint has file and place; mended, all is as before."""
    document = pod("breaks")
    name = node.write(document)
    node.await_ready(name)
    uid, pid = node.uid(name), node.pid_of(name)
    path = node.manifests / "breaks.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: [\n")
    problem(node, "breaks.yaml")
    assert node.pods()[name].uid == uid
    assert alive(pid)
    node.write(document)
    wait_for("no complaint", lambda: not node.sources().problems, SECONDS, PAUSE)
    node.await_settled()
    assert node.uid(name) == uid
    assert node.pid_of(name) == pid
    assert is_ready(node.status(name))


def test_a_bad_manifest_among_good_ones(node):
    """The good ones run; the complaint about the bad one has its file, field and value."""
    node.write(pod("bad", {"name": "Not A Name", "image": "x"}))
    good = [node.write(pod(f"good{i}")) for i in range(2)]
    for name in good:
        node.await_ready(name)
    text = problem(node, "bad.yaml", "spec.containers[0].name")
    assert "Not A Name" in text
    assert "bad-testnode" not in node.pods()


def test_two_manifests_of_one_name(node):
    """One of them runs, and the other is complained of by its file; it follows when that goes."""
    notes = Notes(node, "twice")
    one = pod("twice", teller("one", notes), volumes=notes.volumes, patient=True)
    two = pod("twice", teller("two", notes), volumes=notes.volumes, patient=True)
    name = node.write(one, "a.yaml")
    node.await_ready(name)
    node.write(two, "b.yaml")
    problem(node, "b.yaml", "twice")
    notes.await_line("one")
    (node.manifests / "a.yaml").unlink()
    notes.await_line("two")
    node.await_ready(name)
    assert notes.lines() == ["one", "one-end", "two"]


def test_a_field_that_nobody_knows(node):
    """The pod runs; that the field has no effect is said."""
    document = pod("odd")
    document["spec"]["containerz"] = []
    name = node.write(document)
    node.await_ready(name)
    problem(node, "odd.yaml", "containerz")


def test_a_file_that_is_half_written(node):
    """Nothing happens until its writer has closed it."""
    notes = Notes(node, "half")
    text = json.dumps(pod("half", teller("whole", notes), volumes=notes.volumes, patient=True))
    with (node.manifests / "half.yaml").open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        name = node.write(pod("other"))
        node.await_ready(name)  # the directory was looked at meanwhile
        assert not any("half.yaml" in p and "writing" not in p for p in node.sources().problems)
        file.write(text[len(text) // 2 :])
    node.await_ready("half-testnode")
    assert notes.lines() == ["whole"]
    wait_for("no complaint", lambda: not node.sources().problems, SECONDS, PAUSE)


def test_files_that_are_no_manifests(node):
    """Hidden files and directories make no pods."""
    (node.manifests / ".hidden.yaml").write_text(json.dumps(pod("hidden")))
    below = node.manifests / "below"
    below.mkdir()
    try:
        (below / "deep.yaml").write_text(json.dumps(pod("deep")))
        name = node.write(pod("plain"))
        node.await_ready(name)
        assert set(node.pods()) == {name}
    finally:
        (below / "deep.yaml").unlink()
        below.rmdir()


@pytest.mark.both_versions
def test_a_manifest_that_goes_while_the_kubelet_is_away(node):
    """The pod runs on while nobody looks, and is ended at the next start."""
    name = node.write(pod("orphan"))
    stays = node.write(pod("stays"))
    node.await_ready(name)
    node.await_ready(stays)
    pid, other = node.pid_of(name), node.pid_of(stays)
    node.stop()
    node.remove("orphan")
    assert alive(pid)
    node.start()
    wait_for("it is ended", lambda: not alive(pid), SECONDS, PAUSE)
    node.await_gone(name)
    node.await_ready(stays)
    assert alive(other)
    assert container_of(node.status(stays))["restartCount"] == 0


def test_a_manifest_that_changes_while_the_kubelet_is_away(node):
    """The old pod is ended at the next start, and the new one runs."""
    notes = Notes(node, "swapped")
    name = node.write(pod("swapped", teller("old", notes), volumes=notes.volumes, patient=True))
    node.await_ready(name)
    notes.await_line("old")
    node.stop()
    node.write(pod("swapped", teller("new", notes), volumes=notes.volumes, patient=True))
    node.start()
    notes.await_line("new")
    node.await_ready(name)
    assert notes.lines() == ["old", "old-end", "new"]


def test_a_single_file(node):
    """`staticPodPath` may be a file: it is the one manifest, and may come later (P-5)."""
    path = node.disk / "one.yaml"
    node.stop()
    node.write_config(staticPodPath=str(path))
    try:
        node.start()
        name = "one-testnode"
        path.write_text(json.dumps(pod("one")))
        node.await_ready(name)
        path.unlink()
        node.await_gone(name)
    finally:
        node.stop()
        node.write_config(staticPodPath=str(node.manifests))
        node.start()
