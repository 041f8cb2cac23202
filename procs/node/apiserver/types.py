"""What the parts of this process say to each other about the API server.

Everything that leaves or enters is plain JSON values: no model of the API is needed to pass an
object on, and what a newer API server adds is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

Json = dict[str, Any]
Query = Mapping[str, str]

SECONDS: Final = 30.0  # for an answer


class Purpose(StrEnum):
    """What a call is for: each has connections and a rate of its own.

    So nothing that pods do can keep a heartbeat waiting.
    """

    MAIN = "main"
    EVENTS = "events"
    HEARTBEAT = "heartbeat"


class PatchType(StrEnum):
    """How a patch is to be read."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it is sent."""

    method: str
    path: str  # below the server's URL, with the query
    body: bytes = b""
    content_type: str = ""
    purpose: Purpose = Purpose.MAIN
    seconds: float = SECONDS  # for the whole answer; of a stream, for its head


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class Stream(Protocol):
    """An answer that goes on: iterating gives its bytes as they come, until it ends."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Go through the body."""


class Transport(Protocol):
    """Carries requests to the API server; raises ApiError with status 0 where it cannot."""

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole answer, whatever its status."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request on a connection of its own, which is closed at the end of the block."""

    def drop(self, purpose: Purpose | None = None) -> None:
        """Close idle connections, so that the next request makes a new one; None: of all."""

    async def close(self) -> None:
        """Close everything."""


class ApiError(Exception):
    """The API server said no, or nothing. Its text is one sentence that may be shown."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        details: Json | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status  # of HTTP; 0: there was no answer
        self.reason = reason  # as the API names it: NotFound, Conflict, ...
        self.retry_after = retry_after  # seconds, if the server said so
        self.details = details or {}

    @property
    def unreachable(self) -> bool:
        """Whether there was no answer at all."""
        return self.status == 0

    @property
    def not_found(self) -> bool:
        """Whether there is no such object."""
        return self.status == 404

    @property
    def forbidden(self) -> bool:
        """Whether this node has no right to it."""
        return self.status == 403

    @property
    def unauthorized(self) -> bool:
        """Whether the server does not know us."""
        return self.status == 401

    @property
    def conflict(self) -> bool:
        """Whether the object is another than was thought, or is there already."""
        return self.status == 409

    @property
    def already_exists(self) -> bool:
        """Whether there is an object of that name already."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def gone(self) -> bool:
        """Whether the version to go on from is too old: everything is to be listed again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def passing(self) -> bool:
        """Whether the same call may work a little later."""
        return self.status in (0, 408, 429) or self.status >= 500


class Api(Protocol):
    """The calls that this process makes; each waits its turn, and raises ApiError."""

    async def get(
        self, path: str, *, query: Query | None = None, purpose: Purpose = Purpose.MAIN
    ) -> Json:
        """Return an object, or a list of them."""

    async def create(
        self, path: str, body: Json, *, query: Query | None = None, purpose: Purpose = Purpose.MAIN
    ) -> Json:
        """Create an object below a collection's path; the object as it is stored."""

    async def replace(self, path: str, body: Json, *, purpose: Purpose = Purpose.MAIN) -> Json:
        """Replace an object."""

    async def patch(
        self,
        path: str,
        body: Json | Sequence[Json],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        purpose: Purpose = Purpose.MAIN,
    ) -> Json:
        """Change an object; the object as it is then."""

    async def delete(
        self,
        path: str,
        *,
        grace: int | None = None,
        uid: str = "",
        purpose: Purpose = Purpose.MAIN,
    ) -> Json:
        """Delete an object; with ``uid`` only if it still is that one."""


class Watcher(Protocol):
    """Is told what a list holds, and then of each change, in order."""

    def listed(self, items: list[Json], version: str) -> None:
        """Take everything that there is; what was known and is not among it is gone."""

    def changed(self, item: Json) -> None:
        """Take an object that is new or another now."""

    def deleted(self, item: Json) -> None:
        """Take that an object is gone, with its last state."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A collection to be listed and watched."""

    path: str  # /api/v1/pods
    fields: str = ""  # fieldSelector
    labels: str = ""  # labelSelector
    name: str = ""  # for the log: "pods of this node"


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"
    field_path: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server is, and who we are there: what a kubeconfig says, resolved.

    The PEM texts are the files' contents at the time; where a path is given, the file may change
    and is read again. Nothing of this is ever logged but ``server``.
    """

    server: str
    server_name: str = ""  # tls-server-name
    ca_pem: str = ""
    ca_file: str = ""
    insecure: bool = False
    client_cert_pem: str = ""
    client_key_pem: str = ""
    client_cert_file: str = ""  # certificate and key, or the certificate alone
    client_key_file: str = ""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec_command: tuple[str, ...] = ()  # a plugin that gives credentials
    exec_env: dict[str, str] = field(default_factory=dict)
    exec_api_version: str = ""
    exec_cluster_info: bool = False
    proxy: str = ""
    disable_compression: bool = False
    impersonate: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_uid: str = ""
    impersonate_extra: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exec_cluster_config: str = ""  # JSON that the kubeconfig has for the plugin
    exec_install_hint: str = ""  # shown when the plugin is not there
