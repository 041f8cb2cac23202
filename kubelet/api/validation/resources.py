"""Requests and limits of containers and pods, and claims of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kubelet.api.container import Container, ResourceClaim, ResourceRequirements
from kubelet.api.pod import PodResourceClaim, PodSpec
from kubelet.api.validation import totals
from kubelet.api.validation.names import dns_label, dns_subdomain, each, one_of, qualified_name
from kubelet.api.validation.texts import (
    NOT_NEGATIVE,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from kubelet.quantities import Quantity, parse

NameRule = Callable[[str, str], Iterator[str]]

_CONTAINER: Final = ("cpu", "memory", "ephemeral-storage")
# Names without a prefix that mean something somewhere in the API, if not in a container.
_STANDARD: Final = (
    *_CONTAINER,
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER),
    *("storage", "requests.storage", "pods", "services", "services.nodeports", "secrets"),
    *("services.loadbalancers", "resourcequotas", "replicationcontrollers", "configmaps"),
    "persistentvolumeclaims",
)


def quantity(path: str, text: str) -> Iterator[str]:
    """Check that a text is a quantity."""
    try:
        parse(text)
    except ValueError as error:
        yield invalid(path, text, str(error))


def container_name(path: str, name: str) -> Iterator[str]:
    """Check the name of a resource that a container asks for."""
    yield from each(path, name, qualified_name)
    hugepages = name.startswith(totals.HUGEPAGES)
    if "/" not in name:
        if name not in _STANDARD and not hugepages:
            yield invalid(path, name, "must be a standard resource type or fully qualified")
        if name not in _CONTAINER and not hugepages:
            yield invalid(path, name, "must be a standard resource for containers")
    elif not totals.is_native(name) and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def pod_name(path: str, name: str) -> Iterator[str]:
    """Check the name of a resource that a pod as a whole asks for (M-60)."""
    if not totals.is_pod_level(name):
        yield from one_of(path, name, ("cpu", "memory", totals.HUGEPAGES))


def requirements(
    path: str,
    found: ResourceRequirements,
    claims: frozenset[str],
    rule: NameRule = container_name,
) -> Iterator[str]:
    """Check requests, limits and claims, each for itself and against each other."""
    yield from amounts(f"{path}.limits", found.limits, rule)
    yield from amounts(f"{path}.requests", found.requests, rule)
    yield from _within_limits(path, found)
    names = {*found.limits, *found.requests}
    hugepages = any(name.startswith(totals.HUGEPAGES) for name in names)
    if hugepages and names.isdisjoint({"cpu", "memory"}):
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _claims(f"{path}.claims", found.claims, claims)


def amounts(path: str, found: dict[str, str], rule: NameRule = container_name) -> Iterator[str]:
    """Check the names and the amounts in a list of resources."""
    for name, text in found.items():
        where = f"{path}[{name}]"
        yield from rule(where, name)
        bad = list(quantity(where, text))
        yield from bad or _amount(where, name, parse(text))


def _amount(path: str, name: str, amount: Quantity) -> Iterator[str]:
    if amount.nano < 0:
        yield invalid(path, str(amount), NOT_NEGATIVE)
    if "/" in name and _is_extended(name) and amount.milli % 1000:
        yield invalid(path, str(amount), "must be an integer")
    if name.startswith(totals.HUGEPAGES) and not _whole_pages(name, amount):
        yield invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _whole_pages(name: str, amount: Quantity) -> bool:
    try:
        page = parse(name.removeprefix(totals.HUGEPAGES))
    except ValueError:
        return False
    return page.nano > 0 and amount.nano % page.nano == 0


def _is_extended(name: str) -> bool:
    if totals.is_native(name) or name.startswith("requests."):
        return False
    return not any(qualified_name(f"requests.{name}"))


def _within_limits(path: str, found: ResourceRequirements) -> Iterator[str]:
    limits = totals.readable(found.limits)
    for name, request in totals.readable(found.requests).items():
        where, limit = f"{path}.requests", limits.get(name)
        if limit is None:
            if not totals.may_overcommit(name) and name not in found.limits:
                detail = f"Limit must be set for non overcommitable resources such as {name}"
                yield required(f"{path}.limits", detail)
        elif request != limit and not totals.may_overcommit(name):
            yield invalid(where, str(request), f"must be equal to {name} limit of {limit}")
        elif request > limit:
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(where, str(request), detail)


def _claims(path: str, found: tuple[ResourceClaim, ...], known: frozenset[str]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for i, claim in enumerate(found):
        where = f"{path}[{i}]"
        if not claim.name:
            yield required(where)
            continue
        if claim.request:
            yield from each(f"{where}.request", claim.request, dns_label)
        # A claim without a request stands for all requests of that claim.
        same = [request for name, request in seen if name == claim.name]
        if "" in same or claim.request in same or (same and not claim.request):
            shown = f"{claim.name}/{claim.request}" if claim.request in same else claim.name
            yield duplicate(where, shown.rstrip("/"))
        seen.add((claim.name, claim.request))
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield not_found(where, claim.name, detail)


def pod_claims(path: str, claims: tuple[PodResourceClaim, ...]) -> Iterator[str]:
    """Check the device claims of a pod."""
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        where = f"{path}[{i}]"
        if not claim.name:
            yield required(f"{where}.name")
        elif claim.name in seen:
            yield duplicate(f"{where}.name", claim.name)
        else:
            yield from each(f"{where}.name", claim.name, dns_label)
        seen.add(claim.name)
        sources = {
            "resourceClaimName": claim.resource_claim_name,
            "resourceClaimTemplateName": claim.resource_claim_template_name,
        }
        given = {key: value for key, value in sources.items() if value}
        both = " or ".join(f"`{key}`" for key in sources)
        if len(given) > 1:
            yield invalid(where, claim, f"at most one of {both} may be specified")
        if not given:
            yield invalid(where, claim, f"must specify one of: {both.replace(' or ', ', ')}")
        for key, value in given.items():
            yield from each(f"{where}.{key}", value, dns_subdomain)


def pod_resources(spec: PodSpec, claims: frozenset[str]) -> Iterator[str]:
    """Check what a pod as a whole asks for, also against what its containers do (M-60)."""
    found, path = spec.resources, "spec.resources"
    if found is None:
        return
    if found.claims:
        yield forbidden(f"{path}.claims", "claims cannot be set for Resources at pod-level")
    bare = ResourceRequirements(limits=found.limits, requests=found.requests)
    yield from requirements(path, bare, claims, pod_name)
    yield from _enough(f"{path}.requests", spec, totals.readable(found.requests))
    limits = totals.readable(found.limits)
    yield from _below(limits, "spec.initContainers", spec.init_containers)
    yield from _below(limits, "spec.containers", spec.containers)


def _enough(path: str, spec: PodSpec, requests: totals.Amounts) -> Iterator[str]:
    for name, needed in totals.together(spec, totals.requests).items():
        own = requests.get(name, Quantity(0))
        if totals.is_pod_level(name) and needed > own:
            detail = f"must be greater than or equal to aggregate container requests of {needed}"
            yield invalid(f"{path}[{name}]", str(own), detail)


def _below(limits: totals.Amounts, path: str, containers: tuple[Container, ...]) -> Iterator[str]:
    for i, container in enumerate(containers):
        for name, limit in totals.limits(container).items():
            if name in limits and limit > limits[name]:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{path}[{i}].resources.limits[{name}]", str(limit), detail)
