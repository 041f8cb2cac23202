"""Credentials from a program: ``exec`` of a kubeconfig, client.authentication.k8s.io.

The program is told about the cluster in KUBERNETES_EXEC_INFO if it wants to be, and prints an
ExecCredential with a token, a client certificate, or both, and until when they are good.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kubelet import times
from kubelet.config.errors import one_line
from kubelet.programs import ProgramError, run
from procs.node.apiserver.types import ApiError, Endpoint, Json

_SECONDS: Final = 60.0
# Between two runs: a credential that is refused, or comes out expired, must not make a storm.
_APART_NS: Final = 5 * 10**9


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a program gave."""

    token: str = ""
    cert: str = ""
    key: str = ""
    expires_ns: int = 0  # of the wall clock; 0: never


class ExecPlugin:
    """The program of a kubeconfig, run when its last answer is not good any more."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._wall = wall
        self._run: asyncio.Task[ExecCredential] | None = None
        self._ran_ns: int | None = None  # when it ended last
        self._error: ApiError | None = None
        self.current: ExecCredential | None = None

    @property
    def good(self) -> bool:
        """Whether what is there can be used."""
        found = self.current
        return found is not None and (not found.expires_ns or self._wall() < found.expires_ns)

    async def get(self) -> ExecCredential:
        """Return credentials; ApiError if the program gives none."""
        if self.good and self.current is not None:
            return self.current
        return await self._renew()

    async def renew(self) -> bool:
        """Run the program for the server refused what it gave; whether there is another now."""
        before = self.current
        return await self._renew() != before

    def close(self) -> None:
        """End a run."""
        if self._run is not None:
            self._run.cancel()

    async def _renew(self) -> ExecCredential:
        """Run it, but for one who asks while it runs, or right after."""
        if self._run is None:
            if self._ran_ns is not None and self._clock() - self._ran_ns < _APART_NS:
                return self._last()
            self._run = asyncio.create_task(self._once(), name="exec plugin")
            self._run.add_done_callback(self._ended)
        # Whoever waits may give up; the run goes on for the next one.
        return await asyncio.shield(self._run)

    def _last(self) -> ExecCredential:
        if self._error is not None:
            raise ApiError(str(self._error))
        assert self.current is not None
        return self.current

    def _ended(self, task: asyncio.Task[ExecCredential]) -> None:
        self._run = None
        self._ran_ns = self._clock()
        if task.cancelled():
            self._error = ApiError("the credential plugin was stopped")
            return
        error = task.exception()  # taken, though nobody may wait any more
        self._error = error if isinstance(error, ApiError) else None
        if error is None:
            self.current = task.result()

    async def _once(self) -> ExecCredential:
        endpoint = self._endpoint
        name = f"credential plugin {endpoint.exec_command[0]}"
        environment = {**os.environ, **endpoint.exec_env, "KUBERNETES_EXEC_INFO": info(endpoint)}
        try:
            output = await run(endpoint.exec_command, b"", environment, _SECONDS)
            return parse(output, endpoint.exec_api_version)
        except ProgramError as err:
            first = err.complaint.splitlines()[:1] or [endpoint.exec_install_hint]
            sentence = ": ".join(part for part in (name, str(err), *first) if part)
        except ValueError as err:
            sentence = f"{name}: {err}"
        raise ApiError(one_line(sentence))


def info(endpoint: Endpoint) -> str:
    """Return what the program is told."""
    spec: Json = {"interactive": False}
    if endpoint.exec_cluster_info:
        spec["cluster"] = _cluster(endpoint)
    told = {"kind": "ExecCredential", "apiVersion": endpoint.exec_api_version, "spec": spec}
    return json.dumps(told, separators=(",", ":"))


def _cluster(endpoint: Endpoint) -> Json:
    data = base64.b64encode(endpoint.ca_pem.encode()).decode()
    config = json.loads(endpoint.exec_cluster_config) if endpoint.exec_cluster_config else None
    known = {
        "server": endpoint.server,
        "tls-server-name": endpoint.server_name,
        "insecure-skip-tls-verify": endpoint.insecure,
        "certificate-authority-data": data,
        "proxy-url": endpoint.proxy,
        "disable-compression": endpoint.disable_compression,
        "config": config,
    }
    return {name: value for name, value in known.items() if value}


def parse(output: bytes, version: str) -> ExecCredential:
    """Read what the program printed; ValueError, which never shows what may be a secret."""
    try:
        found = json.loads(output)
    except ValueError:
        raise ValueError("what it printed is not JSON") from None
    if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
        raise ValueError("what it printed is no ExecCredential")
    if found.get("apiVersion") != version:
        said = str(found.get("apiVersion"))[:100]
        raise ValueError(f"it answered in apiVersion {said}, not {version}")
    status = found.get("status")
    return _credential(status if isinstance(status, dict) else {})


def _credential(status: Json) -> ExecCredential:
    names = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
    for name in names:
        if not isinstance(status.get(name, ""), str | None):
            raise ValueError(f"status.{name}: must be a string")  # noqa: TRY004 - one for all
    token, cert, key, expires = (status.get(name) or "" for name in names)
    if not token and not cert:
        raise ValueError("status: has neither token nor clientCertificateData")
    if bool(cert) != bool(key):
        raise ValueError("status: clientCertificateData and clientKeyData need each other")
    if not token.isprintable() or not token.isascii():
        raise ValueError("status.token: holds characters that cannot be sent")
    try:
        return ExecCredential(token, cert, key, times.to_ns(expires))
    except ValueError:
        raise ValueError(f"status.expirationTimestamp: {expires[:50]!r} is no time") from None
