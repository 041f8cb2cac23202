"""Names of a pod, and how it finds the names of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubelet.api.pod import PodDNSConfig, PodSpec
from kubelet.api.validation.names import (
    dns_label,
    dns_subdomain,
    each,
    ip_address,
    search_domain,
)
from kubelet.api.validation.texts import forbidden, invalid, required, too_long

POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_NAMESERVERS: Final = 3  # what the resolvers of libc look at
_SEARCHES: Final = 32
_SEARCH_CHARACTERS: Final = 2048
_HOST_NAME_LIMIT: Final = 64  # the kernel's __NEW_UTS_LEN


def dns_config(spec: PodSpec) -> Iterator[str]:
    """Check the resolver settings of a pod."""
    config, path = spec.dns_config, "spec.dnsConfig"
    if spec.dns_policy == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.nameservers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", detail)
    if config is not None:
        yield from _nameservers(f"{path}.nameservers", config)
        yield from _searches(f"{path}.searches", config)
        for i, option in enumerate(config.options):
            if not option.name:
                yield required(f"{path}.options[{i}]", "must not be empty")


def _nameservers(path: str, config: PodDNSConfig) -> Iterator[str]:
    if len(config.nameservers) > _NAMESERVERS:
        detail = f"must not have more than {_NAMESERVERS} nameservers"
        yield invalid(path, config.nameservers, detail)
    for i, address in enumerate(config.nameservers):
        yield from each(f"{path}[{i}]", address, ip_address)


def _searches(path: str, config: PodDNSConfig) -> Iterator[str]:
    if len(config.searches) > _SEARCHES:
        detail = f"must not have more than {_SEARCHES} search paths"
        yield invalid(path, config.searches, detail)
    if len(" ".join(config.searches)) > _SEARCH_CHARACTERS:
        detail = (
            f"must not have more than {_SEARCH_CHARACTERS} characters (including spaces) "
            "in the search list"
        )
        yield invalid(path, config.searches, detail)
    for i, search in enumerate(config.searches):
        if search != ".":
            yield from each(f"{path}[{i}]", search.removesuffix("."), search_domain)


def host_aliases(spec: PodSpec) -> Iterator[str]:
    """Check the lines that a pod adds to its hosts file."""
    for i, alias in enumerate(spec.host_aliases):
        path = f"spec.hostAliases[{i}]"
        yield from each(f"{path}.ip", alias.ip, ip_address)
        for j, name in enumerate(alias.hostnames):
            yield from each(f"{path}.hostnames[{j}]", name, dns_subdomain)


def host_names(spec: PodSpec) -> Iterator[str]:
    """Check the names that a pod has for itself (P-176)."""
    if spec.hostname:
        yield from each("spec.hostname", spec.hostname, dns_label)
    if spec.subdomain:
        yield from each("spec.subdomain", spec.subdomain, dns_label)
    if not spec.hostname_override:
        return
    path = "spec.hostnameOverride"
    yield from each(path, spec.hostname_override, dns_subdomain)
    if len(spec.hostname_override) > _HOST_NAME_LIMIT:
        yield too_long(path, _HOST_NAME_LIMIT)
    if spec.set_hostname_as_fqdn:
        yield forbidden(path, "may not be set when `setHostnameAsFQDN` is true")
    if spec.host_network:
        yield forbidden(path, "may not be set when `hostNetwork` is true")
