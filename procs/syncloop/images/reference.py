"""Names of images: what is one, and what it stands for (I-20). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

DEFAULT_TAG: Final = "latest"
DEFAULT_DOMAIN: Final = "docker.io"
LEGACY_DOMAIN: Final = "index.docker.io"  # an older spelling of the same registry
OFFICIAL: Final = "library"  # where that registry keeps images without an owner

_MAX_NAME: Final = 255
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_KNOWN_DIGESTS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}  # and their hex digits
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")


class InvalidNameError(ValueError):
    """A text that cannot name an image; says why."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The parts of an image's name."""

    domain: str  # the registry: docker.io, localhost:5000
    path: str  # library/busybox
    tag: str = ""
    digest: str = ""  # sha256:...

    @property
    def repository(self) -> str:
        """The full name without tag and digest, which credentials are looked up by."""
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def parse(name: str) -> Reference:
    """Return what a name stands for, with the registry filled in; InvalidNameError if nothing."""
    if not name:
        raise InvalidNameError("an image name must not be empty")
    if _IDENTIFIER.fullmatch(name):
        raise InvalidNameError("cannot be 64 hexadecimal digits, which would be an image's ID")
    rest, at, digest = name.partition("@")
    rest, tag = _split_tag(rest)
    domain, path = _split_domain(rest)
    _check_name(domain, path)
    if tag is not None and not _TAG.fullmatch(tag):
        raise InvalidNameError(f"invalid reference format: tag {tag!r}")
    if at:
        _check_digest(digest)
    return Reference(domain, path, tag or "", digest)


def with_default_tag(name: str) -> str:
    """Return a name as runtimes are given it: as written, with :latest where it has no tag.

    The registry is not filled in: which one a short name means is the runtime's to decide.
    """
    found = parse(name)
    return name if found.tag or found.digest else f"{name}:{DEFAULT_TAG}"


def _split_tag(text: str) -> tuple[str, str | None]:
    """Cut off the tag; a colon before the last slash belongs to the registry's port."""
    head, slash, last = text.rpartition("/")
    last, colon, tag = last.partition(":")
    return f"{head}{slash}{last}", tag if colon else None


def _split_domain(text: str) -> tuple[str, str]:
    """Cut off the registry, which is a first part that could not be a path, or localhost."""
    first, slash, rest = text.partition("/")
    named = any(c in first for c in ".:") or first == "localhost" or first != first.lower()
    domain, path = (first, rest) if slash and named else (DEFAULT_DOMAIN, text)
    if domain == LEGACY_DOMAIN:
        domain = DEFAULT_DOMAIN
    if domain == DEFAULT_DOMAIN and "/" not in path:
        path = f"{OFFICIAL}/{path}"
    return domain, path


def _check_name(domain: str, path: str) -> None:
    if path != path.lower():
        raise InvalidNameError(
            f"invalid reference format: repository name ({path}) must be lowercase"
        )
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path):
        raise InvalidNameError("invalid reference format")
    if len(path) > _MAX_NAME:
        raise InvalidNameError(f"repository name must not be more than {_MAX_NAME} characters")


def _check_digest(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise InvalidNameError("invalid reference format: digest")
    algorithm, _, value = digest.partition(":")
    digits = _KNOWN_DIGESTS.get(algorithm)
    if digits is None:
        known = ", ".join(_KNOWN_DIGESTS)
        raise InvalidNameError(
            f"unsupported digest algorithm {algorithm!r}, must be one of {known}"
        )
    if len(value) != digits or value != value.lower():
        raise InvalidNameError(f"invalid checksum digest: {algorithm} has {digits} hex digits")
