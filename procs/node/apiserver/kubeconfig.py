"""What a kubeconfig says, as an Endpoint.

It is taken apart in a short-lived process (``resolve``): the library for it weighs more than all
of this one. What came out is kept in the ledger, so that a successor needs none of that.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from typing import Any, Final

from kubelet.config.errors import one_line
from kubelet.programs import ProgramError, run
from procs.node.apiserver.endpoints import from_plain, to_plain
from procs.node.apiserver.files import Stamp, read_text, stamp
from procs.node.apiserver.types import Endpoint
from procs.node.ledger import Ledger

KEY: Final = "connection/endpoint"
_SCHEMA: Final = 1  # of what is kept: another one is not looked at
_SECONDS: Final = 60.0  # for the process that reads; an oidc provider is asked over the network
_FILES: Final = ("ca_file", "client_cert_file", "client_key_file")  # whose text is kept too
# What the reader is given of the environment: it may hold secrets of others.
_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used: one sentence with file, field and value."""


async def read_endpoint(path: str, ledger: Ledger | None) -> Endpoint:
    """Return what a kubeconfig says; KubeconfigError if it cannot be used."""
    path = _absolute(path)
    try:
        digest = hashlib.sha256(read_text(path).encode()).hexdigest()
    except OSError as err:
        raise KubeconfigError(f"{path}: {err.strerror or err}") from None
    except ValueError as err:
        raise KubeconfigError(f"{path}: {err}") from None
    known = _recall(ledger, path, digest)
    if known is not None:
        return known
    answer = await _ask(path)
    endpoint = from_plain(answer["endpoint"])
    if ledger is not None and answer["lasting"]:
        _remember(ledger, path, digest, endpoint)
    return endpoint


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # asks for nothing but the working directory


async def _ask(path: str) -> dict[str, Any]:
    """Have the file read; KubeconfigError with what is wrong."""
    command = (sys.executable, "-P", "-s", "-m", "procs.node.apiserver.resolve", path)
    try:
        output = await run(command, b"", _environment(), _SECONDS)
        answer: dict[str, Any] = json.loads(output)
    except ProgramError as err:
        said = err.complaint.splitlines()[-1:]
        raise KubeconfigError(": ".join([path, "reading it failed", str(err), *said])) from None
    except ValueError:
        raise KubeconfigError(f"{path}: reading it failed: no answer") from None
    if "problem" in answer:
        raise KubeconfigError(one_line(answer["problem"]))
    return answer


def _environment() -> dict[str, str]:
    # The code may have been found through PYTHONPATH or the directory that was started in.
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return passed | {"PYTHONPATH": top, "PYTHONDONTWRITEBYTECODE": "1"}


# --- the ledger ----------------------------------------------------------------------------------


def _stamps(endpoint: Endpoint) -> dict[str, Stamp]:
    """Return the stamps of the files that the endpoint holds the text of; OSError if one is gone.

    A token's file is not among them: its text is not kept, and it changes each hour.
    """
    paths = {getattr(endpoint, name) for name in _FILES} - {""}
    return {path: stamp(path) for path in sorted(paths)}


def _remember(ledger: Ledger, path: str, digest: str, endpoint: Endpoint) -> None:
    with suppress(OSError):  # a file that is gone again: the next start looks anew
        stamps = {name: list(found) for name, found in _stamps(endpoint).items()}
        kept = {"schema": _SCHEMA, "path": path, "digest": digest, "stamps": stamps}
        ledger.put(KEY, kept | {"endpoint": to_plain(endpoint)})


def _recall(ledger: Ledger | None, path: str, digest: str) -> Endpoint | None:
    kept = ledger.get(KEY) if ledger is not None else None
    if not isinstance(kept, dict):
        return None
    told = (kept.get("schema"), kept.get("path"), kept.get("digest"))
    if told != (_SCHEMA, path, digest):
        return None
    try:
        endpoint = from_plain(kept["endpoint"])
        stamps = {name: list(found) for name, found in _stamps(endpoint).items()}
    except (KeyError, TypeError, AttributeError, OSError):
        return None
    return endpoint if stamps == kept.get("stamps") else None
