"""Texts to plain values: JSON and YAML alike, odd ones refused with their place."""

from __future__ import annotations

import json

import pytest

from procs.syncloop.sources import document
from procs.syncloop.sources.document import UnreadableError, read


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("a: 1", {"a": 1}),
        ("a: 0644", {"a": 420}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: '1e3'", {"a": "1e3"}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 2026-01-02", {"a": "2026-01-02"}),
        ("a: 2026-01-02T03:04:05Z", {"a": "2026-01-02T03:04:05Z"}),
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: ~", {"a": None}),
        ("1: x", {"1": "x"}),
        ("a: [1, {b: c}]", {"a": [1, {"b": "c"}]}),
        ("{a: 1}", {"a": 1}),
        ("x: &x {p: 1}\ny: {<<: *x, q: 2}", {"x": {"p": 1}, "y": {"p": 1, "q": 2}}),
        ("---\na: 1\n---\n", {"a": 1}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_yaml_means_what_json_would_say(yaml, value):
    """Scalars are those of Kubernetes' reader: dates and base 60 stay text (P-5)."""
    assert read(yaml.encode()).value == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b" \n# nothing\n", "empty"),
        (b"\xff\xfe", "line 1: not UTF-8"),
        (b"a: 1\na: 2", 'line 2: key "a" must be given only once'),
        (b'{"a": 1, "a": 2}', 'key "a" must be given only once'),
        (b"a: [", "line "),
        (b'{"a": ', "line 1, column 7: not JSON"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"a: .inf", ".inf is not a number"),
        (b"a: !!python/object:os.system x", "is not allowed"),
        (b"a: &a [*a]", "unknown, or contains itself"),
        (b"[a]: b", "a key must be a string"),
        (b"<<: 3", "must be a map or a list of maps"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b"[" * 70 + b"]" * 70, "nested too deeply"),
        (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested too deeply"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b"\x00", ""),
    ],
)
def test_what_is_no_document_is_said_with_its_place(data, words):
    """Each bad text is one sentence, and nothing else is raised."""
    with pytest.raises(UnreadableError) as caught:
        read(data)
    assert words in str(caught.value)


def test_aliases_cannot_blow_up():
    """A text of a few lines does not become millions of values."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(UnreadableError, match="holds more than"):
        read("\n".join(lines).encode())


def test_a_second_document_is_ignored_with_a_warning():
    """One Pod per file: the first one (P-5)."""
    found = read(b"a: 1\n---\nb: 2\n---\nc: 3\n")
    assert found.value == {"a": 1}
    assert found.warnings == (
        "holds more than one document: the first is used, the others are ignored",
    )


def test_surrogate_pairs_are_characters():
    """An escaped pair in JSON is one character; only a half is refused."""
    assert read(b'{"a": "\\ud83d\\ude00"}').value == {"a": "\U0001f600"}


def test_a_large_json_document_is_no_matter_of_depth():
    """The limit is on nesting, not on size."""
    value = {"items": [{"n": n} for n in range(document.MAX_VALUES // 10)]}
    assert read(json.dumps(value).encode()).value == value
