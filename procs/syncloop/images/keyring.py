"""Docker configurations, and which of their credentials are for an image (I-22, I-23). Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from kubelet.cri import api_pb2 as pb
from procs.syncloop.images.reference import DEFAULT_DOMAIN, LEGACY_DOMAIN

_SCHEMES: Final = ("https://", "http://")
_API_PATHS: Final = ("/v1", "/v2")  # of a registry's own API: they stand for all of it

_T = TypeVar("_T")


class BadDockerConfigError(ValueError):
    """A text is no docker configuration; says where, and never what stands there."""


@dataclass(frozen=True, slots=True)
class Auth:
    """What a registry is shown."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    @property
    def empty(self) -> bool:
        """Whether it shows nothing."""
        return self == Auth()

    @property
    def digest(self) -> str:
        """A text by which it can be compared without being kept."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def to_cri(self) -> pb.AuthConfig:
        """Return it as the runtime takes it."""
        return pb.AuthConfig(
            username=self.username,
            password=self.password,
            identity_token=self.identity_token,
            registry_token=self.registry_token,
        )


# By registry, or by a pattern for registries, as written.
DockerConfig = Mapping[str, Auth]


def parse_config(text: str | bytes, *, legacy: bool = False) -> dict[str, Auth]:
    """Read config.json, or with ``legacy`` .dockercfg, which has the entries at its top."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadDockerConfigError("it is not JSON") from None
    if not isinstance(document, dict):
        raise BadDockerConfigError("it is not a JSON object")
    entries = document if legacy else document.get("auths", {})
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise BadDockerConfigError("auths: must be an object")
    found = {registry: _auth(registry, entry) for registry, entry in entries.items()}
    # An entry with nothing in it only says that a helper of docker's own keeps the credentials.
    return {registry: auth for registry, auth in found.items() if not auth.empty}


def _auth(registry: str, entry: Any) -> Auth:
    if not isinstance(entry, dict):
        raise BadDockerConfigError(f"auths[{registry}]: must be an object")
    names = ("username", "password", "auth", "identitytoken", "registrytoken")
    texts = {name: _text(registry, entry, name) for name in names}
    identity, token = texts["identitytoken"], texts["registrytoken"]
    if identity or token:
        # A token replaces the password: runtimes prefer a user name where there is one.
        return Auth(identity_token=identity, registry_token=token)
    if texts["auth"]:
        return _basic(registry, texts["auth"])
    return Auth(texts["username"], texts["password"])


def _text(registry: str, entry: dict[str, Any], name: str) -> str:
    value = entry.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadDockerConfigError(f"auths[{registry}].{name}: must be a string")
    return value


def _basic(registry: str, text: str) -> Auth:
    """Read a user and password in base64, with its padding or without."""
    wanted = f"auths[{registry}].auth: must be base64 of user:password"
    bare = text.strip().rstrip("=")
    try:
        plain = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadDockerConfigError(wanted) from None
    username, colon, password = plain.partition(":")
    if not colon:
        raise BadDockerConfigError(wanted)
    return Auth(username, password.rstrip("\0"))


@dataclass(frozen=True, slots=True)
class Place:
    """A registry, or a pattern for several, and a path in it."""

    labels: tuple[str, ...]  # of the host's name
    port: str
    path: str  # "" or /path

    @property
    def key(self) -> str:
        """What places are ordered by."""
        port = f":{self.port}" if self.port else ""
        return f"{'.'.join(self.labels)}{port}{self.path}"


@lru_cache(maxsize=1024)
def place(written: str) -> Place:
    """Take apart a registry as it stands in a configuration; its API's path is all of it."""
    for scheme in _SCHEMES:
        written = written.removeprefix(scheme)
    host, slash, rest = written.partition("/")
    path = slash + rest
    if path in _API_PATHS or path.startswith(tuple(f"{own}/" for own in _API_PATHS)):
        path = path[len(_API_PATHS[0]) :]
    return _place(host, "" if path == "/" else path)


@lru_cache(maxsize=1024)
def _repository(name: str) -> Place:
    """Take apart the full name of an image."""
    host, slash, rest = name.partition("/")
    return _place(host, slash + rest)


def _place(host: str, path: str) -> Place:
    if host.startswith("[") and ":" in host.partition("]")[0]:  # IPv6
        address, _, port = host[1:].partition("]")
        return Place((address,), port.removeprefix(":"), path)
    name, _, port = host.partition(":")
    return Place(tuple(name.split(".")), port, path)


def matches(pattern: str, repository: str) -> bool:
    """Tell whether a pattern is for a repository.

    Each label of the host is matched by itself, so that ``*.io`` is not for ``a.b.io``; the port
    is the same; and the path begins alike.
    """
    wanted, given = place(pattern), _repository(repository)
    if wanted.port != given.port or len(wanted.labels) != len(given.labels):
        return False
    if not given.path.startswith(wanted.path):
        return False
    return all(_label_matches(*pair) for pair in zip(wanted.labels, given.labels, strict=True))


def _label_matches(pattern: str, label: str) -> bool:
    expression = _glob(pattern)
    return expression is not None and expression.fullmatch(label) is not None


def bad_pattern(pattern: str) -> str | None:
    """Return what is wrong with a pattern for images, if anything is."""
    if pattern != pattern.strip() or not pattern or any(c.isspace() for c in pattern):
        return "must be a registry or a pattern for registries, without spaces"
    found = place(pattern)
    if not all(found.labels):
        return "must have a host without empty parts"
    if found.port and not found.port.isdigit():
        return "must have a number after the colon, which is a port"
    if any(_glob(label) is None for label in found.labels):
        return "has a pattern that is never closed"
    return None


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str] | None:
    """Translate a shell pattern: a star, a question mark, sets, a backslash before any of them."""
    parts: list[str] = []
    rest = pattern
    while rest:
        head, rest = rest[0], rest[1:]
        if head == "[":
            content, closed, rest = rest.partition("]")
            if not closed or not content.removeprefix("^"):
                return None
            parts.append(_set(content))
        elif head == "\\":
            if not rest:
                return None
            parts.append(re.escape(rest[0]))
            rest = rest[1:]
        else:
            parts.append({"*": ".*", "?": "."}.get(head) or re.escape(head))
    try:
        return re.compile("".join(parts))
    except re.error:  # a range from a greater to a smaller letter
        return None


def _set(content: str) -> str:
    """Translate ``a-z`` or ``^a-z``: nothing but the dash and the first caret has a meaning."""
    mark = "^" if content.startswith("^") else ""
    escaped = re.sub(r"([\\\[^&~|])", r"\\\1", content.removeprefix("^"))
    return f"[{mark}{escaped}]"


def fitting(entries: Iterable[tuple[str, _T]], repository: str) -> list[_T]:
    """Return what is kept for an image's repository, under the most specific place first.

    Docker's own registry is known by several names; where none of the patterns fits, what is kept
    under its old name is for its images.
    """
    listed = list(entries)
    found = _ordered(entry for entry in listed if matches(entry[0], repository))
    if not found and repository.startswith(f"{DEFAULT_DOMAIN}/"):
        found = _ordered(entry for entry in listed if place(entry[0]).key == LEGACY_DOMAIN)
    return found


def _ordered(entries: Iterable[tuple[str, _T]]) -> list[_T]:
    """Sort backwards by place: a longer path comes before a shorter, a name before a star."""
    ranked = sorted(entries, key=lambda entry: place(entry[0]).key, reverse=True)
    return [kept for _, kept in ranked]


def lookup(config: DockerConfig, repository: str) -> list[Auth]:
    """Return the credentials for an image's repository, those of the most specific place first."""
    return list(dict.fromkeys(fitting(config.items(), repository)))
