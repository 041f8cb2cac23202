"""Why the containers of a pod are not ready: probes and gates. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubeletctl import moments, probes
from kubeletctl.fields import Document, flag, obj, objs, text
from kubeletctl.podstate import condition
from kubeletctl.probes import Probe


def explain(
    document: Document, status: Document, known: Sequence[Probe], now_ns: int
) -> Iterator[str]:
    """Tell of containers that run and are not ready, of failing probes and of closed gates."""
    spec = obj(document, "spec")
    sidecars = [c for c in objs(spec, "initContainers") if text(c, "restartPolicy") == "Always"]
    specs = {text(one, "name"): one for one in (*sidecars, *objs(spec, "containers"))}
    for key in ("initContainerStatuses", "containerStatuses"):
        for found in objs(status, key):
            name = text(found, "name")
            if "running" in obj(found, "state") and name in specs:
                own = [one for one in known if one.container == name]
                yield from _container(specs[name], found, own, now_ns)
    yield from _gates(spec, status)


def _container(
    spec: Document, status: Document, known: Sequence[Probe], now_ns: int
) -> Iterator[str]:
    told = ""
    if not flag(status, "ready"):
        told = "startup" if status.get("started") is False else "readiness"
        one = next((probe for probe in known if probe.kind == told), None)
        yield _opening(spec, status, told, one, now_ns)
        if one is not None:
            yield from probes.sentences(one, now_ns)
    for probe in known:
        failing = probes.about_to_fail(probe) if probe.kind != told else ""
        if failing:
            yield failing


def _opening(spec: Document, status: Document, kind: str, one: Probe | None, now_ns: int) -> str:
    started = text(obj(status, "state", "running"), "startedAt")
    runs = f"container {text(spec, 'name')} runs {moments.since(moments.parsed(started), now_ns)}"
    if not obj(spec, f"{kind}Probe"):
        return f"{runs} and is about to be ready"
    what = f"{runs}, but its {kind} probe"
    if one is None:
        return f"{what} has not succeeded"
    if one.verdict == probes.FAILURE and one.succeeded:
        return f"{what}, {one.handler}, fails {moments.since(one.since_ns, now_ns)}"
    return f"{what}, {one.handler}, has not succeeded"


def _gates(spec: Document, status: Document) -> Iterator[str]:
    closed = [
        text(gate, "conditionType")
        for gate in objs(spec, "readinessGates")
        if condition(status, text(gate, "conditionType")) != "True"
    ]
    if closed:
        yield f"its readiness gates wait for conditions that others set: {', '.join(closed)}"
