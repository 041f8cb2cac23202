"""What is said between kubelet and credential providers (I-26). Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kubelet import durations
from kubelet.api import codec
from procs.syncloop.images.keyring import Auth, DockerConfig

_REQUEST: Final = "CredentialProviderRequest"
_RESPONSE: Final = "CredentialProviderResponse"


class ProviderError(Exception):
    """A provider gave no credentials; says why, and no secret."""


class CacheKey(StrEnum):
    """What an answer is good for."""

    IMAGE = "Image"
    REGISTRY = "Registry"
    GLOBAL = "Global"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider said."""

    config: DockerConfig
    key: CacheKey
    keep_ns: int | None  # None: it did not say


@dataclass(frozen=True, slots=True)
class _Login:
    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class _Response:
    api_version: str = ""
    kind: str = ""
    cache_key_type: str = ""
    cache_duration: str | None = None
    auth: dict[str, _Login] = field(default_factory=dict)


def request(api_version: str, image: str) -> bytes:
    """Return what a provider's program reads."""
    return json.dumps({"apiVersion": api_version, "kind": _REQUEST, "image": image}).encode()


def answer(api_version: str, data: bytes) -> Answer:
    """Read what a provider's program printed; ProviderError says what does not fit."""
    try:
        found, _unknown = codec.decode(_Response, json.loads(data))
    except codec.DecodeError as err:
        # What stands where something else should may be a password in the wrong place.
        places = "; ".join(text.partition(", not ")[0] for text in err.problems)
        raise ProviderError(f"its answer does not fit: {places}") from None
    except (ValueError, RecursionError):
        raise ProviderError("its answer is not JSON") from None
    if (found.api_version, found.kind) != (api_version, _RESPONSE):
        raise ProviderError(
            f"its answer is {found.kind or 'nothing'} of {found.api_version or 'no version'},"
            f" and must be {_RESPONSE} of {api_version}"
        )
    try:
        key = CacheKey(found.cache_key_type)
    except ValueError:
        allowed = ", ".join(CacheKey)
        raise ProviderError(
            f"cacheKeyType in its answer is {found.cache_key_type!r}, must be one of {allowed}"
        ) from None
    return Answer(_config(found.auth), key, _duration(found.cache_duration))


def _config(logins: dict[str, _Login]) -> DockerConfig:
    config = {where: Auth(login.username, login.password) for where, login in logins.items()}
    return {where: auth for where, auth in config.items() if not auth.empty}


def _duration(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return max(durations.parse(text), 0)
    except ValueError as err:
        raise ProviderError(f"cacheDuration in its answer is {text!r}, {err}") from None
