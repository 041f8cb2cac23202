"""Calls to the API server: paths, queries, bodies and answers; what went wrong, in a sentence."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from kubelet.config.errors import one_line
from procs.node.apiserver.limiter import SECOND_NS, Limiter, Limits, Rate
from procs.node.apiserver.metrics import RestMetrics
from procs.node.apiserver.types import (
    SECONDS,
    Api,
    ApiError,
    Json,
    PatchType,
    Purpose,
    Query,
    Request,
    Response,
    Transport,
)

JSON: Final = "application/json"
MAX_RETRIES: Final = 10  # of a call that the server asks to be made again
# How long in all a call waits because the server asked it to. Heartbeats do not: who sends them
# says what is wrong, and waits in its own way.
PATIENCE: Final = {Purpose.MAIN: 30.0, Purpose.EVENTS: 30.0, Purpose.HEARTBEAT: 0.0}
BAD_ANSWER: Final = "BadAnswer"  # reason of the ApiError
_NOT_SOUND: Final = 502  # what was heard is not from a sound API server: it may pass
_TOO_MANY: Final = 429
_SHOWN: Final = 2000  # characters of the server's message
_SHOWN_TEXT: Final = 120  # and of an answer that is no Status
_MAX_RETRY_AFTER: Final = 3600.0

# Told that the server answered (None), whatever it said, or why it did not.
OnCall = Callable[[str | None], None]


class Client(Api):
    """The API server, over a transport."""

    def __init__(  # noqa: PLR0913 - by name, once
        self,
        transport: Transport,
        limits: Limits,
        clock: Callable[[], int] = time.monotonic_ns,
        on_call: OnCall | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        metrics: RestMetrics | None = None,
    ) -> None:
        self.transport = transport
        self.metrics = metrics or RestMetrics()
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._on_call = on_call
        self._limiters = {p: Limiter(limits.rates.get(p, Rate()), clock, sleep) for p in Purpose}

    async def get(
        self, path: str, *, query: Query | None = None, purpose: Purpose = Purpose.MAIN
    ) -> Json:
        """Return an object, or a list of them."""
        return await self._call("GET", path, query, None, purpose)

    async def create(
        self, path: str, body: Json, *, query: Query | None = None, purpose: Purpose = Purpose.MAIN
    ) -> Json:
        """Create an object below a collection's path; the object as it is stored."""
        return await self._call("POST", path, query, body, purpose)

    async def replace(self, path: str, body: Json, *, purpose: Purpose = Purpose.MAIN) -> Json:
        """Replace an object."""
        return await self._call("PUT", path, None, body, purpose)

    async def patch(
        self,
        path: str,
        body: Json | Sequence[Json],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        purpose: Purpose = Purpose.MAIN,
    ) -> Json:
        """Change an object; the object as it is then."""
        return await self._call("PATCH", path, None, body, purpose, kind.value)

    async def delete(
        self,
        path: str,
        *,
        grace: int | None = None,
        uid: str = "",
        purpose: Purpose = Purpose.MAIN,
    ) -> Json:
        """Delete an object; with ``uid`` only if it still is that one."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        return await self._call("DELETE", path, None, options, purpose)

    async def turn(self, purpose: Purpose = Purpose.MAIN) -> None:
        """Wait for one's turn; for calls that go past this class, such as a watch."""
        self.metrics.waited(purpose, await self._limiters[purpose].turn())

    def noted(self, method: str, status: int, began_ns: int, error: ApiError | None) -> None:
        """Count a call, and tell whether the server answered."""
        self.metrics.called(method, status, (self._clock() - began_ns) / SECOND_NS)
        if self._on_call is not None:
            self._on_call(str(error) if error is not None and error.unreachable else None)

    async def _call(  # noqa: PLR0913, PLR0917 - one place for all verbs
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Json | Sequence[Json] | None,
        purpose: Purpose,
        content_type: str = JSON,
    ) -> Json:
        request = Request(
            method,
            target(path, query),
            b"" if body is None else encoded(body),
            "" if body is None else content_type,
            purpose,
            self._limits.seconds.get(purpose, SECONDS),
        )
        waited = 0.0
        for retries in range(MAX_RETRIES + 1):
            response = await self._send(request)
            if response.status < 300:
                return _answer(request, response)
            error = failure(request.method, request.path, response)
            wait = _asked_to_wait(response)
            if wait is None or retries == MAX_RETRIES or waited + wait > PATIENCE[purpose]:
                raise error
            waited += wait
            self.metrics.retried(response.status)
            await self._sleep(wait)
        raise AssertionError("unreachable")

    async def _send(self, request: Request) -> Response:
        await self.turn(request.purpose)
        began_ns = self._clock()
        try:
            response = await self.transport.send(request)
        except ApiError as err:
            self.noted(request.method, err.status, began_ns, err)
            raise
        self.noted(request.method, response.status, began_ns, None)
        return response


def target(path: str, query: Query | None) -> str:
    """Return path and query as they are sent."""
    found = quote(path, safe="/:@!$&'()*+,;=~-._")
    return f"{found}?{urlencode(query, quote_via=quote)}" if query else found


def encoded(body: Any) -> bytes:
    """Return a body as it is sent."""
    return json.dumps(body, separators=(",", ":")).encode()


def failure(method: str, path: str, response: Response) -> ApiError:
    """Return the error in an answer that is not a success."""
    status = _status_object(response.body)
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    message = status.get("message")
    if not isinstance(message, str) or not message:
        message = _sentence(method, path, response)
    reason = status.get("reason")
    return ApiError(
        one_line(message[:_SHOWN]),
        status=response.status,
        reason=reason if isinstance(reason, str) else "",
        retry_after=_retry_after(response.headers, details),
        details=details,
    )


def failure_of_status(status: Json) -> ApiError:
    """Return the error in a Status object that came in a watch."""
    code = status.get("code")
    known = isinstance(code, int) and 400 <= code <= 599
    answer = Response(code if known and isinstance(code, int) else _NOT_SOUND, {}, encoded(status))
    return failure("WATCH", "", answer)


def _status_object(body: bytes) -> Json:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _sentence(method: str, path: str, response: Response) -> str:
    """Say what was answered, with the first line of a plain text and nothing of anything else."""
    said = f"{method} {path.partition('?')[0]} was answered with {response.status}"
    if response.headers.get("content-type", "").startswith("text/plain"):
        text = response.body[: 4 * _SHOWN_TEXT].decode(errors="replace").strip()
        if text:
            said += f": {text.splitlines()[0][:_SHOWN_TEXT]}"
    return said


def _answer(request: Request, response: Response) -> Json:
    if not response.body:
        return {}
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        where = f"{request.method} {request.path.partition('?')[0]}"
        size = len(response.body)
        raise ApiError(
            f"{where} was answered with {response.status} and {size} bytes that are no JSON object",
            status=_NOT_SOUND,
            reason=BAD_ANSWER,
        )
    return found


def _seconds(value: object) -> float | None:
    """Read a number of seconds; a date, which may stand there too, is nobody's habit here."""
    try:
        seconds = float(value) if isinstance(value, str | int) else -1.0
    except ValueError:
        return None
    return min(seconds, _MAX_RETRY_AFTER) if seconds >= 0 else None


def _retry_after(headers: Mapping[str, str], details: Json) -> float | None:
    found = _seconds(headers.get("retry-after"))
    return _seconds(details.get("retryAfterSeconds")) if found is None else found


def _asked_to_wait(response: Response) -> float | None:
    """Return how long the server asks to wait before the same call; None if it does not ask."""
    if response.status != _TOO_MANY and response.status < 500:
        return None
    return _seconds(response.headers.get("retry-after"))
