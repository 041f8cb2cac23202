"""How this process has keys and requests made: by a program that ends at once."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Final

import procs
from kubelet import programs

SECONDS: Final = 30.0  # on a machine that has other things to do
_MODULE: Final = "procs.node.certificates.tool"
# What an interpreter may need to find itself and its libraries; nothing else goes along.
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "PYTHONHOME")


class ToolError(Exception):
    """The program could not do its work; the text says why, and holds no secret."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate is to be for."""

    common_name: str
    organizations: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Requested:
    """A request for a certificate, with its key; ``digest`` is that of the public key."""

    key: str
    request: str
    digest: str


@dataclass(frozen=True, slots=True, repr=False)
class Signed:
    """A certificate with those that vouch for it, and its key."""

    chain: str
    key: str


class Tool:
    """The program, run once for each call."""

    def __init__(self, seconds: float = SECONDS, command: tuple[str, ...] = ()) -> None:
        self._seconds = seconds
        # -P: the directory that we stand in is not searched for modules.
        self._command = command or (sys.executable, "-P", "-s", "-m", _MODULE)

    async def request(self, subject: Subject, key: str = "") -> Requested:
        """Make a request for a certificate, of a new key or of the one given."""
        answer = await self._run(
            "request",
            {
                "commonName": subject.common_name,
                "organizations": subject.organizations,
                "dns": subject.dns,
                "ips": subject.ips,
                "key": key,
            },
        )
        return Requested(answer["key"], answer["request"], answer["digest"])

    async def self_sign(self, subject: Subject, now: int, seconds: int) -> Signed:
        """Make a certificate that only vouches for itself, from an hour ago on (N-40)."""
        answer = await self._run(
            "self-sign",
            {
                "name": subject.common_name,
                "dns": subject.dns,
                "ips": subject.ips,
                "now": now,
                "seconds": seconds,
            },
        )
        return Signed(answer["certificate"], answer["key"])

    async def pod_request(self, key_type: str, key: str = "") -> Requested:
        """Make a request for a pod's certificate, of a new key or of the one given (L-28).

        The request is not PEM as others are, but as the API takes it: DER in base64.
        """
        answer = await self._run("pod-request", {"keyType": key_type, "key": key})
        return Requested(answer["key"], answer["request"], answer["digest"])

    async def _run(self, verb: str, wish: dict[str, Any]) -> dict[str, str]:
        command, data = (*self._command, verb), json.dumps(wish).encode()
        try:
            output = await programs.run(command, data, _environment(), self._seconds)
        except programs.ProgramError as err:
            last = err.complaint.rpartition("\n")[2]
            why = f"{err}: {last}" if last else str(err)
            raise ToolError(f"no key could be made: the program for it: {why}") from None
        answer = _decode(output)
        if "error" in answer:
            raise ToolError(f"no key could be made: {answer['error']}")
        return answer


def _environment() -> dict[str, str]:
    """Return what the program needs to find its code, which may have been found in any way."""
    passed = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return passed | {"PYTHONPATH": os.path.dirname(os.path.abspath(procs.__path__[0]))}


def _decode(output: bytes) -> dict[str, str]:
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ToolError("no key could be made: the program for it printed no answer")
    return answer
