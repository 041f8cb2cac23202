"""gRPC, loaded so that its core keeps quiet.

The core writes to stderr, past our log, that a peer said goodbye or that a process forked; what
matters of it comes back as an error of the call. It reads its level once, when it is loaded: the
variable is gone again afterwards, so that programs started from here do not inherit it. An
operator who sets GRPC_VERBOSITY gets what was asked for.
"""

import os

_unset = "GRPC_VERBOSITY" not in os.environ
if _unset:
    os.environ["GRPC_VERBOSITY"] = "ERROR"

import grpc  # noqa: E402 - after the level is set

if _unset:
    del os.environ["GRPC_VERBOSITY"]

__all__ = ["grpc"]
