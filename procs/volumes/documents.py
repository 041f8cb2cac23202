"""Reading objects of the API that are kept as they were sent, with nothing taken for granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from procs.volumes.errors import VolumeError


@dataclass(frozen=True, slots=True)
class Document:
    """An object, and how it is called in a sentence.

    Fields are named by their way, ``spec.claimRef.uid``. What is missing is empty; what is of
    another type than asked for is a VolumeError that names field and value.
    """

    content: Mapping[str, Any]
    title: str

    def value(self, way: str) -> Any:
        """Return whatever is in a field; None: nothing."""
        here: Any = self.content
        gone: list[str] = []
        for name in way.split("."):
            if here is None:
                return None
            if not isinstance(here, Mapping):
                raise self._odd(".".join(gone), here, "an object")
            here = here.get(name)
            gone.append(name)
        return here

    def text(self, way: str) -> str:
        """Return a text."""
        value = self.value(way)
        if value is not None and not isinstance(value, str):
            raise self._odd(way, value, "a text")
        return value or ""

    def flag(self, way: str) -> bool:
        """Return whether something is so."""
        value = self.value(way)
        if value is not None and not isinstance(value, bool):
            raise self._odd(way, value, "true or false")
        return bool(value)

    def map(self, way: str) -> Mapping[str, Any]:
        """Return an object in this one."""
        value = self.value(way)
        if value is not None and not isinstance(value, dict):
            raise self._odd(way, value, "an object")
        return value or {}

    def texts(self, way: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self.value(way)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._odd(way, value, "a list of texts")
        return tuple(value)

    def maps(self, way: str) -> tuple[Mapping[str, Any], ...]:
        """Return a list of objects."""
        value = self.value(way)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._odd(way, value, "a list of objects")
        return tuple(value)

    def annotation(self, name: str) -> str | None:
        """Return an annotation; None: there is no such one."""
        value = self.map("metadata.annotations").get(name)
        if value is not None and not isinstance(value, str):
            raise self._odd(f"metadata.annotations[{name}]", value, "a text")
        return value

    def _odd(self, way: str, value: object, allowed: str) -> VolumeError:
        return VolumeError(f"{way} of {self.title} is {value!r}: must be {allowed}")
