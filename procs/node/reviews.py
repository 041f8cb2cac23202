"""Whose is this token, and may they do that: asked of the API server for whoever serves (H-40).

Answers are kept for as long as the configuration says, by a hash: a token is in no table, no log
and no memory of ours after its call. What could not be found out is asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from kubelet.channels.messages import AccessReviewed, ReviewAccess, ReviewToken, TokenReviewed
from kubelet.channels.server import Caller
from kubelet.config.errors import one_line
from kubelet.process import Process
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit

TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KEPT: Final = 4096  # answers of each kind
NO_API: Final = "there is no API server to ask: the kubelet runs without --kubeconfig"
_SECOND_NS: Final = 1_000_000_000
_FIRST_WAIT: Final = 0.5  # seconds, before what failed is asked again within the asker's deadline
_GROWTH: Final = 1.5

A = TypeVar("A", TokenReviewed, AccessReviewed)


class Answers(Generic[A]):
    """Answers by the hash of their question, each for a time; the oldest go first."""

    def __init__(self, clock: Callable[[], int], limit: int = KEPT) -> None:
        self._clock = clock
        self._limit = limit
        self._kept: OrderedDict[bytes, tuple[int, A]] = OrderedDict()
        self._asked: dict[bytes, asyncio.Future[A]] = {}

    async def get(self, key: bytes, ask: Callable[[], Awaitable[tuple[A, float]]]) -> A:
        """Return the answer to a question; ``ask`` gives it with the seconds that it holds.

        Who asks what somebody else is asking already waits for that answer.
        """
        until_ns, known = self._kept.get(key, (0, None))
        if known is not None and self._clock() < until_ns:
            self._kept.move_to_end(key)
            return known
        running = self._asked.get(key)
        if running is not None:
            return await asyncio.shield(running)
        self._asked[key] = mine = asyncio.get_running_loop().create_future()
        try:
            answer, seconds = await ask()
        except BaseException:
            mine.cancel()
            raise
        else:
            mine.set_result(answer)
        finally:
            del self._asked[key]
        self._keep(key, answer, seconds)
        return answer

    def _keep(self, key: bytes, answer: A, seconds: float) -> None:
        self._kept.pop(key, None)
        if seconds <= 0:
            return
        self._kept[key] = (self._clock() + int(seconds * _SECOND_NS), answer)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)


class Reviews:
    """Answers the two questions."""

    def __init__(self, kit: Kit, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._kit = kit
        self._sleep = sleep
        config = kit.process.config
        self._token_seconds = config.duration("authentication.webhook.cacheTTL")
        self._yes_seconds = config.duration("authorization.webhook.cacheAuthorizedTTL")
        self._no_seconds = config.duration("authorization.webhook.cacheUnauthorizedTTL")
        self._tokens: Answers[TokenReviewed] = Answers(kit.clock)
        self._access: Answers[AccessReviewed] = Answers(kit.clock)

    def start(self) -> None:
        """Answer from now on."""
        self._kit.process.channels.handle(ReviewToken, self._review_token)
        self._kit.process.channels.handle(ReviewAccess, self._review_access)

    async def _review_token(self, request: ReviewToken, caller: Caller) -> TokenReviewed:
        spec: Json = {"token": request.token}
        if request.audiences:
            spec["audiences"] = list(request.audiences)

        async def ask() -> tuple[TokenReviewed, float]:
            try:
                status = await self._ask(TOKENS, _review("authentication", spec), caller)
            except ApiError as err:
                return TokenReviewed(False, error=str(err)), 0
            answer = token_answer(status, request.audiences)
            return answer, 0 if answer.error else self._token_seconds

        return await self._tokens.get(_hash(request.token, request.audiences), ask)

    async def _review_access(self, request: ReviewAccess, caller: Caller) -> AccessReviewed:
        spec = access_spec(request, self._kit.process.node)

        async def ask() -> tuple[AccessReviewed, float]:
            try:
                status = await self._ask(ACCESS, _review("authorization", spec), caller)
            except ApiError as err:
                return AccessReviewed(False, error=str(err)), 0
            answer = access_answer(status)
            return answer, self._yes_seconds if answer.allowed else self._no_seconds

        return await self._access.get(_hash(spec), ask)

    async def _ask(self, path: str, body: Json, caller: Caller) -> Json:
        """Ask, and ask again for as long as the asker waits and it may help; the status."""
        wait = _FIRST_WAIT
        while True:
            try:
                answer = await self._kit.api.create(path, body)
            except ApiError as err:
                later_ns = self._kit.clock() + int(wait * _SECOND_NS)
                if not err.passing or later_ns >= caller.deadline_ns:
                    raise
                await self._sleep(wait)
                wait *= _GROWTH
            else:
                status = answer.get("status")
                return status if isinstance(status, dict) else {}


class Standalone:
    """Answers that there is nobody to ask (C-8)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def start(self) -> None:
        """Answer from now on."""

        async def token(_request: ReviewToken, _caller: Caller) -> TokenReviewed:
            return TokenReviewed(False, error=NO_API)

        async def access(_request: ReviewAccess, _caller: Caller) -> AccessReviewed:
            return AccessReviewed(False, error=NO_API)

        self._process.channels.handle(ReviewToken, token)
        self._process.channels.handle(ReviewAccess, access)


def _review(group: str, spec: Json) -> Json:
    kind = "TokenReview" if group == "authentication" else "SubjectAccessReview"
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}


def _hash(*question: object) -> bytes:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).digest()


def token_answer(status: Json, audiences: tuple[str, ...]) -> TokenReviewed:
    """Read what the API server says of a token that is to be for one of the audiences, if any."""
    if error := _said(status.get("error")):
        return TokenReviewed(False, error=error)
    if status.get("authenticated") is not True:
        return TokenReviewed(False)
    user = status.get("user")
    if not isinstance(user, dict) or not _text(user.get("username")):
        return TokenReviewed(False, error="the answer has no status.user.username")
    if audiences and not set(audiences) & set(_texts(status.get("audiences"))):
        return TokenReviewed(False, error="the token is not for the audience that was asked for")
    return TokenReviewed(
        True,
        _text(user.get("username")),
        _text(user.get("uid")),
        _texts(user.get("groups")),
        _extra(user.get("extra")),
    )


def access_spec(request: ReviewAccess, node: str) -> Json:
    """Return what is asked of the API server: about this node, or about a path."""
    spec: Json = {"user": request.user}
    if request.path:
        spec["nonResourceAttributes"] = {"path": request.path, "verb": request.verb}
    else:
        attributes = {"verb": request.verb, "version": "v1", "resource": "nodes", "name": node}
        if request.subresource:
            attributes["subresource"] = request.subresource
        spec["resourceAttributes"] = attributes
    if request.uid:
        spec["uid"] = request.uid
    if request.groups:
        spec["groups"] = list(request.groups)
    if request.extra:
        spec["extra"] = {name: list(values) for name, values in request.extra.items()}
    return spec


def access_answer(status: Json) -> AccessReviewed:
    """Read what the API server says of an access; an odd answer allows nothing.

    What it could not evaluate on the way does not make its answer a failure: it is the reason then.
    """
    denied = status.get("denied") is True
    return AccessReviewed(
        allowed=status.get("allowed") is True and not denied,
        denied=denied,
        reason=_said(status.get("reason")) or _said(status.get("evaluationError")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _said(value: Any) -> str:
    return one_line(_text(value))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _extra(value: Any) -> dict[str, tuple[str, ...]]:
    found = value if isinstance(value, dict) else {}
    return {name: _texts(values) for name, values in found.items() if isinstance(name, str)}
