"""Forms of names, numbers and paths. A rule yields what is wrong with a value, if anything."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kubelet.api.validation.texts import between, invalid, size, unsupported

Rule = Callable[[str], Iterator[str]]

LABEL_LIMIT: Final = 63
SUBDOMAIN_LIMIT: Final = 253
MAX_INT32: Final = 2**31 - 1

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_UNDERSCORE: Final = "[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?"
_SUBDOMAIN_UNDERSCORE: Final = rf"{_LABEL_UNDERSCORE}(\.{_LABEL_UNDERSCORE})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER: Final = "[-A-Za-z0-9]+"
_ENV: Final = re.compile("[ -<>-~]+")  # printable ASCII without "="
_PORT_CHARACTERS: Final = re.compile("[-a-z0-9]+")


def _form(pattern: str, sentence: str, *examples: str) -> Rule:
    """Return a rule for values that must match a pattern."""
    compiled = re.compile(pattern)
    listed = " or ".join(f"'{example}', " for example in examples)
    detail = f"{sentence} (e.g. {listed}regex used for validation is '{pattern}')"

    def rule(value: str) -> Iterator[str]:
        if not compiled.fullmatch(value):
            yield detail

    return rule


_label_form = _form(
    _LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    "my-name",
    "123-abc",
)
_subdomain_form = _form(
    _SUBDOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character",
    "example.com",
)
_underscore_form = _form(
    _SUBDOMAIN_UNDERSCORE,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character or an underscore",
    "example.com",
)
_name_part_form = _form(
    _QUALIFIED,
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character",
    "MyName",
    "my.name",
    "123-abc",
)
_label_value_form = _form(
    _LABEL_VALUE,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    "MyValue",
    "my_value",
    "12345",
)
_config_key_form = _form(
    _CONFIG_KEY,
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "key.name",
    "KEY_NAME",
    "key-name",
)
header_name = _form(
    _HEADER, "a valid HTTP header must consist of alphanumeric characters or '-'", "X-Header-Name"
)


def each(path: str, value: str, rule: Rule) -> Iterator[str]:
    """Yield a problem for each thing that a rule says about a value."""
    for detail in rule(value):
        yield invalid(path, value, detail)


def one_of(path: str, value: str, supported: Iterable[str]) -> Iterator[str]:
    """Check a value against the list of those that exist."""
    known = tuple(supported)
    if value not in known:
        yield unsupported(path, value, known)


def _short(value: str, limit: int) -> Iterator[str]:
    if size(value) > limit:
        yield f"must be no more than {limit} bytes"


def dns_label(value: str) -> Iterator[str]:
    """Check a name that is one part of a host name."""
    yield from _short(value, LABEL_LIMIT)
    yield from _label_form(value)


def dns_subdomain(value: str) -> Iterator[str]:
    """Check a name that is a host name."""
    yield from _short(value, SUBDOMAIN_LIMIT)
    yield from _subdomain_form(value)


def search_domain(value: str) -> Iterator[str]:
    """Check a DNS search path: a host name in which underscores are allowed."""
    yield from _short(value, SUBDOMAIN_LIMIT)
    yield from _underscore_form(value)


def generate_name(value: str) -> Iterator[str]:
    """Check the prefix of a generated name: it may end with dashes, letters follow it."""
    return dns_subdomain(value[:-1] + "a" if value.endswith("-") else value)


def qualified_name(value: str) -> Iterator[str]:
    """Check the key of a label: a name, with a DNS subdomain before a slash or without."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        yield (
            "a qualified name "
            + next(_name_part_form(""))
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {detail}" for detail in dns_subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {detail}" for detail in _short(name, LABEL_LIMIT))
    yield from (f"name part {detail}" for detail in _name_part_form(name))


def label_value(value: str) -> Iterator[str]:
    """Check the value of a label."""
    yield from _short(value, LABEL_LIMIT)
    yield from _label_value_form(value)


def port_name(value: str) -> Iterator[str]:
    """Check the name of a port, by the rules of the IANA service names."""
    yield from _short(value, 15)
    if not _PORT_CHARACTERS.fullmatch(value):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", value):
        yield "must contain at least one letter (a-z)"
    if "--" in value:
        yield "must not contain consecutive hyphens"
    if value.startswith("-") or value.endswith("-"):
        yield "must not begin or end with a hyphen"


def env_name(value: str) -> Iterator[str]:
    """Check the name of an environment variable."""
    if not _ENV.fullmatch(value):
        yield (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        )


def config_key(value: str) -> Iterator[str]:
    """Check a key of a ConfigMap or a Secret."""
    yield from _short(value, SUBDOMAIN_LIMIT)
    yield from _config_key_form(value)
    if value in {".", ".."}:
        yield f"must not be '{value}'"
    elif value.startswith(".."):
        yield "must not start with '..'"


def ip_address(value: str) -> Iterator[str]:
    """Check an IP address."""
    try:
        ipaddress.ip_address(value)
        zone = "%" in value
    except ValueError:
        zone = True
    if zone:
        yield "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def no_backsteps(value: str) -> Iterator[str]:
    """Check that no part of a path goes up."""
    if ".." in value.split("/"):
        yield "must not contain '..'"


def descending_path(value: str) -> Iterator[str]:
    """Check a path that must stay below where it starts."""
    if value.startswith("/"):
        yield "must be a relative path"
    yield from no_backsteps(value)


def file_path(value: str) -> Iterator[str]:
    """Check the path of a file in a volume; names with two dots in front are the kubelet's."""
    yield from descending_path(value)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        yield "must not start with '..'"


def ranged(path: str, value: int | None, low: int, high: int) -> Iterator[str]:
    """Check a number against its range; one that is not set is not checked."""
    if value is not None and not low <= value <= high:
        yield invalid(path, value, between(low, high))


def port_number(path: str, value: int) -> Iterator[str]:
    """Check the number of a port."""
    return ranged(path, value, 1, 65535)


def identity(path: str, value: int | None) -> Iterator[str]:
    """Check the number of a user or a group."""
    return ranged(path, value, 0, MAX_INT32)


def label_map(path: str, labels: dict[str, str]) -> Iterator[str]:
    """Check labels: their keys, then their values."""
    for key, value in labels.items():
        yield from each(path, key, qualified_name)
        yield from (invalid(path, value, detail) for detail in label_value(value))
