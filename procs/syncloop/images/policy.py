"""When an image is pulled, and what is said about it in the words that operators know. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from kubelet import durations
from kubelet.cri.errors import CriError
from procs.syncloop.images import reference
from procs.syncloop.images.errors import Reason

# Reasons of events (I-24).
PULLING: Final = "Pulling"
PULLED: Final = "Pulled"
FAILED: Final = "Failed"
BACKOFF: Final = "BackOff"
INSPECT_FAILED: Final = "InspectFailed"
NEVER_PULL: Final = "ErrImageNeverPull"
NO_SECRET: Final = "FailedToRetrieveImagePullSecret"  # noqa: S105 - a reason, not a secret


class PullPolicy(StrEnum):
    """``imagePullPolicy`` of a container."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Step(StrEnum):
    """What is to be done about an image."""

    USE = "use"  # it is there
    PULL = "pull"
    REFUSE = "refuse"  # it is not there, or not for this pod, and must not be pulled


def pull_policy(written: str, image: str) -> PullPolicy:
    """Return the policy in force; one that is not set follows from the tag (I-20)."""
    if written:
        return PullPolicy(written)
    found = reference.parse(image)
    latest = found.tag in {"", reference.DEFAULT_TAG} and not found.digest
    return PullPolicy.ALWAYS if latest else PullPolicy.IF_NOT_PRESENT


def step(policy: PullPolicy, *, present: bool, allowed: bool) -> Step:
    """Decide what to do; ``allowed`` is whether this pod may use the image that is there."""
    if policy is PullPolicy.ALWAYS:
        return Step.PULL
    if present and allowed:
        return Step.USE
    return Step.REFUSE if policy is PullPolicy.NEVER else Step.PULL


def already_present(image: str) -> str:
    """The message of an image that need not be pulled."""
    return f'Container image "{image}" already present on machine and can be accessed by the pod'


def pulling(image: str) -> str:
    """The message at the beginning of a pull."""
    return f'Pulling image "{image}"'


def pulled(image: str, pull_ns: int, whole_ns: int, size: int) -> str:
    """The message of a pull that worked: its time, that with the waiting, and what came."""
    took, whole = (durations.render(_millis(ns)) for ns in (pull_ns, whole_ns))
    return (
        f'Successfully pulled image "{image}" in {took} ({whole} including waiting). '
        f"Image size: {size} bytes."
    )


def _millis(nanoseconds: int) -> int:
    return max(nanoseconds, 0) // durations.MILLISECOND * durations.MILLISECOND


def pull_failed(image: str, error: str) -> str:
    """The message of a pull that did not work."""
    return f'Failed to pull image "{image}": {error}'


def backing_off(image: str) -> str:
    """The message of a pull that has to wait."""
    return f'Back-off pulling image "{image}"'


def inspect_failed(image: str, error: str) -> str:
    """The message of an image that could not be looked at."""
    return f'Failed to inspect image "{image}": {error}'


def invalid_name(image: str, error: str) -> str:
    """The message of a name that names nothing."""
    return (
        f'Failed to apply default image tag "{image}": '
        f'couldn\'t parse image name "{image}": {error}'
    )


def not_present(image: str) -> str:
    """The message of an image that is not there and must not be pulled."""
    return f'Container image "{image}" is not present with pull policy of Never'


def not_accessible(image: str) -> str:
    """The message of an image that is there, but not proved to be this pod's to use (I-30)."""
    return (
        f'Container image "{image}" is present with pull policy of Never'
        " but does not have the proper credentials to access the image"
    )


def missing_secrets(names: Sequence[str]) -> str:
    """The message about pull secrets that are not there (P-57)."""
    listed = ", ".join(sorted(names))
    return (
        f"Unable to retrieve some image pull secrets ({listed}); "
        "attempting to pull the image may not succeed."
    )


def start_error(reason: Reason) -> str:
    """The message that a container was not started for want of its image."""
    return f"Error: {reason}"


def joined(texts: Sequence[str]) -> str:
    """Return several errors as one text, alike ones once."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def failure(image: str, errors: Sequence[CriError]) -> tuple[Reason, str]:
    """Return the waiting reason and message of a pull that failed in these ways, one after another.

    The last credential's error decides the reason: a runtime that says what kind of failure it is
    does so in a prefix (P-102).
    """
    last = errors[-1]
    if last.prefix == Reason.REGISTRY:
        why = "the registry is unavailable"
    elif last.prefix == Reason.SIGNATURE:
        why = "the signature validation failed"
    else:
        return Reason.PULL, joined([error.go_text for error in errors])
    return Reason(last.prefix), f"image pull failed for {image} because {why}: {last.rest}"
