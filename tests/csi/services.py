"""gRPC services out of their descriptions: an object with a method for each call it knows."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf.message_factory import GetMessageClass


class Refusal(Exception):  # noqa: N818 - a status, not a fault of the program
    """The answer to a call that is not done."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
        self.text = text


def code_of(number):
    """Return gRPC's status of a number."""
    return next(code for code in grpc.StatusCode if code.value[0] == number)


def handler(description, implementation, around):
    """Serve a service: ``around(method, request, work)`` makes the answer by calling ``work``."""

    def make(method):
        work = getattr(implementation, method.name)

        def answer(request, context):
            try:
                return around(method.name, request, lambda: work(request))
            except Refusal as refusal:
                context.abort(refusal.code, refusal.text)

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )

    known = [m for m in description.methods if hasattr(implementation, m.name)]
    methods = {method.name: make(method) for method in known}
    return grpc.method_handlers_generic_handler(description.full_name, methods)


class Server:
    """Serves on a unix socket, which is made anew and is gone after a stop."""

    def __init__(self, path, *handlers):
        self.path = path
        self._pool = ThreadPoolExecutor(max_workers=32)
        self._server = grpc.server(self._pool)
        self._server.add_generic_rpc_handlers(handlers)

    def start(self):
        """Listen."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        assert self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()
        return self

    def stop(self):
        """Listen no more; calls under way are cut off."""
        self._server.stop(grace=None).wait()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
