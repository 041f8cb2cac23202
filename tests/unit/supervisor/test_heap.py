"""The C library's heap has no holes when the supervisor forks."""

from __future__ import annotations

import subprocess
import sys


def test_a_filled_heap_has_hardly_a_free_chunk() -> None:
    """What was free below the heap's end is taken once, and the program works on."""
    program = (
        "import json\n"
        "from supervisor import heap\n"
        "held = [bytearray(700) for _ in range(2000)]\n"
        "del held[::2]\n"
        "first, second = heap.fill(), heap.fill()\n"
        "assert json.loads(json.dumps([1])) == [1]\n"
        "print(first > 500, second < 100)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")
