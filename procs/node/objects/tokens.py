"""Service account tokens of pods (L-26)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kubelet import times
from kubelet.cluster.names import possible
from kubelet.cluster.rows import TokenRow
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit
from procs.node.objects import patience
from procs.node.objects.keeping import Rounds
from procs.node.objects.patience import Tries
from procs.node.objects.references import TokenReference
from procs.node.objects.store import Store

_NS: Final = 10**9
OLDEST_NS: Final = 24 * 3600 * _NS  # T-12
USED_PERCENT: Final = 80  # of its life, after which it is replaced (T-12)
JITTER_NS: Final = 10 * _NS
_JITTER_PART: Final = 4  # of the time that a token is kept, at most
_UNREADABLE: Final = "the API server's answer to a token request has no token"


@dataclass(frozen=True, slots=True)
class Life:
    """When a token was issued and until when it is good, on the wall clock of this node."""

    issued_ns: int
    expires_ns: int


def refresh_at(life: Life, jitter_ns: int) -> int:
    """Return when a token is to be replaced: after 80 % of its life, or 24 h, a little sooner.

    The jitter keeps the tokens of pods that came together from being asked for together; it never
    takes so much of a short life that a token is asked for all the time.
    """
    whole = life.expires_ns - life.issued_ns
    kept = min(whole * USED_PERCENT // 100, OLDEST_NS)
    return life.issued_ns + kept - min(jitter_ns, kept // _JITTER_PART)


def request_of(reference: TokenReference) -> Json:
    """Return the request for a token that is bound to its pod."""
    spec: Json = {
        "audiences": [reference.audience] if reference.audience else [],
        "expirationSeconds": reference.seconds,
        "boundObjectRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": reference.pod_name,
            "uid": reference.pod_uid,
        },
    }
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def answer_of(answer: Json, asked: int, now_ns: int) -> tuple[str, Life] | None:
    """Return the token in an answer; None: there is none.

    The server may shorten or lengthen what was asked for. Its life is counted from now on by our
    own clock, so that a clock that differs from the server's makes no token look spent.
    """
    status, spec = _map(answer.get("status")), _map(answer.get("spec"))
    token = status.get("token")
    if not isinstance(token, str) or not token:
        return None
    seconds = spec.get("expirationSeconds")
    if not isinstance(seconds, int) or seconds <= 0:
        seconds = _until(status.get("expirationTimestamp"), now_ns) or asked
    return token, Life(now_ns, now_ns + seconds * _NS)


def _until(text: Any, now_ns: int) -> int:
    """Return the seconds until a moment that the server named; 0: it is past, or no moment."""
    try:
        return max((times.to_ns(text) - now_ns) // _NS, 0) if isinstance(text, str) else 0
    except ValueError:
        return 0


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


class Token:
    """Keeps the row of one pod's token for one audience and life time."""

    lingers = False  # it is the pod's own

    def __init__(self, kit: Kit, store: Store, reference: TokenReference) -> None:
        self._kit = kit
        self._store = store
        self._reference = reference
        self._tries = Tries()
        self._jitter_ns = 0
        self._draw()
        self._rounds = Rounds(kit, f"token of pod {reference.pod_uid}", self._round)

    def start(self) -> None:
        """Ask for it, unless a predecessor's is still fresh."""
        self._rounds.start()

    def wanted(self) -> None:
        """Do nothing: no other pod has it."""

    def stop(self) -> None:
        """Ask for it no more."""
        self._rounds.stop()

    def _draw(self) -> None:
        self._jitter_ns = int(self._kit.random.random() * JITTER_NS)

    async def _round(self) -> float:
        now = self._kit.wall()
        row = self._row()
        if row.token and row.issued_ns <= now:  # else the clock was set back: nothing is known
            due = refresh_at(Life(row.issued_ns, row.expires_ns), self._jitter_ns)
            if now < due:
                return (due - now) / _NS
        try:
            token, life = await self._ask()
        except ApiError as err:
            return self._failed(err)
        return self._issued(token, life)

    async def _ask(self) -> tuple[str, Life]:
        reference = self._reference
        if not possible(reference.account):  # it must not become part of a request
            text = f'serviceaccounts "{reference.account}" not found'
            raise ApiError(text, status=404, reason="NotFound")
        path = f"/api/v1/namespaces/{reference.namespace}/serviceaccounts/{reference.account}/token"
        answer = await self._kit.api.create(path, request_of(reference))
        found = answer_of(answer, reference.seconds, self._kit.wall())
        if found is None:
            raise ApiError(_UNREADABLE, status=502)
        return found

    def _issued(self, token: str, life: Life) -> float:
        self._tries = Tries()
        self._draw()
        issued, expires = life.issued_ns, life.expires_ns
        row = replace(self._fresh(), token=token, issued_ns=issued, expires_ns=expires)
        self._store.put(self._reference.key, row)
        return max(refresh_at(life, self._jitter_ns) - life.issued_ns, _NS) / _NS

    def _failed(self, err: ApiError) -> float:
        """Serve what there is until it expires, and say only then that there is none."""
        now, clock = self._kit.wall(), self._kit.clock()
        self._tries = self._tries.failed(clock)
        seconds = patience.delay(self._tries, err) * self._kit.random.uniform(1.0, 1.1)
        row = self._row()
        if row.token and now < row.expires_ns:
            return min(seconds, (row.expires_ns - now) / _NS)
        if row.token or patience.counts(self._tries, err, clock):
            fresh = self._fresh()
            self._store.refused(self._reference.key, err)
            self._store.put(
                self._reference.key, replace(fresh, error=f"failed to fetch token: {err}")
            )
        return seconds

    def _row(self) -> TokenRow:
        return self._store.token(self._reference.key) or self._fresh()

    def _fresh(self) -> TokenRow:
        reference = self._reference
        return TokenRow(
            reference.pod_uid,
            reference.namespace,
            reference.account,
            reference.audience,
            reference.seconds,
        )
