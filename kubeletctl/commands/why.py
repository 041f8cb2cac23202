"""Tell in one paragraph why a pod is as it is: what it waits for, since when, and what comes next.

It is put together from the tables, so it answers when every process is stuck. A pod whose manifest
cannot be read is not among the pods; then what is wrong with the manifests is shown.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from kubeletctl import podlines, pods, tables
from kubeletctl.commands import probes
from kubeletctl.context import Context
from kubeletctl.errors import OK, CtlError
from kubeletctl.fields import obj, texts
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView, UnknownPodError
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.screen import wrap
from kubeletctl.state import State
from kubeletctl.why import Facts, explain

SYNCLOOP = "syncloop"  # the process that looks after pods


def configure(parser: argparse.ArgumentParser) -> None:
    """Add which pod."""
    parser.add_argument("pod", help="name, namespace/name or uid, or the beginning of one")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="its namespace")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the paragraph."""
    sources = tables.row(context.run_dir, "events", tables.SOURCES_KEY)
    try:
        one = pods.resolve(pods.load(context.run_dir), options.pod, options.namespace)
    except UnknownPodError as unknown:
        raise _with_problems(unknown, texts(sources, "problems")) from None
    found = facts(one, sources, context.run_dir)
    words = explain(found)
    if context.output is Format.TEXT:
        print("\n".join(wrap(context.screen, words, "", "")))
    else:
        emit({**podlines.as_json(one), "why": words}, context.output)
    return OK


def _with_problems(unknown: UnknownPodError, problems: list[str]) -> CtlError:
    """Add what is wrong with manifests: the pod may be in one of them."""
    about = [one for one in problems if unknown.word in one] or problems
    if not about:
        return unknown
    return CtlError(f"{unknown}. It may be in a manifest with a problem: {'; '.join(about)}")


def facts(one: PodView, sources: Any, run_dir: RunDir) -> Facts:
    """Gather what is known about a pod."""
    from kubelet.pods import rows
    from kubelet.pods.wire import BadRecordError

    state = _state(run_dir)
    try:
        mounts = tables.row(run_dir, "mounts", one.uid)
        events = tables.row(run_dir, "events", one.uid)
        return Facts(
            pod=rows.PodRow.from_wire(one.row),
            work=rows.WorkRow.from_wire({"uid": one.uid, **one.work}),
            document=one.document,
            status=one.status,
            summary=one.summary,
            now_ns=time.time_ns(),
            volumes=rows.MountsRow.from_wire(mounts).volumes if mounts else (),
            probes=tuple(probes.load([one], run_dir)),
            events=rows.EventsRow.from_wire(events).events if events else (),
            undelivered=tuple(
                name for name, given in obj(sources, "delivered").items() if given is False
            ),
            runtime=tables.runtime_problem(run_dir) or "",
            kubelet=_kubelet(state),
            quarantined=next(
                (case for case in (state.quarantine if state else ()) if case.pod == one.uid), None
            ),
        )
    except BadRecordError as problem:
        raise CtlError(f"What is written about pod {one.full} makes no sense: {problem}") from None


def _state(run_dir: RunDir) -> State | None:
    try:
        return load_state(run_dir)
    except CtlError:
        return None


def _kubelet(state: State | None) -> str:
    """Say what keeps the kubelet from doing anything for pods; "" if nothing does."""
    if state is None:
        return "the kubelet does not run, so that nothing happens until it does"
    found = next((one for one in state.processes if one.name == SYNCLOOP), None)
    if found is None or found.state == "running":
        return ""
    return f"{SYNCLOOP}, the process that looks after pods, is {found.state} at the moment"
