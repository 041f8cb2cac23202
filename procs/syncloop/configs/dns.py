"""The resolver file of a pod (P-177..P-179). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubelet.api.pod import Pod, PodDNSConfig
from kubelet.cri import api_pb2 as pb
from procs.syncloop.configs.resolver import Resolver
from procs.syncloop.site import Site

FORMING: Final = "DNSConfigForming"
MISSING: Final = "MissingClusterDNS"
CHECK: Final = "CheckLimitsForResolvConf"

MAX_SERVERS: Final = 3  # of the C library
MAX_SEARCHES: Final = 32
MAX_SEARCH_CHARACTERS: Final = 2048
_MAX_DOMAIN: Final = 253
_CLUSTER_SEARCHES: Final = 3  # that a pod of the cluster has before the host's
_CLUSTER_OPTIONS: Final = ("ndots:5",)

# Reason and message of an event.
Warning_ = tuple[str, str]


class Dns(NamedTuple):
    """A pod's resolver file, and what had to be said about it."""

    config: pb.DNSConfig
    warnings: tuple[Warning_, ...]


def dns_config(pod: Pod, host: Resolver, site: Site) -> Dns:
    """Return the resolver file of a pod."""
    warnings: list[Warning_] = []
    found = _base(pod, host, site, warnings)
    if pod.spec.dns_config is not None:
        found = _appended(found, pod.spec.dns_config)
    servers = _few_servers(found.servers, warnings)
    searches = _few_searches(found.searches, warnings)
    config = pb.DNSConfig(servers=servers, searches=searches, options=found.options)
    return Dns(config, tuple(warnings))


def host_problem(host: Resolver, site: Site) -> str | None:
    """Say what of the node's resolver file will not fit into those of pods (P-179)."""
    limit = MAX_SEARCHES - (_CLUSTER_SEARCHES if site.cluster_domain else 0)
    if len(host.searches) > limit:
        return (
            f"Resolv.conf file '{site.resolv_conf}' contains search line consisting of more than "
            f"{limit} domains!"
        )
    for domain in host.searches:
        if len(domain) > _MAX_DOMAIN:
            return f"Resolv.conf file '{site.resolv_conf}' contains a too long search: {domain}"
    length = len(" ".join(host.searches))
    if length > MAX_SEARCH_CHARACTERS:
        return (
            f"Resolv.conf file '{site.resolv_conf}' contains search line which length is more "
            f"than allowed {MAX_SEARCH_CHARACTERS} chars!"
        )
    return None


def _base(pod: Pod, host: Resolver, site: Site, warnings: list[Warning_]) -> Resolver:
    """Return what the pod's policy begins with; one that nobody knows counts as the cluster's."""
    policy = pod.spec.dns_policy
    if policy == "None":
        return Resolver()
    on_host = policy == "ClusterFirst" and bool(pod.spec.host_network)
    if policy != "Default" and not on_host:
        if site.cluster_dns:
            searches = _unique((*_cluster_searches(pod, site), *host.searches))
            return Resolver(site.cluster_dns, searches, _CLUSTER_OPTIONS)
        warnings.append((MISSING, _no_cluster_dns(pod)))
    if site.resolv_conf:
        return host
    # Without a file of the host's, nothing is to be found anywhere but on the node itself.
    servers = ["::1" if ":" in ip else "127.0.0.1" for ip in site.ips] or ["127.0.0.1"]
    return Resolver(tuple(servers), (".",))


def _no_cluster_dns(pod: Pod) -> str:
    return (
        f'pod: "{pod.name}_{pod.namespace}({pod.uid})". kubelet does not have ClusterDNS IP '
        f'configured and cannot create Pod using "{pod.spec.dns_policy or "ClusterFirst"}" policy. '
        'Falling back to "Default" policy.'
    )


def _cluster_searches(pod: Pod, site: Site) -> tuple[str, ...]:
    domain = site.cluster_domain
    return (f"{pod.namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()


def _appended(found: Resolver, more: PodDNSConfig) -> Resolver:
    options = {option.partition(":")[0]: option for option in found.options}
    for option in more.options:
        options[option.name] = f"{option.name}:{option.value}" if option.value else option.name
    return Resolver(
        _unique((*found.servers, *more.nameservers)),
        _unique((*found.searches, *more.searches)),
        tuple(options.values()),
    )


def _few_servers(servers: tuple[str, ...], warnings: list[Warning_]) -> tuple[str, ...]:
    kept = servers[:MAX_SERVERS]
    if len(kept) < len(servers):
        text = (
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied "
            f"nameserver line is: {' '.join(kept)}"
        )
        warnings.append((FORMING, text))
    return kept


def _few_searches(searches: tuple[str, ...], warnings: list[Warning_]) -> tuple[str, ...]:
    kept = [domain for domain in searches[:MAX_SEARCHES] if len(domain) <= _MAX_DOMAIN]
    while len(" ".join(kept)) > MAX_SEARCH_CHARACTERS:
        kept.pop()
    if len(kept) < len(searches):
        text = (
            "Search Line limits were exceeded, some search paths have been omitted, the applied "
            f"search line is: {' '.join(kept)}"
        )
        warnings.append((FORMING, text))
    return tuple(kept)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
