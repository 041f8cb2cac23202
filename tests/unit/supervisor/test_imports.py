"""What the supervisor may load."""

from __future__ import annotations

import subprocess
import sys


def test_the_supervisors_own_code_is_standard_library_only() -> None:
    """Importing it loads no package from outside, no thread, no ZeroMQ, no gRPC."""
    script = (
        "import sys, threading, supervisor.supervisor, supervisor.boot, supervisor.launch\n"
        "bad = sorted(n for n, m in sys.modules.items()\n"
        "             if 'site-packages' in (getattr(m, '__file__', None) or '') \n"
        "             and not n.startswith(('_distutils', '__editable')))\n"
        "print(bad, threading.active_count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[] 1"
