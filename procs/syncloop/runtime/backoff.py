"""How long to wait before something that failed is tried again (P-90..P-93, T-8, T-9). Pure.

An entry holds the delay that the *next* failure costs. The first one finds no entry and costs
nothing. A container's delay is measured from its end, an image's from the failed try.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubelet import durations
from kubelet.api import codec
from kubelet.api.container import Container
from kubelet.api.pod import Pod
from kubelet.config.effective import Effective
from kubelet.pods.rows import Backoff
from procs.syncloop.runtime.hashing import fnv32a, go_json

BASE_NS: Final = 10 * durations.SECOND  # T-8, T-9
MAX_NS: Final = 300 * durations.SECOND
RESET_NS: Final = 600 * durations.SECOND

_REDUCED_BASE_NS: Final = durations.SECOND  # P-90: ReduceDefaultCrashLoopBackOffDecay
_REDUCED_MAX_NS: Final = 60 * durations.SECOND
_PERIOD: Final = "crashLoopBackOff.maxContainerRestartPeriod"


@dataclass(frozen=True, slots=True)
class Limits:
    """Between which delays a back-off moves, and after how much quiet it begins anew."""

    base_ns: int = BASE_NS
    max_ns: int = MAX_NS
    reset_ns: int = RESET_NS


def crash_limits(config: Effective) -> Limits:
    """Return the limits of the crash-loop back-off that are configured (P-90)."""
    base_ns, max_ns = BASE_NS, MAX_NS
    if config.gate("ReduceDefaultCrashLoopBackOffDecay"):
        base_ns, max_ns = _REDUCED_BASE_NS, _REDUCED_MAX_NS
    if config.gate("KubeletCrashLoopBackOffMax") and _PERIOD in config.changed:
        max_ns = crash_max(config.str(_PERIOD))
    return Limits(min(base_ns, max_ns), max_ns)


def crash_max(period: str) -> int:
    """Return the longest crash-loop delay of a configuration's text, in nanoseconds."""
    return durations.parse(period)


def next_delay(  # noqa: PLR0913, PLR0917 - the numbers of one small formula
    entry: Backoff | None,
    now_ns: int,
    base: int = BASE_NS,
    max: int = MAX_NS,  # noqa: A002 - the word for it
    reset: int = RESET_NS,
    event_ns: int = 0,
) -> Backoff:
    """Return the entry after one more failure: twice the delay, or the base after enough quiet.

    ``event_ns`` is when the failure happened, if that was before now: quiet ends there.
    """
    if entry is None or entry.delay_ns <= 0 or quiet(entry, event_ns or now_ns, reset):
        delay = base
    else:
        delay = entry.delay_ns * 2
    delay = min(delay, max)
    return Backoff(delay, now_ns, now_ns + delay, entry.error if entry is not None else "")


def quiet(entry: Backoff, event_ns: int, reset: int = RESET_NS) -> bool:
    """Tell whether there was enough quiet before a failure for it to count as the first."""
    return event_ns - entry.last_ns > reset


def in_backoff(
    entry: Backoff | None, finished_at_ns: int, now_ns: int, reset: int = RESET_NS
) -> int:
    """Return for how many nanoseconds a container that ended must still wait; 0: not at all.

    An end that nobody knows the moment of counts from the last start, so that a container which
    vanishes each time is slowed down, too. A clock that was set back makes no wait longer than
    the delay.
    """
    if entry is None:
        return 0
    ended_ns = finished_at_ns or entry.last_ns
    if quiet(entry, ended_ns, reset):
        return 0
    return min(max(0, ended_ns + entry.delay_ns - now_ns), entry.delay_ns)


def crashed(
    entry: Backoff | None,
    finished_at_ns: int,
    max_ns: int = MAX_NS,
    base_ns: int = BASE_NS,
    now_ns: int = 0,
) -> Backoff:
    """Return the entry for a container that is started again after its end (P-90).

    Without ``now_ns`` the restart counts as made at the first moment at which it could be.
    """
    if not now_ns:
        waited = in_backoff(entry, finished_at_ns, finished_at_ns)
        now_ns = finished_at_ns + waited
    return next_delay(entry, now_ns, min(base_ns, max_ns), max_ns, RESET_NS, finished_at_ns)


def image_failed(entry: Backoff | None, now_ns: int, error: str) -> Backoff:
    """Return the entry after an image could not be had (P-93)."""
    raised = next_delay(entry, now_ns)
    return Backoff(raised.delay_ns, raised.last_ns, raised.until_ns, error)


def image_wait(entry: Backoff | None, now_ns: int) -> int:
    """Return for how many nanoseconds an image is not to be tried again; 0: it may be."""
    return in_backoff(entry, 0, now_ns)


def crash_key(pod: Pod, container: Container) -> str:
    """Return the key of a container's crash-loop entry (P-91).

    Image and resources are in it: a container that was given others begins anew.
    """
    resources = codec.encode(container.resources) if container.resources else {}
    definition = fnv32a(go_json([container.image, _sorted(resources)]))
    return f"{pod.namespace}/{pod.name}/{pod.uid}/{container.name}/{definition:x}"


def crash_message(pod: Pod, container: Container, entry: Backoff) -> str:
    """Return the message of a container that waits in its crash-loop back-off (P-92)."""
    delay = durations.render(entry.delay_ns)
    return f"back-off {delay} restarting failed container={container.name} pod={_where(pod)}"


def crash_event(pod: Pod, container: Container) -> str:
    """Return what the event says: without the delay, so that all of them are counted as one."""
    return f"Back-off restarting failed container {container.name} in pod {_where(pod)}"


def _where(pod: Pod) -> str:
    return f"{pod.name}_{pod.namespace}({pod.uid})"


def current(
    entries: Mapping[str, Backoff], now_ns: int, limits: Limits | None = None
) -> dict[str, Backoff]:
    """Return the entries that still have a meaning: the others would begin anew anyway."""
    limits = limits or Limits()
    kept_ns = limits.reset_ns + limits.max_ns
    return {key: e for key, e in entries.items() if now_ns - e.last_ns <= kept_ns}


def _sorted(value: object) -> object:
    """Return a document with its maps in one order, so that equal ones have equal texts."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
