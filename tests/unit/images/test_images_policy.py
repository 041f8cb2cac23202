"""When an image is pulled, and what is said about it (I-20, I-24, P-102)."""

from __future__ import annotations

import pytest

from kubelet.cri.errors import Code, from_code
from procs.syncloop.images import policy
from procs.syncloop.images.errors import ImageError, Reason
from procs.syncloop.images.policy import PullPolicy, Step

HEX = "0" * 64


@pytest.mark.parametrize(
    ("written", "image", "found"),
    [
        ("Never", "a", PullPolicy.NEVER),
        ("", "a", PullPolicy.ALWAYS),
        ("", "a:latest", PullPolicy.ALWAYS),
        ("", "a:1", PullPolicy.IF_NOT_PRESENT),
        ("", f"a@sha256:{HEX}", PullPolicy.IF_NOT_PRESENT),
    ],
)
def test_the_policy_follows_from_the_tag(written, image, found):
    """What is not written depends on whether the name can come to mean something else (I-20)."""
    assert policy.pull_policy(written, image) is found


@pytest.mark.parametrize(
    ("chosen", "present", "allowed", "step"),
    [
        (PullPolicy.ALWAYS, True, True, Step.PULL),
        (PullPolicy.ALWAYS, False, False, Step.PULL),
        (PullPolicy.IF_NOT_PRESENT, True, True, Step.USE),
        (PullPolicy.IF_NOT_PRESENT, True, False, Step.PULL),
        (PullPolicy.IF_NOT_PRESENT, False, False, Step.PULL),
        (PullPolicy.NEVER, True, True, Step.USE),
        (PullPolicy.NEVER, True, False, Step.REFUSE),
        (PullPolicy.NEVER, False, False, Step.REFUSE),
    ],
)
def test_policy_presence_and_permission_decide(chosen, present, allowed, step):
    """Every combination has one answer (I-20, I-30)."""
    assert policy.step(chosen, present=present, allowed=allowed) is step


def test_messages_are_those_that_operators_search_for():
    """The words of the events are the known ones, times to the millisecond (I-24)."""
    assert policy.already_present("x") == (
        'Container image "x" already present on machine and can be accessed by the pod'
    )
    assert policy.pulled("x", 1_234_567_890, 61_000_999_999, 42) == (
        'Successfully pulled image "x" in 1.234s (1m1s including waiting). Image size: 42 bytes.'
    )
    assert policy.not_present("x") == (
        'Container image "x" is not present with pull policy of Never'
    )
    assert policy.backing_off("x") == 'Back-off pulling image "x"'
    assert policy.start_error(Reason.BACKOFF) == "Error: ImagePullBackOff"


def failing(*texts):
    return [from_code(Code.UNKNOWN.value, text, "PullImage", "x") for text in texts]


@pytest.mark.parametrize(
    ("texts", "reason", "message"),
    [
        (["no"], "ErrImagePull", "rpc error: code = Unknown desc = no"),
        (
            ["no", "no", "401"],
            "ErrImagePull",
            "[rpc error: code = Unknown desc = no, rpc error: code = Unknown desc = 401]",
        ),
        (
            ["RegistryUnavailable: no route"],
            "RegistryUnavailable",
            "image pull failed for x because the registry is unavailable: no route",
        ),
        (
            ["401", "SignatureValidationFailed: bad key"],
            "SignatureValidationFailed",
            "image pull failed for x because the signature validation failed: bad key",
        ),
    ],
)
def test_the_runtime_may_say_what_kind_of_failure_it_is(texts, reason, message):
    """All errors are in the message; a prefix of the runtime's becomes the reason (P-102)."""
    assert policy.failure("x", failing(*texts)) == (reason, message)


def test_an_error_shows_its_reason_and_message():
    """As text an error is what a status line shows of it."""
    error = ImageError(Reason.NEVER, "words", 3)
    assert (str(error), error.until_ns) == ("ErrImageNeverPull: words", 3)
