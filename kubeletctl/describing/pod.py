"""The whole description of a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kubeletctl import podlines
from kubeletctl.describing import containers, volumes
from kubeletctl.describing.layout import NONE, assignments, many, moment
from kubeletctl.fields import Document, obj, objs, text, whole
from kubeletctl.pods import PodView
from kubeletctl.probes import Probe
from kubeletctl.screen import Cell, Column, Screen, table
from kubeletctl.words import kube_age, plain

_TAIL = 29  # the column of the values after the volumes
_EVENTS = (
    Column("Type"),
    Column("Reason"),
    Column("Age"),
    Column("From"),
    Column("Message"),
)


def describe(  # noqa: PLR0913, PLR0917 - all that is known of a pod
    one: PodView,
    events: list[Document],
    mounts: Document,
    probes: list[Probe],
    node: str,
    now_ns: int,
) -> list[str]:
    """Return the description of a pod, without colours and uncut."""
    return [
        *_head(one, node),
        *containers.describe(one, probes, now_ns),
        *_conditions(one.status),
        *volumes.describe(one.document, mounts, now_ns),
        *_tail(one),
        *event_lines(events, now_ns),
    ]


def _head(one: PodView, node: str) -> list[str]:
    metadata, width = obj(one.document, "metadata"), 18
    lines: list[str] = []
    for title, value in _facts(one, node):
        first, *rest = value.splitlines() or [""]
        lines.append(f"{title + ':':{width}}{plain(first)}".rstrip())
        lines += [" " * width + plain(line) for line in rest]
        if title == "Start Time":
            lines += many("Labels", assignments(obj(metadata, "labels")), width)
            annotations = sorted(obj(metadata, "annotations").items())
            notes = [f"{key}: {value}" for key, value in annotations]
            lines += many("Annotations", notes, width)
    ips = [plain(text(ip, "ip")) for ip in objs(one.status, "podIPs")]
    return [*lines, *(["IPs:", *(f"  IP:  {ip}" for ip in ips)] if ips else [f"IPs:  {NONE}"])]


def _facts(one: PodView, node: str) -> Iterator[tuple[str, str]]:
    spec, status = obj(one.document, "spec"), one.status
    name = text(spec, "nodeName") or node or NONE
    address = text(status, "hostIP")
    yield "Name", one.name
    yield "Namespace", one.namespace
    yield "UID", one.uid
    yield "Source", text(one.row, "source") or "none: the runtime has it, nobody wants it"
    yield "Priority", str(whole(spec, "priority"))
    if text(spec, "runtimeClassName"):
        yield "Runtime Class Name", text(spec, "runtimeClassName")
    yield "Service Account", text(spec, "serviceAccountName") or "default"
    yield "Node", f"{name}/{address}" if address else name
    yield "Start Time", moment(text(status, "startTime"))
    yield "Status", _status(one)
    for title, key in (("Reason", "reason"), ("Message", "message")):
        if text(status, key):
            yield title, text(status, key)
    why = podlines.trouble(one)
    if why:
        yield "Why", why
    yield "IP", text(status, "podIP")


def _status(one: PodView) -> str:
    phase = text(one.status, "phase") or text(one.row, "phase") or "Pending"
    if not one.removed:
        return phase
    return f"Terminating (grace {whole(obj(one.row, 'ending'), 'grace')} s)"


def _conditions(status: Document) -> list[str]:
    found = [
        (text(one, "type"), text(one, "status"), _because(one))
        for one in objs(status, "conditions")
    ]
    if not found:
        return [f"Conditions:  {NONE}"]
    width = max(len(kind) for kind, _, _ in (("Type", "", ""), *found)) + 2
    rows = [("Type", "Status", ""), *found]
    return [
        "Conditions:",
        *(
            f"  {plain(kind):{width}}{plain(state):8}{plain(why)}".rstrip()
            for kind, state, why in rows
        ),
    ]


def _because(condition: Document) -> str:
    return ": ".join(filter(None, (text(condition, "reason"), text(condition, "message"))))


def _tail(one: PodView) -> list[str]:
    spec = obj(one.document, "spec")
    lines = many("QoS Class", filter(None, [text(one.status, "qosClass")]), _TAIL)
    lines += many("Node-Selectors", assignments(obj(spec, "nodeSelector")), _TAIL)
    return [*lines, *many("Tolerations", map(toleration, objs(spec, "tolerations")), _TAIL)]


def toleration(found: Document) -> str:
    """Return a toleration in one line."""
    key, value, effect = text(found, "key"), text(found, "value"), text(found, "effect")
    exists = text(found, "operator") == "Exists"
    line = f"{key}={value}" if value else key
    line += f":{effect}" if effect else ""
    line += " op=Exists" if exists else ""
    seconds = found.get("tolerationSeconds")
    return (line + (f" for {seconds}s" if isinstance(seconds, int) else "")).strip()


def event_lines(events: list[Document], now_ns: int) -> list[str]:
    """Return the section of the events."""
    if not events:
        return [f"Events:  {NONE}"]
    rows = [[Cell("-" * len(column.title)) for column in _EVENTS]]
    rows += [[Cell(part) for part in _event(one, now_ns)] for one in events]
    return ["Events:", *(f"  {line}" for line in table(_ANY_WIDTH, _EVENTS, rows))]


_ANY_WIDTH = Screen(colors=False, width=None)


def _event(one: Document, now_ns: int) -> tuple[str, str, str, str, str]:
    count, last, first = whole(one, "count", 1), whole(one, "last_ns"), whole(one, "first_ns")
    age = kube_age((now_ns - last) / 1e9)
    if count > 1:
        age += f" (x{count} over {kube_age((now_ns - first) / 1e9)})"
    return text(one, "type"), text(one, "reason"), age, "kubelet", text(one, "message")
