"""The configuration of credential providers: reading and checking it (I-27, I-28)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from kubelet import durations
from kubelet.api import codec
from kubelet.config import documents, names
from kubelet.config.errors import Problem, shown
from procs.syncloop.images.keyring import bad_pattern

CONFIG_FLAG: Final = "--image-credential-provider-config"
BIN_FLAG: Final = "--image-credential-provider-bin-dir"

KIND: Final = "CredentialProviderConfig"
CONFIG_VERSIONS: Final = tuple(f"kubelet.config.k8s.io/{v}" for v in ("v1", "v1beta1", "v1alpha1"))
API_V1: Final = "credentialprovider.kubelet.k8s.io/v1"
API_VERSIONS: Final = (API_V1, f"{API_V1}beta1", f"{API_V1}alpha1")
CACHE_TYPES: Final = ("ServiceAccount", "Token")
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_HIDDEN: Final = "<masked>"


class ProviderConfigError(Exception):
    """The providers cannot be used; ``problems`` has a line for each reason."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class EnvVar:
    """A variable that a provider's program is given."""

    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class TokenAttributes:
    """That a provider wants a token of the pod's service account, and which (I-27)."""

    service_account_token_audience: str = ""
    cache_type: str = ""
    require_service_account: bool | None = None
    required_service_account_annotation_keys: tuple[str, ...] = ()
    optional_service_account_annotation_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """One provider as it is configured."""

    name: str = ""
    match_images: tuple[str, ...] = ()
    default_cache_duration: str | None = None
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    token_attributes: TokenAttributes | None = None

    @property
    def default_cache_ns(self) -> int:
        """How long an answer is kept that says nothing about it."""
        return durations.parse(self.default_cache_duration or "0s")


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """``CredentialProviderConfig``."""

    api_version: str = ""
    kind: str = ""
    providers: tuple[ProviderSpec, ...] = ()


# A field's name below its provider, its value, and what is allowed.
_Fault = tuple[str, Any, str]


def load(path: str, bin_dir: str) -> tuple[ProviderSpec, ...]:
    """Read the providers from a file or a directory; ProviderConfigError names all problems."""
    if not path and not bin_dir:
        return ()
    for flag, value, other in ((CONFIG_FLAG, path, BIN_FLAG), (BIN_FLAG, bin_dir, CONFIG_FLAG)):
        if not value:
            raise ProviderConfigError((f"{flag}: must be set where {other} is",))
    problems: list[str] = []
    found: list[ProviderSpec] = []
    for file in _files(path):
        _read(file, found, problems)
    if not problems:
        problems += _programs(found, bin_dir)
    if problems:
        raise ProviderConfigError(tuple(problems))
    return tuple(found)


def _files(path: str) -> list[str]:
    """Return the file, or those of a directory in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    try:
        listed = sorted(name for name in os.listdir(path) if name.endswith(_SUFFIXES))
    except OSError as err:
        why = f"{CONFIG_FLAG}: {path}: cannot be read: {err.strerror}"
        raise ProviderConfigError((why,)) from None
    files = [os.path.join(path, name) for name in listed]
    files = [file for file in files if os.path.isfile(file)]
    if not files:
        wanted = ", ".join(_SUFFIXES)
        raise ProviderConfigError((f"{CONFIG_FLAG}: {path}: has no file that ends in {wanted}",))
    return files


def _read(file: str, found: list[ProviderSpec], problems: list[str]) -> None:
    """Add the providers of one file, and what is wrong with them."""
    try:
        document = documents.read(file)
    except documents.Unreadable as err:
        problems += [str(_reworded(problem)) for problem in err.problems]
        return
    problems += [str(problem) for problem in document.problems]
    try:
        config, unknown = codec.decode(ProviderConfig, document.content)
    except codec.DecodeError as err:
        problems += [f"{file}: {text}" for text in err.problems]
        return
    problems += [f"{file}: {text}" for text in unknown]
    problems += [_line(file, fault) for fault in _faults(config)]
    taken = {provider.name for provider in found}
    for index, provider in enumerate(config.providers):
        if provider.name and provider.name in taken:
            where = f"providers[{index}].name"
            problems.append(
                str(Problem(file, where, shown(provider.name), "must be the only one of its name"))
            )
        taken.add(provider.name)
    found += config.providers


def _reworded(problem: Problem) -> Problem:
    """Have an empty file name what it should hold."""
    if problem.value != "empty file":
        return problem
    return replace(problem, allowed=f"must hold a {KIND}")


def _line(file: str, fault: _Fault) -> str:
    name, value, allowed = fault
    return str(Problem(file, name, _HIDDEN if ".env[" in name else shown(value), allowed))


def _faults(config: ProviderConfig) -> Iterator[_Fault]:
    if config.kind != KIND:
        yield "kind", config.kind, f"must be {KIND}"
    if config.api_version not in CONFIG_VERSIONS:
        yield "apiVersion", config.api_version, f"must be one of {', '.join(CONFIG_VERSIONS)}"
    if not config.providers:
        yield "providers", [], "must have at least one provider"
    for index, provider in enumerate(config.providers):
        for name, value, allowed in _provider_faults(provider):
            yield f"providers[{index}].{name}", value, allowed


def _provider_faults(provider: ProviderSpec) -> Iterator[_Fault]:
    if allowed := _bad_name(provider.name):
        yield "name", provider.name, allowed
    if provider.api_version not in API_VERSIONS:
        yield "apiVersion", provider.api_version, f"must be one of {', '.join(API_VERSIONS)}"
    yield from _patterns(provider.match_images)
    if allowed := _bad_duration(provider.default_cache_duration):
        yield "defaultCacheDuration", provider.default_cache_duration, allowed
    for index, variable in enumerate(provider.env):
        if wrong := _bad_variable(variable):
            yield f"env[{index}]", "", wrong
    if provider.token_attributes is not None:
        for name, value, allowed in _token_faults(provider, provider.token_attributes):
            yield f"tokenAttributes{name}", value, allowed


def _patterns(patterns: tuple[str, ...]) -> Iterator[_Fault]:
    if not patterns:
        yield "matchImages", [], "must have at least one pattern"
    for index, pattern in enumerate(patterns):
        if wrong := bad_pattern(pattern):
            yield f"matchImages[{index}]", pattern, wrong


def _bad_variable(variable: EnvVar) -> str | None:
    if not variable.name or "=" in variable.name or "\0" in variable.name:
        return "must have a name without = in it"
    return "must have a value without NUL in it" if "\0" in variable.value else None


def _bad_name(name: str) -> str | None:
    if not name:
        return "must be set: it is the program's name"
    if "/" in name or "\0" in name or name in {".", ".."}:
        return "must be the name of a file, without a path"
    if any(c.isspace() for c in name):
        return "must not have spaces"
    return None


def _bad_duration(text: str | None) -> str | None:
    if not text:
        return "must be set"
    try:
        return "must be 0 or longer" if durations.parse(text) < 0 else None
    except ValueError as err:
        return str(err)


def _token_faults(provider: ProviderSpec, wanted: TokenAttributes) -> Iterator[_Fault]:
    if provider.api_version != API_V1:
        yield "", {}, f"needs apiVersion {API_V1}"
    if not wanted.service_account_token_audience:
        yield ".serviceAccountTokenAudience", "", "must be set"
    if wanted.cache_type not in CACHE_TYPES:
        yield ".cacheType", wanted.cache_type, f"must be one of {', '.join(CACHE_TYPES)}"
    if wanted.require_service_account is None:
        yield ".requireServiceAccount", None, "must be set"
    required = wanted.required_service_account_annotation_keys
    optional = wanted.optional_service_account_annotation_keys
    if required and wanted.require_service_account is False:
        name = ".requiredServiceAccountAnnotationKeys"
        yield name, list(required), "needs requireServiceAccount to be true"
    seen: set[str] = set()
    for field, keys in (("required", required), ("optional", optional)):
        for index, key in enumerate(keys):
            name = f".{field}ServiceAccountAnnotationKeys[{index}]"
            if allowed := names.label_key(key):
                yield name, key, allowed
            if key in seen:
                yield name, key, "must be given only once"
            seen.add(key)


def _programs(providers: list[ProviderSpec], bin_dir: str) -> Iterator[str]:
    """Say which programs are not there."""
    if not os.path.isdir(bin_dir):
        yield f"{BIN_FLAG}: {bin_dir}: must be a directory"
        return
    for provider in providers:
        program = os.path.join(bin_dir, provider.name)
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            yield f"{BIN_FLAG}: {program}: must be a program that can be run"
