"""What is to be said to the API server about one pod next. Pure (P-41, P-131)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from zlib import crc32

from kubelet.pods.rows import StatusRow
from procs.node.apiserver.types import ApiError, Json
from procs.node.pods import parts
from procs.node.pods.merge import backwards, merged, urgent
from procs.node.pods.parts import TERMINAL
from procs.node.pods.patch import status_patch


@dataclass(frozen=True, slots=True)
class Wanted:
    """A status as it is to be shown."""

    uid: str  # as the node knows the pod: of a static pod not that of its mirror
    name: str
    namespace: str
    mark: int  # another one: another status
    finished: bool
    status: Json = field(hash=False)

    @staticmethod
    def of(row: StatusRow) -> Wanted:
        """Return the status of a row; ValueError if it is none."""
        status = json.loads(row.document)
        if not isinstance(status, dict):
            raise ValueError("is no object")  # noqa: TRY004 - as any other text that is no status
        mark = crc32(row.document, row.version + row.finished)
        return Wanted(row.uid, row.name, row.namespace, mark, row.finished, status)


@dataclass(frozen=True, slots=True)
class Patch:
    """Have the status changed."""

    body: Json
    urgent: bool


@dataclass(frozen=True, slots=True)
class Delete:
    """Have the object deleted for good: nothing of the pod is left here."""

    urgent: bool = True


@dataclass(frozen=True, slots=True)
class Backwards:
    """Say nothing: it would undo the end of a container."""

    container: str


Step = Patch | Delete | Backwards


def next_step(pod: Json, wanted: Wanted, kept: Json | None = None) -> Step | None:
    """Return what to do about an object; None: it says what it should.

    ``kept`` is a patch that the server took and that made no difference: it is not made again.
    """
    api = pod["status"]
    status = merged(api, wanted.status)
    if not wanted.finished and (name := backwards(pod["spec"], api, status)):
        return Backwards(name)
    body = status_patch(parts.uid_of(pod), api, status)
    if body is not None and body != kept:
        return Patch(body, wanted.finished or urgent(api, status))
    if parts.deleting(pod) and not parts.is_mirror(pod):
        return Delete() if wanted.finished and api.get("phase") in TERMINAL else None
    return None


def is_other(err: ApiError) -> bool:
    """Whether there is another pod of that name now: its UID is not the one that was named.

    A delete with a precondition answers with a conflict, a patch that another UID is invalid.
    """
    return err.status in (409, 422) and "uid" in str(err).lower()
