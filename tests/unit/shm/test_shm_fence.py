"""The memory barrier: it cannot be seen to work, but it can be seen not to get in the way."""

from __future__ import annotations

import signal
import threading

from shm import fence


def test_threads_share_the_fence():
    """Many threads at once neither wait for ever nor fail."""
    failures = []

    def run():
        try:
            for _ in range(2000):
                fence.lock_fence()
        except RuntimeError as err:
            failures.append(err)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_a_signal_handler_may_use_the_fence():
    """A handler that interrupts a fence does not wait for the code it interrupted."""
    calls = []

    def handler(_number, _frame):
        fence.lock_fence()
        calls.append(1)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
    try:
        while len(calls) < 50:
            fence.lock_fence()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_machines_with_ordered_stores_pay_nothing():
    """The fence is one of the two, chosen by the machine."""
    assert fence.fence in (fence.no_fence, fence.lock_fence)
    assert fence.no_fence() is None
