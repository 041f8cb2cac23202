"""The prober process: asks the containers of this node whether they live, are ready, have started.

Owns: tables ``probes``, the verdicts on each container by its ID, and ``probing``, how far each
probe is, with the counts of the metrics. Reads: ``pods`` for what is to be asked, ``status`` for
which containers run. Sends: a hint when a verdict is another, and none for a probe. Asks
``syncloop`` to run the commands of exec probes, for it has no socket of the runtime, and to note
events. Has no root and no capability: it opens connections, and nothing else.

All probes hang on one timer (``schedule.py``), in phases that are spread over each period. What a
result means is decided apart (``track.py``), and how each type of probe is made is in
``handlers/``.

When it dies: the last verdict on every container stays in its table, and counts until a probe says
otherwise. Its successor finds there when each probe was due, and goes on in the same phase; what
was missed is made up for at its own rhythm, never at once. A startup probe that had succeeded is
not made again. When its tables are lost, the status says who had started and who was ready.
When it is stopped or starved for a while: the same. How many probes began late because of us is
counted on the board (``probes_late_*``), apart from those that the application answered late.
"""

from __future__ import annotations

from kubelet.process import Process
from procs.prober.handlers.exec import ExecProbes
from procs.prober.handlers.grpc import probe_grpc
from procs.prober.handlers.http import probe_http
from procs.prober.handlers.tcp import probe_tcp
from procs.prober.manager import Prober
from procs.prober.rounds import Handlers


async def main(process: Process) -> None:
    """Probe containers until asked to stop."""
    prober = Prober(process, handlers(process))
    prober.start()
    await process.stopping.wait()
    prober.close()


def handlers(process: Process) -> Handlers:
    """Return how each type of probe is made."""
    return {
        "exec": ExecProbes(process).run,
        "http_get": probe_http,
        "tcp_socket": probe_tcp,
        "grpc": probe_grpc,
    }
