"""End pods that were applied: delete pod NAME ..., or delete -f FILE for those in a file.

A name is a whole name, namespace/name or uid. A static pod is ended by taking away its manifest,
not by this. It returns when nothing is left of the pods, unless --wait=false.

Exit code 1 if a pod is not there, may not be deleted, or is still there when the time is over.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from kubeletctl import asking, manifests, podlines, pods
from kubeletctl.asking import RefusedError
from kubeletctl.commands.get import named
from kubeletctl.context import Context
from kubeletctl.errors import FAILED, NOT_THERE, OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView, UnknownPodError
from kubeletctl.rundir import RunDir, load_state
from kubeletctl.words import plain

BEYOND_GRACE = 60.0  # seconds for what comes after the containers have ended
NOW = 1  # second of grace


def configure(parser: argparse.ArgumentParser) -> None:
    """Add which pods, and how."""
    parser.add_argument("resource", nargs="?", help="pod; or pod/<name>")
    parser.add_argument("names", nargs="*", metavar="name", help="name, namespace/name or uid")
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="those in a file, a directory, or - for standard input",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="their namespace")
    parser.add_argument(
        "--grace-period", metavar="SECONDS", type=int, default=-1, help="(default -1: the pod's)"
    )
    parser.add_argument("--now", action="store_true", help=f"as --grace-period={NOW}")
    parser.add_argument(
        "--wait", nargs="?", const="true", default="true", choices=("true", "false")
    )
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        default="0",
        help=f"of the wait (default 0: the grace and {BEYOND_GRACE:g} s)",
    )
    parser.add_argument(
        "--ignore-not-found", action="store_true", help="a pod that is not there is no error"
    )


@dataclass(slots=True)
class Deleted:
    """What became of one pod."""

    name: str
    namespace: str = ""
    uid: str = ""
    grace: int = 0
    gone: bool = False
    problem: str = ""


def run(options: argparse.Namespace, context: Context) -> int:
    """Ask for the end of each pod, then wait for all of them."""
    grace = _grace(options)
    timeout = asking.duration("--timeout", options.timeout)
    load_state(context.run_dir)
    done = [*_by_name(options, context.run_dir), *_by_file(options, context.run_dir)]
    for one in done:
        if one.uid:
            _ask(one, grace, context.run_dir, may_be_gone=options.ignore_not_found)
    asked = [one for one in done if not one.problem]
    if options.wait == "true":
        _await_end(asked, timeout, context.run_dir)
    if context.output is Format.TEXT:
        _tell(done)
    else:
        emit([document(one) for one in done], context.output)
    return FAILED if any(one.problem for one in done) else OK


def _grace(options: argparse.Namespace) -> int | None:
    if options.now and options.grace_period >= 0:
        raise CtlError("--now and --grace-period exclude each other", NOT_THERE)
    if options.grace_period < -1:
        raise CtlError("--grace-period must be 0 or more, or -1 for the pod's own", NOT_THERE)
    if options.now:
        return NOW
    return None if options.grace_period < 0 else int(options.grace_period)


def _by_name(options: argparse.Namespace, run_dir: RunDir) -> list[Deleted]:
    names = named(options.resource, options.names) if options.resource else []
    if bool(names) == bool(options.files):
        raise CtlError("delete needs either 'pod' and its name, or -f and a file", NOT_THERE)
    if not names:
        return []
    known = [one for one in pods.load(run_dir) if not one.gone]
    return _named_ones(known, names, options)


def _named_ones(
    known: list[PodView], names: list[str], options: argparse.Namespace
) -> list[Deleted]:
    found = []
    for name in names:
        try:
            one = pods.resolve(known, name, options.namespace, whole_name=True)
        except UnknownPodError as unknown:
            if not options.ignore_not_found:
                found.append(Deleted(name, problem=str(unknown)))
        except CtlError as problem:
            found.append(Deleted(name, problem=str(problem)))
        else:
            found.append(Deleted(one.name, one.namespace, one.uid))
    return found


def _by_file(options: argparse.Namespace, run_dir: RunDir) -> list[Deleted]:
    if not options.files:
        return []
    found, names = [], []
    for one in manifests.gather(options.files):
        if one.problem or not one.name:
            problem = one.problem or "metadata.name: Required value"
            found.append(Deleted(one.origin, problem=f"{one.origin}: {problem}"))
        else:
            names.append(f"{options.namespace or one.namespace}/{one.name}")
    known = [one for one in pods.load(run_dir) if not one.gone]
    return [*found, *_named_ones(known, names, options)]


def _ask(one: Deleted, grace: int | None, run_dir: RunDir, *, may_be_gone: bool) -> None:
    from kubelet.channels.messages import DeletePod

    try:
        one.grace = asking.ask(run_dir, DeletePod(one.namespace, one.name, grace)).grace
    except RefusedError as refused:
        # It was there a moment ago, and may have come to its end since.
        one.gone = may_be_gone and not asking.still_there(run_dir, one.uid)
        if not one.gone:
            one.problem = f"pod {one.name}: {refused}"


def _await_end(waiting: list[Deleted], timeout: float, run_dir: RunDir) -> None:
    seconds = timeout or max((one.grace for one in waiting), default=0) + BEYOND_GRACE

    def look() -> bool:
        for one in waiting:
            one.gone = one.gone or not asking.still_there(run_dir, one.uid)
        return all(one.gone for one in waiting)

    asking.wait_until(look, seconds)
    for one in waiting:
        if not one.gone:
            view = asking.pod(run_dir, one.uid)
            why = podlines.trouble(view) if view else ""
            one.problem = (
                f"pod {one.name} is still there after {seconds:g} s{f': it {why}' if why else ''}; "
                f"'kubeletctl why {one.namespace}/{one.name}' tells more"
            )


def _tell(done: list[Deleted]) -> None:
    for one in done:
        if not one.problem:
            words = "deleted" if one.gone else "is being deleted"
            print(f'pod "{plain(one.name)}" {words}')
    asking.complain(plain(one.problem) for one in done if one.problem)


def document(one: Deleted) -> dict[str, Any]:
    """Return what became of a pod, for programs."""
    return {
        "name": one.name,
        "namespace": one.namespace,
        "uid": one.uid,
        "grace_seconds": one.grace,
        "gone": one.gone,
        "problem": one.problem or None,
    }
