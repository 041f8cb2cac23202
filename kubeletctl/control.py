"""The supervisor's control socket: one JSON line there, one back."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from kubeletctl.errors import CtlError, NotThereError
from kubeletctl.rundir import RunDir

_ANSWER_LIMIT: Final = 1 << 20


def ask(run_dir: RunDir, request: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Send one request and return the answer; a refusal is raised with its reason."""
    path = run_dir.path("supervisor.sock")
    try:
        line = _exchange(path, json.dumps(request).encode() + b"\n", timeout)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise NotThereError(
            f"No kubelet runs with run directory {run_dir.root}: nobody listens on {path}"
        ) from None
    except PermissionError:
        raise NotThereError(f"Not allowed to use {path}: kubeletctl must run as root") from None
    except TimeoutError:
        raise CtlError(f"The supervisor did not answer within {timeout:g} s") from None
    except OSError as problem:
        raise CtlError(f"The supervisor could not be asked: {problem}") from None
    return _answer(line)


def _exchange(path: str, line: bytes, timeout: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(line)
        data = bytearray()
        while b"\n" not in data and len(data) < _ANSWER_LIMIT:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
        return bytes(data)


def _answer(line: bytes) -> dict[str, Any]:
    if not line:
        raise CtlError("The supervisor hung up without an answer: it hears only root and its user")
    try:
        answer = json.loads(line)
        if answer["ok"] is True:
            return dict(answer)
        error = str(answer["error"])
    except (ValueError, KeyError, TypeError):
        raise CtlError(f"The supervisor's answer makes no sense: {line[:100]!r}") from None
    raise CtlError(f"The supervisor refused: {error}")
