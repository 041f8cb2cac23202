"""Pods as the tables tell of them, and how one of them is named on a command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kubeletctl import tables
from kubeletctl.errors import CtlError, NotThereError
from kubeletctl.fields import Document, flag, obj, objs, text, whole
from kubeletctl.podstate import Summary, summarize
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.words import plain

FINISHED: Final = "finished"
UNREADABLE: Final = "unreadable"  # the row makes no sense
_NEAR: Final = 8  # names that are listed when the one that was given is not there


class PodView(NamedTuple):
    """One pod: its rows in the tables, and the documents in them."""

    uid: str
    row: Document  # of table pods
    document: Document  # the pod as the API knows it, without its status
    status: Document
    work: Document  # of table inflight: what its worker is at

    @property
    def name(self) -> str:
        """Its name."""
        return text(self.row, "name")

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return text(self.row, "namespace")

    @property
    def full(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def state(self) -> str:
        """The state of its worker."""
        return text(self.row, "state") or "sync"  # a row leaves out what has its default

    @property
    def removed(self) -> bool:
        """Whether nobody wants it any more, so that nothing of it is to stay."""
        return flag(obj(self.row, "ending"), "removed")

    @property
    def gone(self) -> bool:
        """Whether nothing is left of it but the row, and nobody wants it any more."""
        return self.state == FINISHED and self.removed

    @property
    def waits_for(self) -> str:
        """What it waits for, in a few words; "" for nothing."""
        waits = [text(one, "what") for one in objs(self.work, "waits")]
        return ", ".join(filter(None, waits))

    @property
    def summary(self) -> Summary:
        """What a line of a table says about it."""
        status = self.status or {"phase": "Pending"}
        return summarize(self.document, status, ending=self.removed)

    def created_ns(self) -> int:
        """Return since when it is there, on the wall clock; 0 if nobody knows."""
        from kubelet.times import to_ns  # loads datetime

        try:
            created = to_ns(text(obj(self.document, "metadata"), "creationTimestamp"))
        except ValueError:
            created = 0
        return created or whole(self.row, "seen_ns")


def views(content: dict[str, dict[str, Any]]) -> list[PodView]:
    """Put together the pods from the rows of the tables, by namespace and name. Pure."""
    found = []
    for uid, row in content.get("pods", {}).items():
        status, work = (content.get(table, {}).get(uid) for table in ("status", "inflight"))
        row_ = row if isinstance(row, dict) else {"state": UNREADABLE}
        found.append(PodView(uid, row_, _json(row_), _json(status), obj(work)))
    return sorted(found, key=lambda one: (one.namespace, one.name, one.uid))


def _json(row: Any) -> Document:
    """Return the document in a row, empty if there is none or it makes no sense."""
    data = row.get("document") if isinstance(row, dict) else None
    try:
        return obj(json.loads(data)) if data else {}
    except (ValueError, TypeError):
        return {}


def load(run_dir: RunDir) -> list[PodView]:
    """Read every pod, in the order of namespaces and names."""
    _warn_if_stopped(run_dir)
    content, problems = tables.pods(run_dir)
    for problem in problems:
        print(f"kubeletctl: {problem}", file=sys.stderr)
    return views(content)


def _warn_if_stopped(run_dir: RunDir) -> None:
    """Say on standard error that what follows is not of today, if no kubelet runs."""
    try:
        load_state(run_dir)
    except NotThereError as problem:
        if not tables.there(run_dir):
            raise
        print(f"kubeletctl: {problem}. This is what it left behind.", file=sys.stderr)


def api_object(one: PodView) -> Document:
    """Return a pod as the API shows it: a v1 Pod with its status."""
    body = {key: value for key, value in one.document.items() if key != "status"}
    metadata = {"name": one.name, "namespace": one.namespace, "uid": one.uid}
    return {
        **body,
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, **obj(body, "metadata")},
        "spec": obj(body, "spec"),
        "status": one.status or {"phase": "Pending"},
    }


def api_list(pods: Iterable[PodView]) -> Document:
    """Return several pods as the API's list."""
    return {
        "apiVersion": "v1",
        "items": [api_object(one) for one in pods],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def resolve(
    pods: Sequence[PodView], word: str, namespace: str = "", *, whole_name: bool = False
) -> PodView:
    """Find the pod that a word means: a name, namespace/name, a uid, or the beginning of one.

    ``whole_name``: a beginning is not enough, as where something is deleted.
    """
    wanted = word.removeprefix("pod/").removeprefix("pods/")
    among = [one for one in pods if not namespace or one.namespace == namespace]
    for find in (_exactly, _nothing if whole_name else _beginning):
        newest = _newest(find(among, wanted))
        if len(newest) == 1:
            return newest[0]
        if newest:
            listed = ", ".join(f"{plain(one.full)} (uid {plain(one.uid)})" for one in newest)
            raise CtlError(f"Several pods are meant by {wanted!r}: {listed}")
    raise UnknownPodError(wanted, namespace, pods)


class UnknownPodError(CtlError):
    """There is no such pod."""

    def __init__(self, word: str, namespace: str, pods: Sequence[PodView]) -> None:
        where = f" in namespace {namespace!r}" if namespace else ""
        names = [plain(one.full) for one in pods]
        more = f" and {len(names) - _NEAR} more" if len(names) > _NEAR else ""
        known = f"; the pods are {', '.join(names[:_NEAR])}{more}" if names else "; there are none"
        super().__init__(f"There is no pod {word!r}{where}{known}")
        self.word = word


def _exactly(pods: Sequence[PodView], word: str) -> list[PodView]:
    for among in (
        [one for one in pods if one.uid == word],
        [one for one in pods if one.full == word],
        [one for one in pods if one.name == word],
        # A static pod has the node's name behind its own.
        [one for one in pods if one.name == f"{word}-{_node(one)}"],
    ):
        if among:
            return among
    return []


def _node(one: PodView) -> str:
    return text(obj(one.document, "spec"), "nodeName").lower()


def _nothing(_pods: Sequence[PodView], _word: str) -> list[PodView]:
    return []


def _beginning(pods: Sequence[PodView], word: str) -> list[PodView]:
    return [
        one
        for one in pods
        if word
        and (one.name.startswith(word) or one.uid.startswith(word) or one.full.startswith(word))
    ]


def _newest(pods: Sequence[PodView]) -> list[PodView]:
    """Of pods with one name, leave the one that has it now: its predecessor may still be ending."""
    by_name: dict[str, PodView] = {}
    for one in pods:
        other = by_name.get(one.full)
        if other is None or _rank(one) > _rank(other):
            by_name[one.full] = one
    return list(by_name.values())


def _rank(one: PodView) -> tuple[bool, int]:
    return not one.removed, whole(one.row, "seen_ns")
