"""The containers of a pod, described. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubeletctl.describing.layout import NONE, capital, moment, pairs, truth
from kubeletctl.fields import Document, flag, obj, objs, text, texts, whole
from kubeletctl.pods import PodView
from kubeletctl.probes import Probe, action, brief
from kubeletctl.words import plain

SECTIONS = (
    ("Init Containers", "initContainers", "initContainerStatuses"),
    ("Containers", "containers", "containerStatuses"),
    ("Ephemeral Containers", "ephemeralContainers", "ephemeralContainerStatuses"),
)


def describe(one: PodView, probes: Sequence[Probe], now_ns: int) -> list[str]:
    """Return the sections of all containers."""
    spec, lines = obj(one.document, "spec"), []
    for title, key, status_key in SECTIONS:
        containers = objs(spec, key)
        if not containers and key != "containers":
            continue
        lines.append(f"{title}:")
        statuses = {text(status, "name"): status for status in objs(one.status, status_key)}
        for container in containers:
            name = text(container, "name")
            found = {p.kind: brief(p, now_ns) for p in probes if p.container == name}
            lines += container_lines(container, statuses.get(name, {}), found)
    return lines


def container_lines(container: Document, status: Document, probes: Mapping[str, str]) -> list[str]:
    """Return the description of one container; ``probes`` has what is known of each, by kind."""
    return [
        f"  {plain(text(container, 'name'))}:",
        *pairs(_identity(container, status), 4),
        *_listed("Command", texts(container, "command")),
        *_listed("Args", texts(container, "args")),
        *pairs([*_states(status), *_counts(container, status)], 4),
        *_amounts("Limits", obj(container, "resources", "limits")),
        *_amounts("Requests", obj(container, "resources", "requests")),
        *pairs(_probes(container, probes), 4),
        *_environment(container),
        *_mounts(container),
    ]


def _identity(container: Document, status: Document) -> Iterator[tuple[str, str]]:
    ports = objs(container, "ports")
    yield "Container ID", text(status, "containerID")
    yield "Image", text(container, "image")
    yield "Image ID", text(status, "imageID")
    yield "Port" if len(ports) < 2 else "Ports", _ports(ports, "containerPort")
    yield "Host Port" if len(ports) < 2 else "Host Ports", _ports(ports, "hostPort")
    if text(container, "targetContainerName"):
        yield "Target Container", text(container, "targetContainerName")
    if text(container, "restartPolicy"):
        yield "Restart Policy", text(container, "restartPolicy")


def _ports(ports: list[Document], key: str) -> str:
    found = [f"{whole(port, key)}/{text(port, 'protocol') or 'TCP'}" for port in ports]
    return ", ".join(found) or NONE


def _listed(title: str, values: list[str]) -> list[str]:
    """Return arguments, each on its line; one of several lines goes on below."""
    lines = [f"      {plain(line)}" for value in values for line in value.splitlines() or [""]]
    return [f"    {title}:", *lines] if lines else []


def _states(status: Document) -> Iterator[tuple[str, str]]:
    yield from _state("State", obj(status, "state"))
    if obj(status, "lastState"):
        yield from _state("Last State", obj(status, "lastState"))


def _state(title: str, state: Document) -> Iterator[tuple[str, str]]:
    if "running" in state:
        yield title, "Running"
        yield "  Started", moment(text(obj(state, "running"), "startedAt"))
    elif "terminated" in state:
        ended = obj(state, "terminated")
        yield title, "Terminated"
        yield from _told(ended)
        yield "  Exit Code", str(whole(ended, "exitCode"))
        if whole(ended, "signal"):
            yield "  Signal", str(whole(ended, "signal"))
        yield "  Started", moment(text(ended, "startedAt"))
        yield "  Finished", moment(text(ended, "finishedAt"))
    else:
        yield title, "Waiting"
        yield from _told(obj(state, "waiting"))


def _told(found: Document) -> Iterator[tuple[str, str]]:
    if text(found, "reason"):
        yield "  Reason", text(found, "reason")
    if text(found, "message"):
        yield "  Message", text(found, "message")


def _counts(container: Document, status: Document) -> Iterator[tuple[str, str]]:
    yield "Ready", capital(flag(status, "ready"))
    yield "Restart Count", str(whole(status, "restartCount"))
    if text(container, "restartPolicy") == "Always" or obj(container, "startupProbe"):
        yield "Started", capital(flag(status, "started"))


def _amounts(title: str, amounts: Document) -> list[str]:
    found = [(key, str(value)) for key, value in sorted(amounts.items())]
    return [f"    {title}:", *pairs(found, 6)] if found else []


def _probes(container: Document, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for kind in ("liveness", "readiness", "startup"):
        found = obj(container, f"{kind}Probe")
        if found:
            yield kind.capitalize(), "\n".join(filter(None, (probe(found), known.get(kind))))


def probe(found: Document) -> str:
    """Return a probe in one line."""
    delay, timeout = whole(found, "initialDelaySeconds"), whole(found, "timeoutSeconds", 1)
    good, bad = whole(found, "successThreshold", 1), whole(found, "failureThreshold", 3)
    period = whole(found, "periodSeconds", 10)
    times = f"delay={delay}s timeout={timeout}s period={period}s #success={good} #failure={bad}"
    return f"{action(found)} {times}"


def _environment(container: Document) -> list[str]:
    """Return the environment: values as the spec has them, references as references."""
    lines = []
    froms = objs(container, "envFrom")
    if froms:
        lines = ["    Environment Variables from:", *pairs(map(_from, froms), 6)]
    env = [(text(one, "name"), env_value(one)) for one in objs(container, "env")]
    return [*lines, "    Environment:", *pairs(env, 6)] if env else [*lines, _none("Environment")]


def _from(one: Document) -> tuple[str, str]:
    kind, key = ("Secret", "secretRef") if obj(one, "secretRef") else ("ConfigMap", "configMapRef")
    found = obj(one, key)
    prefix = f" with prefix '{text(one, 'prefix')}'" if text(one, "prefix") else ""
    return text(found, "name"), f"{kind}{prefix}  Optional: {truth(flag(found, 'optional'))}"


def env_value(one: Document) -> str:
    """Return the value of a variable, or where it is to come from; never what is there."""
    source = obj(one, "valueFrom")
    if not source:
        return text(one, "value")
    for key, kind in (("secretKeyRef", "secret"), ("configMapKeyRef", "config map")):
        found = obj(source, key)
        if found:
            optional = truth(flag(found, "optional"))
            where = f"<from key '{text(found, 'key')}' of {kind} '{text(found, 'name')}'>"
            return f"{where}  Optional: {optional}"
    if obj(source, "fieldRef"):
        version = text(obj(source, "fieldRef"), "apiVersion") or "v1"
        return f"({version}:{text(source['fieldRef'], 'fieldPath')})"
    if obj(source, "fileKeyRef"):
        found = obj(source, "fileKeyRef")
        where = f"'{text(found, 'path')}' of volume '{text(found, 'volumeName')}'"
        return f"<from key '{text(found, 'key')}' in file {where}>"
    found = obj(source, "resourceFieldRef")
    return f"{text(found, 'resource')} of container '{text(found, 'containerName') or 'itself'}'"


def _none(title: str) -> str:
    return f"    {title}:  {NONE}"


def _mounts(container: Document) -> list[str]:
    found = sorted(objs(container, "volumeMounts"), key=lambda one: text(one, "mountPath"))
    if not found:
        return [_none("Mounts")]
    lines = [
        f"      {plain(text(one, 'mountPath'))} from {plain(text(one, 'name'))} ({_how(one)})"
        for one in found
    ]
    devices = [
        f"      {plain(text(one, 'devicePath'))} from {plain(text(one, 'name'))}"
        for one in objs(container, "volumeDevices")
    ]
    return ["    Mounts:", *lines, *(["    Devices:", *devices] if devices else [])]


def _how(mount: dict[str, Any]) -> str:
    parts = ["ro" if flag(mount, "readOnly") else "rw"]
    below = text(mount, "subPath") or text(mount, "subPathExpr")
    if below:
        parts.append(f'path="{plain(below)}"')
    return ",".join(parts)
