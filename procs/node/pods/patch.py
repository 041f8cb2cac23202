"""From one status of a pod to another, as a strategic merge patch. Pure (P-131).

Which lists are merged element by element, and by what, is the API's: conditions by type, addresses
by ip. All other lists are replaced as a whole.
"""

from __future__ import annotations

from typing import Any, Final

from procs.node.apiserver.types import Json
from procs.node.pods.parts import bare, named

_MERGED: Final = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}


def status_patch(uid: str, old: Json, new: Json) -> Json | None:
    """Return what makes one status of the other, for that very pod; None if nothing differs."""
    changes: Json = {}
    for field in dict.fromkeys((*new, *old)):
        changes |= _field(field, old.get(field), new.get(field))
    if not changes:
        return None
    return {"metadata": {"uid": uid}, "status": changes}


def _field(field: str, old: Any, new: Any) -> Json:
    """Return the entries of a patch for one field of the status."""
    before, after = bare(old), bare(new)
    if before == after or (_is_nothing(before) and _is_nothing(after)):
        return {}
    if field in _MERGED:
        return _elements(field, named(old, _MERGED[field]), named(new, _MERGED[field]))
    if _is_nothing(after):
        return {field: None}
    if isinstance(before, dict) and isinstance(after, dict):
        return {field: _map(before, after)}
    return {field: new}


def _is_nothing(value: Any) -> bool:
    return value in (None, "", {}, [])


def _map(old: Json, new: Json) -> Json:
    """Return what makes one map of the other; a map is merged, so what goes must be said."""
    changes: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := _map(before, value):
                changes[key] = inner
        elif before != value:
            changes[key] = value
    return changes


def _elements(field: str, old: dict[str, Json], new: dict[str, Json]) -> Json:
    """Return the entries for a list that is merged by a key."""
    key = _MERGED[field]
    changes: list[Json] = []
    for name, element in new.items():
        change = _map(bare(old.get(name, {})), bare(element))
        if change:
            changes.append({**change, key: name})
    changes += [{"$patch": "delete", key: name} for name in old if name not in new]
    if not changes:
        return {}  # nothing but the order
    return {field: changes, f"$setElementOrder/{field}": [{key: name} for name in new]}


def contains(sent: Any, rest: Any) -> bool:
    """Whether a patch said already all that another one says."""
    if isinstance(sent, dict) and isinstance(rest, dict):
        return all(_said(sent, key, value) for key, value in rest.items())
    return bool(sent == rest)


def _said(sent: Json, key: str, value: Any) -> bool:
    if key.startswith("$setElementOrder/"):
        return True  # says nothing by itself
    if key in _MERGED:
        before = named(sent.get(key), _MERGED[key])
        return all(contains(before.get(n), e) for n, e in named(value, _MERGED[key]).items())
    return key in sent and contains(sent[key], value)
