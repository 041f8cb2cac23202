"""The node's object as it is created, and what of one that is there already is put right. Pure."""

from __future__ import annotations

from typing import Any, Final

from kubelet.machine import identity
from kubelet.pods.resources import HUGEPAGES
from procs.node.apiserver.types import Json
from procs.node.nodeobject import odd, status
from procs.node.nodeobject.facts import Facts
from procs.node.nodeobject.patch import merge
from procs.node.nodeobject.settings import Settings

ATTACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
# N-5: the labels that are put right on a node that is there already.
DEFAULT_LABELS: Final = (
    identity.HOSTNAME_LABEL,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    *identity.OS_LABELS,
    *identity.ARCH_LABELS,
    "node.kubernetes.io/windows-build",
)


def initial(facts: Facts, settings: Settings) -> Json:
    """Return the object that the node is created with (N-2, N-3, N-4, N-6)."""
    spec: Json = {}
    taints = [dict(taint) for taint in settings.taints]
    if settings.external and not any(taint.get("key") == UNINITIALIZED for taint in taints):
        taints.append({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    if settings.provider_id:
        spec["providerID"] = settings.provider_id
    empty = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": settings.node,
            "labels": dict(settings.labels),
            "annotations": {ATTACH: "true"} if settings.attach else {},
        },
        "spec": spec,
    }
    return status.compute(empty, facts, settings)


def reconcile(existing: Json, wanted: Json, *, reset: bool = False) -> Json | None:
    """Return the patch that an existing node needs (N-5); None if it needs none.

    ``reset``: nothing is known of the devices that were here, so that none are offered until
    their plugins come back.
    """
    metadata: Json = {}
    labels, ours = odd.part(existing, "metadata", "labels"), wanted["metadata"]["labels"]
    odd_ones = {k: ours[k] for k in DEFAULT_LABELS if k in ours and labels.get(k) != ours[k]}
    if odd_ones:
        metadata["labels"] = odd_ones
    annotations = odd.part(existing, "metadata", "annotations")
    attach = wanted["metadata"]["annotations"].get(ATTACH)
    if annotations.get(ATTACH) != attach:
        metadata["annotations"] = {ATTACH: attach}
    found = {"metadata": metadata} if metadata else {}
    amounts = _amounts(existing, wanted, reset=reset)
    if amounts:
        found["status"] = amounts
    return found or None


def _amounts(existing: Json, wanted: Json, *, reset: bool) -> Json:
    """Return what changes of resources that depend on the machine's set-up."""
    found: Json = {}
    for name in ("capacity", "allocatable"):
        old, new = odd.part(existing, "status", name), odd.part(wanted, "status", name)
        changes = merge(_huge(old), _huge(new))
        if reset:
            changes |= {k: "0" for k, v in old.items() if is_extended(k) and v != "0"}
        if changes:
            found[name] = changes
    return found


def _huge(amounts: Json) -> Json:
    return {name: amount for name, amount in amounts.items() if name.startswith(HUGEPAGES)}


def is_extended(resource: str) -> bool:
    """Whether a resource is a device's or a user's: its name has a domain that is not ours."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def sound(item: Any, name: str) -> Json | None:
    """Return an object that was heard of as one that can be worked with; None: it is not ours."""
    if not isinstance(item, dict) or odd.text(item, "metadata", "name") != name:
        return None
    found: Json = dict(item)
    for part in ("spec", "status"):
        found[part] = odd.part(item, part)
    return found


def known_already(item: Json, known: Json | None) -> bool:
    """Whether what is heard is the same object at the time of what is known of it, or before."""
    if known is None:
        return False
    if odd.text(item, "metadata", "uid") != odd.text(known, "metadata", "uid"):
        return False
    new, old = (odd.text(one, "metadata", "resourceVersion") for one in (item, known))
    return new.isdigit() and old.isdigit() and int(new) <= int(old)
