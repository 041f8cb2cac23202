"""What the supervisor does for its memory before it forks."""

from __future__ import annotations

import subprocess
import sys


def test_settling_leaves_one_thread_no_descriptor_and_no_gaps() -> None:
    """A child must find nothing open, and hardly a free slot between its parent's objects."""
    script = (
        "import os, gc, threading\n"
        "from supervisor import zygote\n"
        "before = len(os.listdir('/proc/self/fd'))\n"
        "gaps = sum(size * free for size, free in zygote.free_slots().items())\n"
        "zygote.settle(['json', 'msgpack'])\n"
        "after = sum(size * free for size, free in zygote.free_slots().items())\n"
        "assert gc.get_freeze_count() > 1000\n"
        "print(len(os.listdir('/proc/self/fd')) - before, threading.active_count(), gaps > after)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.stdout.strip(), done.stderr) == ("0 1 True", "")
