"""Layers of settings: what one file says, and how files lie over each other.

A layer is sparse: it holds only what its file sets. Layers merge as JSON merge patches do (C-4):
maps merge by key, lists and scalars replace, null removes. Defaults are filled in afterwards.
"""

from __future__ import annotations

import copy
import posixpath
from dataclasses import dataclass, field
from typing import Any, Final

from kubelet.config import documents
from kubelet.config.checks import clean
from kubelet.config.documents import Document
from kubelet.config.errors import BadValueError, BadValuesError, Problem, closest, shown
from kubelet.config.table import API_VERSION, DEFAULT, FIELD_BY_PATH, FIELDS, KIND, Field
from kubelet.config.types import DURATION, FLUSH


@dataclass(frozen=True, slots=True)
class Origin:
    """Who set a value: ``label`` says it in words, ``where`` points at the place."""

    label: str
    where: str


BUILT_IN: Final = Origin(DEFAULT, DEFAULT)


def flag_origin(name: str) -> Origin:
    """Return the origin of a value that a flag set."""
    return Origin(f"flag --{name}", f"--{name}")


@dataclass(slots=True)
class Layer:
    """The fields that are set so far, by path; a path in ``failed`` has a value we cannot use."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    def put(self, path: str, value: Any, origin: Origin) -> None:
        """Set one field."""
        self.values[path] = value
        self.origins[path] = origin
        self.removed.discard(path)

    def drop(self, path: str) -> None:
        """Forget one field, so that its default counts."""
        self.values.pop(path, None)
        self.origins.pop(path, None)
        self.removed.add(path)

    def lay(self, over: Layer) -> None:
        """Merge another layer over this one."""
        for path in over.removed:
            self.drop(path)
        for path, value in over.values.items():
            self.put(
                path, _merged(FIELD_BY_PATH[path], self.values.get(path), value), over.origins[path]
            )
        self.failed |= over.failed


def _merged(row: Field, below: Any, value: Any) -> Any:
    if not row.type.is_map:
        return value
    both = (below or {}) | value
    return {key: one for key, one in both.items() if one is not None}


def _tree() -> dict[str, Any]:
    """Turn the dotted paths of the table into nested maps, as the file has them."""
    root: dict[str, Any] = {}
    for row in FIELDS:
        *parents, leaf = row.path.split(".")
        place = root
        for name in parents:
            place = place.setdefault(name, {})
        place[leaf] = row
    return root


TREE: Final = _tree()


def decode(document: Document) -> tuple[Layer, list[Problem]]:
    """Turn a document into a layer, and tell everything that is wrong with it."""
    reader = _Decoder(document)
    reader.head()
    if isinstance(document.content, dict):
        reader.walk(TREE, document.content, ())
    return reader.layer, document.problems + reader.problems


class _Decoder:
    """Walks one document along the table."""

    def __init__(self, document: Document) -> None:
        self.layer = Layer()
        self.problems: list[Problem] = []
        self._document = document

    def _complain(self, path: documents.Place, name: str, value: Any, allowed: str) -> None:
        where = self._document.where(path)
        self.problems.append(Problem(where, name, shown(value, name), allowed))

    def head(self) -> None:
        """Check that the file says what it is."""
        content = self._document.content
        if not isinstance(content, dict):
            self._complain((), "", content, f"must be a map: the fields of a {KIND}")
            return
        for name, allowed in (("apiVersion", API_VERSION), ("kind", KIND)):
            value = content.get(name)
            if value is None:
                self._complain((name,), name, None, f'must be set, to "{allowed}"')
            elif value != allowed:
                self._complain((name,), name, value, f'must be "{allowed}"')

    def walk(self, tree: dict[str, Any], content: dict[str, Any], path: documents.Place) -> None:
        """Read the fields of one map of the document."""
        for key, value in content.items():
            here = (*path, key)
            row = tree.get(key)
            if not path and key in {"apiVersion", "kind"}:
                continue
            if row is None:
                self._unknown(tree, here, value)
            elif isinstance(row, Field):
                self._field(row, here, value)
            elif value is None:
                self._remove(here)
            elif isinstance(value, dict):
                self.walk(row, value, here)
            else:
                allowed = f"must be a map with {', '.join(row)}"
                self._complain(here, documents.dotted(here), value, allowed)
                self.layer.failed |= set(_below(here))

    def _unknown(self, tree: dict[str, Any], path: documents.Place, value: Any) -> None:
        close = closest(str(path[-1]), tree)
        hint = f'; did you mean "{close}"?' if close else ""
        self._complain(path, documents.dotted(path), value, f"unknown field{hint}")

    def _remove(self, path: documents.Place) -> None:
        for name in _below(path):
            self.layer.drop(name)

    def _field(self, row: Field, path: documents.Place, value: Any) -> None:
        if value is None or (row.zero_unset and _empty(row, value)):
            self.layer.drop(row.path)
            return
        try:
            decoded = row.type.decode(value)
        except BadValueError as err:
            self._bad(row, path, err)
        except BadValuesError as err:
            for one in err.items:
                self._bad(row, path, one)
        else:
            if row.zero_unset and decoded in (0, "0s"):
                self.layer.drop(row.path)
                return
            origin = Origin(f"file {self._document.path}", self._document.where(path))
            self.layer.put(row.path, self._placed(row, decoded), origin)

    def _bad(self, row: Field, path: documents.Place, err: BadValueError) -> None:
        self._complain(path, row.path + err.below, err.value, err.allowed)
        self.layer.failed.add(row.path)

    def _placed(self, row: Field, value: Any) -> Any:
        """C-7: a relative path stands relative to its own file."""
        if not row.relative or not value or posixpath.isabs(value):
            return value
        folder = posixpath.dirname(posixpath.abspath(self._document.path))
        return clean(posixpath.join(folder, value))


def _below(path: documents.Place) -> list[str]:
    prefix = documents.dotted(path) + "."
    return [name for name in FIELD_BY_PATH if name.startswith(prefix)]


def _empty(row: Field, value: Any) -> bool:
    """Tell whether a string field is set to nothing, which Go cannot tell from not set."""
    return value == "" and row.type not in (DURATION, FLUSH)


def filled(layer: Layer) -> dict[str, Any]:
    """Return the value of every field: what is set, and the defaults of the rest."""
    values = {row.path: layer.values.get(row.path, copy.deepcopy(row.default)) for row in FIELDS}
    given = layer.values
    if "nodeStatusReportFrequency" not in given and "nodeStatusUpdateFrequency" in given:
        values["nodeStatusReportFrequency"] = given["nodeStatusUpdateFrequency"]
    if "serializeImagePulls" not in given:
        values["serializeImagePulls"] = (values["maxParallelImagePulls"] or 0) < 2
    if values["mergeDefaultEvictionSettings"]:  # C-5
        standard: dict[str, str] = FIELD_BY_PATH["evictionHard"].default
        values["evictionHard"] = standard | values["evictionHard"]
    return values
