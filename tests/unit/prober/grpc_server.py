"""A real gRPC server in a process of its own: gRPC's threads and a test's forks do not mix.

Run as a program: ``health``, ``none`` (without the health service) or ``tls <cert> <key>``. It
writes its port on the first line. The name of the service that is asked for says what is answered.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STATUSES = {"": 1, "serving": 1, "not-serving": 2, "unknown": 0, "strange": 9}


@contextlib.contextmanager
def grpc_server(*arguments: str) -> Iterator[int]:
    """A server, by its port."""
    command = [sys.executable, "-m", "tests.unit.prober.grpc_server", *arguments]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def main() -> None:
    """Serve until killed."""
    import threading
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    def check(request: bytes, context: grpc.ServicerContext) -> bytes:
        name = request[2:].decode()  # one field, whose length takes one byte
        if name == "silent":
            threading.Event().wait(60)
        if name == "agent":
            fields = dict(context.invocation_metadata())
            context.abort(grpc.StatusCode.DATA_LOSS, f"{fields['user-agent']}: 100% näher")
        if name not in STATUSES:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return bytes((0x08, STATUSES[name])) if STATUSES[name] else b""

    how = sys.argv[1]
    server = grpc.server(ThreadPoolExecutor(4))
    if how != "none":
        handler = grpc.unary_unary_rpc_method_handler(check)
        service = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})
        server.add_generic_rpc_handlers((service,))
    if how == "tls":
        certificate, key = (Path(name).read_bytes() for name in sys.argv[2:4])
        secret = grpc.ssl_server_credentials([(key, certificate)])
        port = server.add_secure_port("127.0.0.1:0", secret)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
