"""Print what a container has written to its log.

Without -c, the pod's only container, or the one that its annotation
kubectl.kubernetes.io/default-container names. -f goes on until the container ends, also when the
log is rotated meanwhile. --previous is the instance before the one that runs. Both streams go to
standard output, as they are; lines that are not in the form of a container's log are left out, and
counted on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

from kubeletctl import pods, tables
from kubeletctl.context import Context
from kubeletctl.errors import FAILED, NOT_THERE, OK, CtlError
from kubeletctl.fields import flag, obj
from kubeletctl.pods import PodView
from kubeletctl.rundir import RunDir

if TYPE_CHECKING:  # the types of the rows take a tenth of a second to load
    from kubelet.api.pod import Pod
    from kubelet.logs import LogOptions, LogReader, Piece
    from kubelet.pods.runtime import ContainerRecord, PodRecord

OWN_OUTPUT = True
RECHECK_SECONDS: Final = 0.25  # this is a viewer: nothing waits for it
_RUNTIME: Final = "runtime"  # the table, and the key in it of the runtime itself


class _Log(NamedTuple):
    """A log that is to be shown."""

    name: str  # of the container
    path: str
    ended: Callable[[], bool]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add which log, and what of it."""
    parser.add_argument("pod", help="name, namespace/name or uid, or the beginning of one")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="its namespace")
    parser.add_argument("-c", "--container", metavar="NAME", default="", help="the container")
    parser.add_argument("--all-containers", action="store_true", help="all of the pod's")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    parser.add_argument("-p", "--previous", action="store_true", help="the instance before")
    parser.add_argument(
        "--tail", type=int, default=-1, metavar="N", help="the last lines only (-1: all)"
    )
    parser.add_argument("--since", metavar="AGE", help="lines of this age at most, such as 10s")
    parser.add_argument("--since-time", metavar="TIME", help="lines from a time on (RFC 3339)")
    parser.add_argument("--limit-bytes", type=int, metavar="N", help="no more bytes than these")
    parser.add_argument("--timestamps", action="store_true", help="the time before each line")


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the logs."""
    from kubelet.logs import LogError

    wanted = what_is_wanted(options, time.time_ns())
    if options.all_containers and options.container:
        raise CtlError("--all-containers and -c exclude each other", NOT_THERE)
    one = pods.resolve(pods.load(context.run_dir), options.pod, options.namespace)
    record = _record(context.run_dir, one)
    try:
        if options.all_containers:
            return _show_all(one, record, wanted, options, context.run_dir)
        log = _find(one, record, options.container, options.previous, context.run_dir)
        _show(log, wanted, follow=options.follow)
    except LogError as err:
        raise CtlError(str(err)) from None
    return OK


def what_is_wanted(options: argparse.Namespace, now_ns: int) -> LogOptions:
    """Return what the command line asks for; CtlError says what makes no sense in it."""
    from kubelet.logs import LogOptions

    if options.since and options.since_time:
        raise CtlError("only one of --since and --since-time may be given", NOT_THERE)
    if options.tail < -1:
        raise CtlError(f"--tail {options.tail}: must be -1, for all lines, or more", NOT_THERE)
    if options.limit_bytes is not None and options.limit_bytes < 1:
        raise CtlError(f"--limit-bytes {options.limit_bytes}: must be greater than 0", NOT_THERE)
    return LogOptions(
        tail=None if options.tail < 0 else options.tail,
        since_ns=_since(options, now_ns),
        limit_bytes=options.limit_bytes,
        timestamps=options.timestamps,
    )


def _since(options: argparse.Namespace, now_ns: int) -> int | None:
    from kubelet import durations
    from kubelet.logs.records import wall_ns

    try:
        if options.since_time:
            return wall_ns(options.since_time.encode())
        if not options.since:
            return None
        age = durations.parse(options.since)
    except ValueError as err:
        name = "--since-time" if options.since_time else "--since"
        given = options.since_time or options.since
        raise CtlError(f"{name} {given}: {err}", NOT_THERE) from None
    if age <= 0:
        raise CtlError(f"--since {options.since}: must be greater than 0", NOT_THERE)
    return now_ns - age


# --- which log -----------------------------------------------------------------------------------


def _record(run_dir: RunDir, one: PodView) -> PodRecord:
    """Return what the runtime holds of a pod."""
    from kubelet.pods.runtime import BadRecordError, PodRecord

    row = tables.row(run_dir, _RUNTIME, one.uid)
    try:
        return PodRecord.from_wire(row) if row is not None else PodRecord(one.uid)
    except BadRecordError as err:
        raise CtlError(f"What is known of pod {one.full} makes no sense: {err}") from None


def _find(one: PodView, record: PodRecord, container: str, previous: bool, run_dir: RunDir) -> _Log:
    """Find the log of a container that is named, or that is meant by no name."""
    from kubelet.logs import LogError, choose_container

    name = choose_container(_pod(one, record), container)
    found = _instance(one, record, name, previous)
    if not found.log_path:
        raise LogError(f'container "{name}" in pod "{one.name}" has no log')
    return _Log(name, found.log_path, lambda: has_ended(run_dir, one.uid, found.id))


def _pod(one: PodView, record: PodRecord) -> Pod:
    """Return the pod; of one that nobody wants, the runtime knows which containers it has."""
    from kubelet.api import codec
    from kubelet.api.container import Container
    from kubelet.api.pod import Pod, PodSpec

    try:
        if one.document:
            return codec.read(Pod, one.document)
    except codec.DecodeError as err:
        raise CtlError(f"The document of pod {one.full} makes no sense: {err}") from None
    names = dict.fromkeys(container.name for container in reversed(record.containers))
    return Pod(spec=PodSpec(containers=tuple(Container(name=name) for name in names)))


def _instance(one: PodView, record: PodRecord, name: str, previous: bool) -> ContainerRecord:
    """Find the instance that is meant: by the pod's status (H-63), or else by age."""
    from kubelet.api import codec
    from kubelet.api.status import PodStatus
    from kubelet.logs import LogError, instance

    known = [found for found in record.containers if found.name == name]
    if not one.status:
        wanted = known[1:2] if previous else known[:1]
        if wanted:
            return wanted[0]
    try:
        status = codec.read(PodStatus, one.status)
    except codec.DecodeError as err:
        raise CtlError(f"The status of pod {one.full} makes no sense: {err}") from None
    id_ = instance(status, one.name, name, previous=previous)
    found = next((found for found in known if found.id == id_), None)
    if found is None:
        gone = f"its instance {id_[:13]} was removed from the runtime"
        raise LogError(f'container "{name}" in pod "{one.name}" has no log any more: {gone}')
    return found


def has_ended(run_dir: RunDir, uid: str, container_id: str) -> bool:
    """Tell whether a container will write no more; what cannot be read tells nothing."""
    from kubelet.pods.runtime import BadRecordError, ContainerState, PodRecord

    try:
        row = tables.row(run_dir, _RUNTIME, uid)
        if row is None:
            return flag(obj(tables.row(run_dir, _RUNTIME, _RUNTIME)), "looked")
        containers = PodRecord.from_wire(row).containers
    except (CtlError, BadRecordError):
        return False
    found = next((one for one in containers if one.id == container_id), None)
    return found is None or found.state in (ContainerState.EXITED, ContainerState.UNKNOWN)


# --- showing -------------------------------------------------------------------------------------


def _show(log: _Log, wanted: LogOptions, *, follow: bool) -> None:
    from kubelet import logs

    with logs.LogReader(log.path, wanted) as reader:
        coming = logs.follow(reader, log.ended, RECHECK_SECONDS) if follow else logs.read(reader)
        for pieces in coming:
            _print(pieces)
        _tell_broken(log, reader)


def _show_all(
    one: PodView,
    record: PodRecord,
    wanted: LogOptions,
    options: argparse.Namespace,
    run_dir: RunDir,
) -> int:
    """Show the logs of all containers: one after the other, or what comes as it comes."""
    from kubelet.logs import LogError, container_names

    found, failed = [], False
    for name in container_names(_pod(one, record)):
        try:
            found.append(_find(one, record, name, options.previous, run_dir))
        except LogError as err:
            failed = True
            print(f"kubeletctl: {err}", file=sys.stderr)
    if options.follow:
        asyncio.run(_follow_all(found, wanted))
    else:
        for log in found:
            _show(log, wanted, follow=False)
    return FAILED if failed else OK


async def _follow_all(found: list[_Log], wanted: LogOptions) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for log in found:
                group.create_task(_follow(log, wanted))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


async def _follow(log: _Log, wanted: LogOptions) -> None:
    from kubelet import logs

    with logs.LogReader(log.path, wanted) as reader:
        coming = logs.stream(reader, log.ended, recheck=RECHECK_SECONDS)
        async with aclosing(coming):
            async for pieces in coming:
                _print(pieces)
        _tell_broken(log, reader)


def _print(pieces: list[Piece]) -> None:
    """Write at once: whoever follows a log wants to see it, and so does a pipe."""
    sys.stdout.buffer.write(b"".join(piece.data for piece in pieces))
    sys.stdout.buffer.flush()


def _tell_broken(log: _Log, reader: LogReader) -> None:
    if reader.broken:
        many = "1 line was" if reader.broken == 1 else f"{reader.broken} lines were"
        words = f"{many} left out of the log of {log.name}: not in the form of a container's log"
        print(f"kubeletctl: {words}", file=sys.stderr)
