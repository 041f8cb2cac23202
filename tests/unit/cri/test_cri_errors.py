"""Statuses of gRPC as exceptions: type, text, and what others read from them."""

from __future__ import annotations

import asyncio

import pytest

from kubelet import logging as klog
from kubelet.cri import errors
from kubelet.cri.complaints import MAX_REMEMBERED, Complaints
from kubelet.cri.core import grpc
from kubelet.cri.errors import Code
from tests.unit.cri.runtime import HANG, Refusal, pair

MAPPED = [
    (grpc.StatusCode.CANCELLED, errors.Cancelled, "Canceled"),
    (grpc.StatusCode.UNKNOWN, errors.CriError, "Unknown"),
    (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidArgument, "InvalidArgument"),
    (grpc.StatusCode.DEADLINE_EXCEEDED, errors.TimedOut, "DeadlineExceeded"),
    (grpc.StatusCode.NOT_FOUND, errors.NotFound, "NotFound"),
    (grpc.StatusCode.ALREADY_EXISTS, errors.AlreadyExists, "AlreadyExists"),
    (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDenied, "PermissionDenied"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ResourceExhausted, "ResourceExhausted"),
    (grpc.StatusCode.FAILED_PRECONDITION, errors.FailedPrecondition, "FailedPrecondition"),
    (grpc.StatusCode.ABORTED, errors.CriError, "Aborted"),
    (grpc.StatusCode.OUT_OF_RANGE, errors.CriError, "OutOfRange"),
    (grpc.StatusCode.UNIMPLEMENTED, errors.Unimplemented, "Unimplemented"),
    (grpc.StatusCode.INTERNAL, errors.Internal, "Internal"),
    (grpc.StatusCode.UNAVAILABLE, errors.Unavailable, "Unavailable"),
    (grpc.StatusCode.DATA_LOSS, errors.CriError, "DataLoss"),
    (grpc.StatusCode.UNAUTHENTICATED, errors.CriError, "Unauthenticated"),
]


def test_every_status_is_in_the_table():
    """No status of gRPC but success is left out, here or in the enumeration."""
    every = {code.value[0] for code in grpc.StatusCode} - {0}
    assert {code.value[0] for code, _, _ in MAPPED} == every == {code.value for code in Code}


@pytest.mark.parametrize(("code", "kind", "label"), MAPPED, ids=[row[2] for row in MAPPED])
def test_status(sockets, code, kind, label):
    """The exception has the type, the call, what it is about and the runtime's own words."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            runtime.answers = {"ContainerStatus": Refusal(code, "it: did not")}
            with pytest.raises(errors.CriError) as caught:
                await client.container_status("c-1")
        error = caught.value
        assert type(error) is kind
        assert (error.code.value, error.call) == (code.value[0], "ContainerStatus")
        assert (error.message, error.about) == ("it: did not", "c-1")
        assert str(error) == f"ContainerStatus c-1: {label}: it: did not"
        assert error.go_text == f"rpc error: code = {label} desc = it: did not"
        assert error.__cause__ is None

    asyncio.run(main())


def test_no_answer_in_time(sockets):
    """The text names the call, the endpoint and the time, and the type says that nobody spoke."""

    async def main():
        async with pair(sockets, timeout=0.3) as (runtime, client, _images):
            runtime.answers = {"ListContainers": HANG}
            with pytest.raises(errors.TimedOut) as caught:
                await client.list_containers()
            assert caught.value.no_answer
            assert isinstance(caught.value, TimeoutError)
            where = f"unix://{sockets}/runtime.sock"
            text = f"ListContainers: no answer from the runtime at {where} within 0.3s"
            assert str(caught.value) == text
            assert client.in_flight == ()

    asyncio.run(main())


def test_a_command_that_the_runtime_timed_out(sockets):
    """R-6: the runtime's own DeadlineExceeded is a time-out as well, with its words."""

    async def main():
        async with pair(sockets) as (runtime, client, _images):
            words = 'command "sleep" timed out'
            runtime.answers = {"ExecSync": Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, words)}
            with pytest.raises(errors.TimedOut) as caught:
                await client.exec_sync("c-1", ["sleep", "9"], 1)
            assert not caught.value.no_answer
            assert str(caught.value) == f"ExecSync c-1: DeadlineExceeded: {words}"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("words", "prefix", "rest"),
    [
        ("RegistryUnavailable: no route", "RegistryUnavailable", "no route"),
        ("SignatureValidationFailed: bad: key", "SignatureValidationFailed", "bad: key"),
        ("ImageVolumeMountFailed:x", "ImageVolumeMountFailed", "x"),
        ("RROUnsupported", "RROUnsupported", "RROUnsupported"),
        ("pull failed: RegistryUnavailable", None, "pull failed: RegistryUnavailable"),
        ("", None, ""),
    ],
)
def test_prefixes_with_a_meaning(words, prefix, rest):
    """R-10: a prefix counts at the beginning alone, and the rest is for people."""
    error = errors.from_code(2, words, "PullImage", "x")
    assert (error.prefix, error.rest) == (prefix, rest)


def test_a_status_that_nobody_knows():
    """A number from the future is an unknown error that keeps the number."""
    error = errors.from_code(99, "hm", "Version")
    assert (error.code, str(error)) == (Code.UNKNOWN, "Version: Unknown: status 99: hm")


def test_identical_errors_are_logged_once_a_minute(capfd):
    """R-8; a different text is said at once, and what was held back is counted."""
    now = [0]
    complaints = Complaints(lambda: now[0])
    same = errors.Internal(Code.INTERNAL, "broken", "ListContainers")
    other = errors.Internal(Code.INTERNAL, "broken", "ListContainers", "x")
    for step in (0, 1, 58):
        now[0] += step * 10**9
        complaints.about(same)
    complaints.about(other)
    now[0] += 10**9
    complaints.about(same)
    klog.flush()
    lines = [line for line in capfd.readouterr().err.splitlines() if "Runtime call failed" in line]
    assert len(lines) == 3
    assert "repeated" not in lines[0]
    assert "repeated=2" in lines[2]


def test_answers_are_not_complained_about(capfd):
    """What is gone, what the runtime does not have and what we gave up are no failures."""
    complaints = Complaints(lambda: 0)
    for number in (Code.NOT_FOUND, Code.UNIMPLEMENTED, Code.CANCELLED):
        complaints.about(errors.from_code(number.value, "x", "ContainerStatus"))
    klog.flush()
    assert "Runtime call" not in capfd.readouterr().err


def test_the_memory_of_complaints_is_bounded(capfd):
    """Thousands of different errors do not fill the memory."""
    complaints = Complaints(lambda: 0)
    for number in range(3 * MAX_REMEMBERED):
        for _ in range(2):
            complaints.about(errors.Internal(Code.INTERNAL, str(number), "X"))
    assert len(complaints._said) == MAX_REMEMBERED
    assert len(complaints._unsaid) <= MAX_REMEMBERED
    klog.flush()
    capfd.readouterr()
