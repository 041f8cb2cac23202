"""What a pod waits for, in one paragraph: since when, what was tried, what comes next. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubelet.pods.rows import (
    CallStep,
    Ending,
    Event,
    PodRow,
    VolumeRow,
    VolumeState,
    Wait,
    WorkerState,
    WorkRow,
)
from kubeletctl import moments, unready
from kubeletctl.fields import Document, obj, objs, text, whole
from kubeletctl.podstate import TERMINAL, TERMINATING, Summary, condition, running_init
from kubeletctl.probes import Probe
from kubeletctl.state import Quarantined
from kubeletctl.volumes import LONG_NS
from kubeletctl.words import age, count

_RECENT_NS = 600 * 10**9  # a warning that is older explains nothing any more
# What warns of how a pod is set up, and is no reason for anything that it waits for.
_ADVICE = frozenset({"MissingClusterDNS", "DNSConfigForming"})
_NAMED = 3  # containers in a sentence, before the others are only counted


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that is known about one pod."""

    pod: PodRow
    work: WorkRow
    document: Document
    status: Document
    summary: Summary
    now_ns: int  # wall clock
    volumes: tuple[VolumeRow, ...] = ()
    probes: tuple[Probe, ...] = ()
    events: tuple[Event, ...] = ()
    undelivered: tuple[str, ...] = ()  # sources that have not given their pods yet
    runtime: str = ""  # what is wrong with the container runtime
    kubelet: str = ""  # what is wrong with the kubelet, so that nothing happens
    quarantined: Quarantined | None = None


def explain(facts: Facts) -> str:
    """Return the paragraph."""
    return " ".join(_sentence(part) for part in _parts(facts))


def _sentence(words: str) -> str:
    """Make a sentence of words: it begins with a capital and ends with a full stop."""
    words = " ".join(words.split())
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def _parts(facts: Facts) -> Iterator[str]:
    yield _opening(facts)
    if facts.quarantined:
        yield from _left_alone(facts.quarantined, facts.now_ns)
    if facts.pod.rejected:
        yield from _refused(facts.pod)
    elif facts.pod.ending is not None and facts.pod.state is not WorkerState.SYNC:
        yield from _ending(facts, facts.pod.ending)
    elif _settled(facts):
        yield from _running(facts)
    yield from _waiting(facts)
    yield from _around(facts)
    told = any(wait.tried for wait in facts.work.waits)  # a warning could only repeat it
    if not (told or _settled(facts) or _ended(facts)):
        yield from _last_warning(facts)


def _ended(facts: Facts) -> bool:
    """Whether the pod has ended, by itself or because it was refused."""
    return text(facts.status, "phase") in TERMINAL


def _settled(facts: Facts) -> bool:
    """Whether the pod runs and is ready."""
    running = facts.pod.state is WorkerState.SYNC
    return running and condition(facts.status, "Ready") == "True"


def _opening(facts: Facts) -> str:
    pod, found = facts.pod, facts.summary
    who = f"pod {pod.namespace}/{pod.name}"
    origin = f" from source {pod.source}" if pod.source else ""
    ready = f"{found.ready} of {count(found.total, 'container')} ready"
    if _settled(facts):
        calm = ": nothing is waited for" if not facts.work.waits else ""
        return f"{who}{origin} is {found.word} and ready ({ready}){calm}"
    phase = text(facts.status, "phase")
    if _ended(facts):
        return f"{who}{origin} has ended: its phase is {phase}, its status {found.word}"
    if found.word == TERMINATING:
        return f"{who}{origin} is Terminating, with {ready}"
    return f"{who}{origin} is not ready: its status is {found.word}, with {ready}"


def _left_alone(case: Quarantined, now_ns: int) -> Iterator[str]:
    ago = age(now_ns / 1e9 - case.since_unix)
    yield (
        f"it is left alone since {ago}, because handling it killed {case.kind} {case.deaths} "
        f"times; 'kubeletctl release {case.pod}' lets it be tried again"
    )


def _refused(pod: PodRow) -> Iterator[str]:
    reason, _, message = pod.rejected.partition("\t")
    yield f"this node refused it with reason {reason}{f': {message}' if message else ''}"
    yield "it is not tried again: it must be deleted, and made anew or changed"


def _ending(facts: Facts, ending: Ending) -> Iterator[str]:
    cause = _cause(facts, ending)
    if facts.pod.state is WorkerState.FINISHED:
        began = moments.at(ending.began_ns, facts.now_ns)
        yield f"nothing of it is left on this node; it began to end {began}{cause}"
    elif facts.pod.state is WorkerState.TERMINATED:
        yield from _stopped(facts, ending, cause)
    else:
        since = moments.since(ending.began_ns, facts.now_ns)
        yield f"it is being ended {since}{cause}, with {ending.grace} s of grace"
        yield from _stopping(facts)
        if not facts.work.waits:
            yield from _grace_left(facts, ending)
    if facts.pod.again:
        yield "it is wanted again, so that it is started anew after that"


def _stopped(facts: Facts, ending: Ending, cause: str) -> Iterator[str]:
    """Tell of a pod of which nothing runs any more."""
    yield f"all its containers have stopped{cause}"
    for name, status in _containers(facts):
        end = obj(status, "state", "terminated")
        if end:
            when = moments.at(moments.parsed(text(end, "finishedAt")), facts.now_ns)
            yield f"container {name} ended {when} {_exit(end)}"
    if facts.work.step:
        yield "what it used is being cleaned up"
    elif not ending.removed:
        yield "nothing more is done for it, and it stays as it is until it is deleted"


def _stopping(facts: Facts) -> Iterator[str]:
    """Tell how far each container that is being stopped has come."""
    calls = sorted(facts.work.calls.items())
    for step, tense in (
        (CallStep.PRE_STOP, "the preStop hook of {} runs since {}"),
        (CallStep.STOP, "container {} was told to end at {} and still runs"),
    ):
        names = [name for name, call in calls if call.step is step]
        if names:
            first = min(call.since_ns for _, call in calls if call.step is step)
            yield tense.format(_listed(names), moments.when(first, facts.now_ns))


def _listed(names: list[str]) -> str:
    """Return a few names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _cause(facts: Facts, ending: Ending) -> str:
    if ending.orphan:
        return ", because the container runtime has it and no source wants it"
    if ending.reason:
        said = f" ({ending.message.rstrip('.')})" if ending.message else ""
        return f", because of {ending.reason}{said}"
    if text(obj(facts.document, "metadata"), "deletionTimestamp"):
        return ", because it was deleted"
    if ending.removed:
        return ", because its source does not have it any more"
    return ", because it has come to its own end"


def _grace_left(facts: Facts, ending: Ending) -> Iterator[str]:
    running = _names(facts, "running")
    left = ending.began_ns / 1e9 + ending.grace - facts.now_ns / 1e9
    if not running:
        yield "none of its containers runs any more"
    elif left > 0:
        yield f"{_still(running)}; what runs in {age(left)} from now is killed"
    else:
        yield f"{_still(running)}, and its grace is over since {age(-left)}"


def _still(running: list[str]) -> str:
    return f"still running {'is' if len(running) == 1 else 'are'} {_listed(running)}"


def _names(facts: Facts, state: str) -> list[str]:
    return [name for name, status in _containers(facts) if state in obj(status, "state")]


def _containers(facts: Facts) -> list[tuple[str, Document]]:
    keys = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return [(text(one, "name"), one) for key in keys for one in objs(facts.status, key)]


# --- a pod that runs ---


def _running(facts: Facts) -> Iterator[str]:
    ready = next(
        (one for one in objs(facts.status, "conditions") if text(one, "type") == "Ready"), {}
    )
    since, began = (
        moments.parsed(text(ready, "lastTransitionTime")),
        moments.parsed(text(facts.status, "startTime")),
    )
    parts = [f"it is ready {moments.since(since, facts.now_ns)}"] if since else []
    if began:
        parts.append(f"this node began to start it {moments.at(began, facts.now_ns)}")
    if parts:
        yield ", and ".join(parts)
    yield _last_restart(facts)


def _last_restart(facts: Facts) -> str:
    ended = [
        (text(last, "finishedAt"), name, last, whole(status, "restartCount"))
        for name, status in _containers(facts)
        if (last := obj(status, "lastState", "terminated"))
    ]
    if not ended:
        again = facts.summary.restarts
        return f"there were {count(again, 'restart')}" if again else "no container was restarted"
    finished, name, last, times = max(ended, key=lambda one: one[:2])
    when = moments.at(moments.parsed(finished), facts.now_ns)
    how = _how_it_ended(last)
    return f"container {name} was last restarted {when}, {count(times, 'restart')} in all: {how}"


def _how_it_ended(ended: Document) -> str:
    return f"it had ended {_exit(ended)}"


def _exit(ended: Document) -> str:
    code, reason = whole(ended, "exitCode"), text(ended, "reason")
    message = " ".join(text(ended, "message").split())
    words = f"with exit code {code}" + (f" ({reason})" if reason else "")
    return words + (f", saying {message!r}" if message else "")


# --- what is waited for ---


def _waiting(facts: Facts) -> Iterator[str]:
    for wait in facts.work.waits:
        yield from wait_sentences(wait, facts.now_ns)
    if facts.work.step and not facts.work.waits:
        since = moments.since(facts.work.since_ns, facts.now_ns)
        yield f"its worker is at: {facts.work.step}, {since}"
    yield from _volumes(facts)
    if facts.pod.state is WorkerState.SYNC and not facts.pod.rejected:
        yield from _initializing(facts)
        yield from _reasons(facts)
        yield from _backoffs(facts)
        yield from unready.explain(facts.document, facts.status, facts.probes, facts.now_ns)


def wait_sentences(wait: Wait, now_ns: int) -> Iterator[str]:
    """Tell one thing that is waited for."""
    since = f" {moments.since(wait.since_ns, now_ns)}" if wait.since_ns else ""
    yield f"it waits for {wait.what}{since}"
    if wait.tried:
        yield f"the last try: {wait.tried}"
    if wait.next and wait.next_ns:
        yield f"next: {wait.next}, {moments.until(wait.next_ns, now_ns)}"
    elif wait.next:
        yield f"next: {wait.next}"
    elif wait.next_ns:
        yield f"it is tried again {moments.until(wait.next_ns, now_ns)}"


def _volumes(facts: Facts) -> Iterator[str]:
    told = tuple(wait.what for wait in facts.work.waits)
    for one in facts.volumes:
        about = f"volume {one.name} to be "
        if any(what.startswith(about) for what in told):
            continue
        if one.state is VolumeState.MOUNTED and not _takes_long(one, facts.now_ns):
            continue
        since = f" {moments.since(one.since_ns, facts.now_ns)}" if one.since_ns else ""
        why = f": {one.reason}" if one.reason else ""
        again = (
            f"; it is tried again {moments.until(one.retry_ns, facts.now_ns)}"
            if one.retry_ns
            else ""
        )
        claim = f" (claim {one.claim})" if one.claim else ""
        yield f"volume {one.name}{claim} is {one.state.value}{since}{why}{again}"
        if one.operation:
            began = moments.since(one.operation_ns, facts.now_ns)
            yield f"under way for it is {one.operation}, {began}"


def _takes_long(one: VolumeRow, now_ns: int) -> bool:
    return bool(one.operation and one.operation_ns) and now_ns - one.operation_ns >= LONG_NS


def _initializing(facts: Facts) -> Iterator[str]:
    found = running_init(facts.document, facts.status)
    if found is None:
        return
    since = moments.since(moments.parsed(found.started), facts.now_ns)
    yield (
        f"it waits for init container {found.name} ({found.number} of {found.total}) to end, "
        f"which runs {since}"
    )
    more = "the next one starts" if found.number < found.total else "the other containers start"
    yield f"next: {more} as soon as it has ended with exit code 0"


def _reasons(facts: Facts) -> Iterator[str]:
    """Tell why containers wait, but not what a wait has said already."""
    told = " ".join(f"{wait.what} {wait.tried} " for wait in facts.work.waits)
    for name, found in facts.work.reasons.items():
        reason, _, message = found.partition("\t")
        if f"container {name} " not in told and (not message or message not in told):
            yield f"container {name} waits with reason {reason}{f': {message}' if message else ''}"


def _backoffs(facts: Facts) -> Iterator[str]:
    told = " ".join(f"{wait.what} " for wait in facts.work.waits)
    for key, entry in facts.work.backoffs.items():
        what = _slowed(key)
        if entry.until_ns <= facts.now_ns or f"{what} " in told:
            continue
        delay = age(entry.delay_ns / 1e9)
        error = f" after: {entry.error}" if entry.error else ""
        when = moments.until(entry.until_ns, facts.now_ns)
        yield f"{what} is in a back-off of {delay}{error}; it is tried again {when}"


def _slowed(key: str) -> str:
    """Return what a back-off is of: an image, or the container of a namespace/pod/uid/name/hash."""
    image = key.removeprefix("image:")
    if image != key:
        return f"image {image}"
    parts = key.split("/")
    return f"container {parts[-2] if len(parts) > 1 else key}"


# --- what is around it ---


def _around(facts: Facts) -> Iterator[str]:
    if facts.runtime:
        yield f"the container runtime cannot be worked with: {facts.runtime}"
    if facts.kubelet:
        yield facts.kubelet
    if facts.undelivered and facts.pod.ending is not None:
        yield f"source {', '.join(facts.undelivered)} has not given its pods yet"


def _last_warning(facts: Facts) -> Iterator[str]:
    recent = [
        one
        for one in facts.events
        if one.type == "Warning"
        and one.reason not in _ADVICE
        and facts.now_ns - one.last_ns < _RECENT_NS
    ]
    if recent:
        last = max(recent, key=lambda one: one.last_ns)
        times = f", {last.count} times" if last.count > 1 else ""
        ago = age((facts.now_ns - last.last_ns) / 1e9)
        yield f"the last warning, {ago} ago{times}, was {last.reason}: {last.message}"
