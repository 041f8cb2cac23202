"""Documents in files, as apply and delete read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeletctl.manifests import documents, gather

POD = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (POD, ["a"]),
        (b'{"kind": "Pod", "metadata": {"name": "j"}}', ["j"]),
        (b"---\n" + POD + b"---\n# nothing\n---\n" + POD.replace(b": a", b": b"), ["a", "b"]),
        (b"--- {kind: Pod, metadata: {name: x}}\n---\n", ["x"]),
        (b"kind: List\nitems:\n- {kind: Pod, metadata: {name: p}}\n- 3\n", ["p", ""]),
        (b"kind: PodList\nitems: [{metadata: {name: q}}]\n", ["q"]),
        (POD + b"  annotations:\n    text: |\n      a\n       ---\n      b\n", ["a"]),
    ],
)
def test_documents_are_found(text: bytes, names: list[str]):
    """Several documents, lists, comments between them; a separator is one at a line's beginning."""
    found = documents(text, "f.yaml")
    assert [one.name for one in found] == names
    assert [one.problem for one in found] == [""] * len(names)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "empty, must hold a Pod"),
        (b"# only a comment\n---\n", "empty, must hold a Pod"),
        (b"a: 1\nb: \xff\n", "line 2: not UTF-8"),
        (POD + b"---\na: [1\n", "line 7"),
        (b"kind: List\n", "items: must be a list"),
        (b"a: 1\na: 2\n", "must be given only once"),
    ],
)
def test_unreadable_text_is_said_with_its_line(text: bytes, problem: str):
    """The line is that of the file, whichever document it is in."""
    assert problem in documents(text, "f.yaml")[-1].problem


def test_origin_names_file_document_and_item():
    """Every problem can be found again."""
    found = documents(POD + b"---\nkind: List\nitems: [{}]\n", "f.yaml")
    assert [one.origin for one in found] == ["f.yaml: document 1", "f.yaml: document 2: items[0]"]


def test_files_and_directories_are_gathered(tmp_path: Path):
    """A directory gives its manifests by name; what is not readable is a problem of its own."""
    (tmp_path / "b.yaml").write_bytes(POD)
    (tmp_path / "a.json").write_bytes(b'{"kind": "Pod", "metadata": {"name": "j"}}')
    (tmp_path / ".hidden.yaml").write_bytes(b"x: [")
    (tmp_path / "notes.txt").write_bytes(b"x: [")
    (tmp_path / "empty").mkdir()
    missing = str(tmp_path / "missing.yaml")
    found = gather([str(tmp_path), missing, str(tmp_path / "empty")])
    assert [one.name for one in found] == ["j", "a", "", ""]
    assert found[2].problem == "cannot be read: No such file or directory"
    assert found[3].problem.startswith("there is no file in it whose name ends in .yaml")
