"""Have this node run the pods in files: -f FILE (JSON or YAML), -f DIRECTORY, or -f - for stdin.

For nodes without an API server. A file may hold several documents, and lists. Applying the same
again changes nothing; a changed document changes the pod. What is wrong with a document is said
with its file and field, and the others are applied all the same. --wait returns when all of them
are ready or have ended well.

Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from kubeletctl import asking, manifests, podlines
from kubeletctl.asking import RefusedError
from kubeletctl.context import Context
from kubeletctl.errors import FAILED, OK
from kubeletctl.manifests import Found
from kubeletctl.output import Format, emit
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.words import plain

TIMEOUT = "5m"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the files and whether to wait."""
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        required=True,
        metavar="FILE",
        help="a file, a directory, or - for standard input; may be given several times",
    )
    parser.add_argument("--wait", action="store_true", help="until the pods are ready")
    parser.add_argument(
        "--timeout", metavar="DURATION", default=TIMEOUT, help=f"of --wait (default {TIMEOUT})"
    )


@dataclass(slots=True)
class Applied:
    """What became of one document."""

    origin: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    result: str = "failed"
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def run(options: argparse.Namespace, context: Context) -> int:
    """Apply everything, and wait if asked to."""
    timeout = asking.duration("--timeout", options.timeout)
    load_state(context.run_dir)
    done = []
    for found in manifests.gather(options.files):
        applied = submit(found, context.run_dir)
        done.append(applied)
        if context.output is Format.TEXT:
            _tell(applied)
    if options.wait:
        _await_ready([one for one in done if one.uid], context, timeout)
    if context.output is not Format.TEXT:
        emit([document(one) for one in done], context.output)
    return FAILED if any(one.problems for one in done) else OK


def submit(found: Found, run_dir: RunDir) -> Applied:
    """Send one document, and return what came of it."""
    from kubelet.channels.messages import SubmitPod

    applied = Applied(found.origin, found.name, found.namespace)
    if found.problem:
        applied.problems = (found.problem,)
        return applied
    try:
        answer = asking.ask(run_dir, SubmitPod(json.dumps(found.value).encode()))
    except RefusedError as refused:
        applied.problems = tuple(refused.problems)
        return applied
    return Applied(
        found.origin, answer.name, answer.namespace, answer.uid, answer.result, answer.warnings
    )


def _tell(applied: Applied) -> None:
    if applied.result != "failed":
        print(f"pod/{plain(applied.name)} {applied.result}", flush=True)
    where = plain(applied.origin)
    who = f" (pod {plain(applied.name)})" if applied.name else ""
    asking.complain(f"{where}{who}: warning: {plain(text)}" for text in applied.warnings)
    asking.complain(f"{where}{who}: {plain(text)}" for text in applied.problems)


def document(applied: Applied) -> dict[str, Any]:
    """Return what became of a document, for programs."""
    return {
        "file": applied.origin,
        "name": applied.name,
        "namespace": applied.namespace,
        "uid": applied.uid,
        "result": applied.result,
        "warnings": list(applied.warnings),
        "problems": list(applied.problems),
    }


def _await_ready(waiting: list[Applied], context: Context, seconds: float) -> None:
    """Wait until all are ready; what is not in time, or has failed, is a problem of its own."""
    left = list(waiting)

    def look() -> bool:
        left[:] = [one for one in left if not _over(one, context)]
        return not left

    in_time = asking.wait_until(look, seconds)
    if in_time:
        return
    for one in left:
        view = asking.pod(context.run_dir, one.uid)
        why = podlines.trouble(view) if view else "it is not known yet"
        text = f"not ready after {seconds:g} s: {why or 'no reason is known'}"
        _fail(one, f"{text}; 'kubeletctl why {one.namespace}/{one.name}' tells more", context)


def _over(applied: Applied, context: Context) -> bool:
    """Whether a pod is ready or has ended; a failed one is told."""
    view = asking.pod(context.run_dir, applied.uid)
    group = podlines.group(view) if view else ""
    if view is not None and group == "failed":
        why = podlines.trouble(view)
        _fail(applied, f"it has failed: {view.summary.word}{f': {why}' if why else ''}", context)
    return group in {"ready", "completed", "failed"}


def _fail(applied: Applied, problem: str, context: Context) -> None:
    applied.problems = (*applied.problems, problem)
    if context.output is Format.TEXT:
        asking.complain([f"pod {plain(applied.name)}: {plain(problem)}"])
