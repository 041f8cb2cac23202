"""Manifests of a node and the pods that come of them, on a real containerd."""

from __future__ import annotations

import json

from tests.node.module_nodes import (
    Notes,
    condition,
    container_of,
    each_node,
    node24,
    nodes,
    note,
    pod,
)
from tests.node.pod_node import PAUSE, SECONDS, is_ready, sh
from tests.processes.node import alive, wait_for

__all__ = ["each_node", "node24", "nodes"]

LOOP = "while true; do sleep 0.1; done"


def teller(word, notes):
    """A container that says when it begins and when it has ended."""
    return sh(
        f"trap 'sleep 0.3; {note(f'{word}-end')}; exit 0' TERM; {note(word)}; {LOOP}",
        **notes.mounts,
    )


def await_problem(node, *words):
    """Wait until the sources complain of something with these words; the sentence."""

    def look():
        problems = node.sources().problems
        return next((p for p in problems if all(word in p for word in words)), None)

    return wait_for(f"a complaint with {words}", look, SECONDS, PAUSE)


def test_a_static_pod(each_node):
    """Its name has the node's, its uid is made of what it says and where, and it is ready (P-7)."""
    name = each_node.write(pod("first"))
    status = each_node.await_ready(name)
    row = each_node.pods()[name]
    assert name == "first-testnode"
    assert (row.source, row.namespace) == ("file", "default")
    assert row.pod.metadata.annotations["kubernetes.io/config.hash"] == row.uid
    assert condition(status, "PodScheduled")[0] == "True"


def test_an_edited_manifest(each_node):
    """Is another pod: the old one ends first, then the new one runs under its name (P-15)."""
    notes = Notes(each_node, "edited")
    name = each_node.write(pod("edited", teller("old", notes), volumes=notes.volumes, patient=True))
    each_node.await_ready(name)
    notes.await_line("old")
    before = each_node.uid(name)
    each_node.write(pod("edited", teller("new", notes), volumes=notes.volumes, patient=True))
    wait_for("it is another", lambda: each_node.pods()[name].uid != before, SECONDS, PAUSE)
    notes.await_line("new")
    each_node.await_ready(name)
    assert notes.lines() == ["old", "old-end", "new"]
    assert [row.name for row in each_node.rows()] == [name]


def test_an_edited_manifest_of_a_pod_that_has_ended(node24):
    """The new pod runs, although the old one never would again."""
    name = node24.write(pod("over", sh("exit 0"), restartPolicy="Never"))
    node24.await_phase(name, "Succeeded")
    before = node24.uid(name)
    node24.write(pod("over", sh("exit 1"), restartPolicy="Never"))
    node24.await_phase(name, "Failed")
    assert node24.uid(name) != before


def test_a_removed_manifest(node24):
    """Ends the pod."""
    name = node24.write(pod("removed"))
    node24.await_ready(name)
    pid = node24.pid_of(name)
    node24.remove("removed")
    node24.await_gone(name)
    assert not alive(pid)


def test_a_manifest_that_comes_back(node24):
    """Removed and written again while the pod ends: it runs once more, after its end (P-39)."""
    notes = Notes(node24, "returns")
    document = pod("returns", teller("life", notes), volumes=notes.volumes, patient=True)
    name = node24.write(document)
    node24.await_ready(name)
    notes.await_line("life")
    uid = node24.uid(name)
    node24.remove("returns")
    node24.await_event(name, "Killing")
    node24.write(document)
    notes.await_line("life", times=2)
    node24.await_ready(name)
    assert node24.uid(name) == uid
    assert notes.lines() == ["life", "life-end", "life"]


def test_a_manifest_that_breaks(node24):
    """The pod runs on and the complaint has file and place; mended, all is as before."""
    document = pod("breaks")
    name = node24.write(document)
    node24.await_ready(name)
    uid, pid = node24.uid(name), node24.pid_of(name)
    path = node24.manifests / "breaks.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: [\n")
    await_problem(node24, "breaks.yaml")
    assert node24.pods()[name].uid == uid
    assert alive(pid)
    node24.write(document)
    wait_for("no complaint", lambda: not node24.sources().problems, SECONDS, PAUSE)
    node24.await_settled()
    assert node24.uid(name) == uid
    assert node24.pid_of(name) == pid
    assert is_ready(node24.status(name))


def test_a_bad_manifest_among_good_ones(node24):
    """The good ones run; the complaint about the bad one has its file, field and value."""
    node24.write(pod("bad", {"name": "Not A Name", "image": "x"}))
    good = [node24.write(pod(f"good{i}")) for i in range(2)]
    for name in good:
        node24.await_ready(name)
    text = await_problem(node24, "bad.yaml", "spec.containers[0].name")
    assert "Not A Name" in text
    assert "bad-testnode" not in node24.pods()


def test_two_manifests_of_one_name(node24):
    """One of them runs, and the other is complained of by its file; it follows when that goes."""
    notes = Notes(node24, "twice")
    one = pod("twice", teller("one", notes), volumes=notes.volumes, patient=True)
    two = pod("twice", teller("two", notes), volumes=notes.volumes, patient=True)
    name = node24.write(one, "a.yaml")
    node24.await_ready(name)
    node24.write(two, "b.yaml")
    await_problem(node24, "b.yaml", "twice")
    notes.await_line("one")
    (node24.manifests / "a.yaml").unlink()
    notes.await_line("two")
    node24.await_ready(name)
    assert notes.lines() == ["one", "one-end", "two"]


def test_a_field_that_nobody_knows(node24):
    """The pod runs; that the field has no effect is said."""
    document = pod("odd")
    document["spec"]["containerz"] = []
    name = node24.write(document)
    node24.await_ready(name)
    await_problem(node24, "odd.yaml", "containerz")


def test_a_file_that_is_half_written(node24):
    """Nothing happens until its writer has closed it."""
    notes = Notes(node24, "half")
    text = json.dumps(pod("half", teller("whole", notes), volumes=notes.volumes, patient=True))
    with (node24.manifests / "half.yaml").open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        name = node24.write(pod("other"))
        node24.await_ready(name)  # the directory was looked at meanwhile
        assert not any("half.yaml" in p and "writing" not in p for p in node24.sources().problems)
        file.write(text[len(text) // 2 :])
    node24.await_ready("half-testnode")
    assert notes.lines() == ["whole"]
    wait_for("no complaint", lambda: not node24.sources().problems, SECONDS, PAUSE)


def test_files_that_are_no_manifests(node24):
    """Hidden files and directories make no pods."""
    (node24.manifests / ".hidden.yaml").write_text(json.dumps(pod("hidden")))
    below = node24.manifests / "below"
    below.mkdir()
    try:
        (below / "deep.yaml").write_text(json.dumps(pod("deep")))
        name = node24.write(pod("plain"))
        node24.await_ready(name)
        assert set(node24.pods()) == {name}
    finally:
        (below / "deep.yaml").unlink()
        below.rmdir()


def test_a_manifest_that_goes_while_the_kubelet_is_away(each_node):
    """The pod runs on while nobody looks, and is ended at the next start."""
    name = each_node.write(pod("orphan"))
    stays = each_node.write(pod("stays"))
    each_node.await_ready(name)
    each_node.await_ready(stays)
    pid, other = each_node.pid_of(name), each_node.pid_of(stays)
    each_node.stop()
    each_node.remove("orphan")
    assert alive(pid)
    each_node.start()
    wait_for("it is ended", lambda: not alive(pid), SECONDS, PAUSE)
    each_node.await_gone(name)
    each_node.await_ready(stays)
    assert alive(other)
    assert container_of(each_node.status(stays))["restartCount"] == 0


def test_a_manifest_that_changes_while_the_kubelet_is_away(node24):
    """The old pod is ended at the next start, and the new one runs."""
    notes = Notes(node24, "swapped")
    name = node24.write(pod("swapped", teller("old", notes), volumes=notes.volumes, patient=True))
    node24.await_ready(name)
    notes.await_line("old")
    node24.stop()
    node24.write(pod("swapped", teller("new", notes), volumes=notes.volumes, patient=True))
    node24.start()
    notes.await_line("new")
    node24.await_ready(name)
    assert notes.lines() == ["old", "old-end", "new"]


def test_a_single_file(nodes):
    """`staticPodPath` may be a file: it is the one manifest, and may come later (P-5)."""
    node = nodes.get("2.4")
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
