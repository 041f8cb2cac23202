"""Describe a pod at length: its containers with their states, conditions, volumes and events.

The sections are those of 'kubectl describe pod'; added are where the pod comes from, why it is not
ready, and how far each volume has come. Times are in UTC. Values of the environment are shown as
the pod's document has them; what comes from a secret is shown as a reference to it.
"""

from __future__ import annotations

import argparse
import time

from kubeletctl import pods, tables
from kubeletctl.commands import probes
from kubeletctl.commands.get import named
from kubeletctl.context import Context
from kubeletctl.describing import pod as description
from kubeletctl.errors import NOT_THERE, OK, CtlError
from kubeletctl.fields import obj, objs
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView
from kubeletctl.rundir import RunDir, load_state


def configure(parser: argparse.ArgumentParser) -> None:
    """Add which pod."""
    parser.add_argument("resource", help="pod; or pod/<name>")
    parser.add_argument("names", nargs="*", metavar="name", help="name, namespace/name or uid")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="its namespace")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the description of each pod that was named."""
    names = named(options.resource, options.names)
    if not names:
        raise CtlError("describe needs the name of a pod; 'kubeletctl pods' lists them", NOT_THERE)
    known = pods.load(context.run_dir)
    chosen = [pods.resolve(known, name, options.namespace) for name in names]
    node, now_ns = _node(context.run_dir), time.time_ns()
    if context.output is not Format.TEXT:
        found = [document(one, context.run_dir) for one in chosen]
        emit(found[0] if len(found) == 1 else found, context.output)
        return OK
    texts = []
    for one in chosen:
        events, mounts = rows(one, context.run_dir)
        asked = probes.load([one], context.run_dir)
        texts.append("\n".join(description.describe(one, events, mounts, asked, node, now_ns)))
    print("\n\n\n".join(texts))
    return OK


def rows(one: PodView, run_dir: RunDir) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Return the events of a pod and its row about volumes."""
    events = objs(tables.row(run_dir, "events", one.uid), "events")
    return events, obj(tables.row(run_dir, "mounts", one.uid))


def document(one: PodView, run_dir: RunDir) -> dict[str, object]:
    """Return for programs what the description is made of."""
    events, mounts = rows(one, run_dir)
    return {
        "pod": pods.api_object(one),
        "events": events,
        "volumes": objs(mounts, "volumes"),
        "probes": [found.as_json() for found in probes.load([one], run_dir)],
    }


def _node(run_dir: RunDir) -> str:
    try:
        return load_state(run_dir).node
    except CtlError:  # said already: pods.load warns
        return ""
