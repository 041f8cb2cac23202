"""The node's status: what there was and what is true to what is to be said (N-13). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubelet.config.version import VERSION
from kubelet.machine import identity
from kubelet.pods.resources import CPU, HUGEPAGES, MEMORY, STORAGE
from kubelet.pods.runtime import Handler
from procs.node.apiserver.types import Json
from procs.node.nodeobject import conditions, odd
from procs.node.nodeobject.facts import Facts
from procs.node.nodeobject.settings import Settings

PROVIDED_IP: Final = "alpha.kubernetes.io/provided-node-ip"
_OWN: Final = frozenset({CPU, MEMORY, STORAGE, "pods"})  # and huge pages; others' stay

Setter = Callable[[Json, Facts, Settings], None]


def compute(before: Json, facts: Facts, settings: Settings) -> Json:
    """Return the node as it is to be; of ``before``, what is not the kubelet's stays.

    The result is a new object down to what was changed.
    """
    metadata = odd.part(before, "metadata")
    node = {
        **before,
        "metadata": {
            **metadata,
            "labels": dict(odd.part(metadata, "labels")),
            "annotations": dict(odd.part(metadata, "annotations")),
        },
        "status": dict(odd.part(before, "status")),
    }
    for setter in SETTERS:
        setter(node, facts, settings)
    return node


def _addresses(node: Json, facts: Facts, settings: Settings) -> None:
    """N-19: a cloud provider's word counts; it learns what was configured by an annotation."""
    if settings.external:
        annotations = node["metadata"]["annotations"]
        annotations.pop(PROVIDED_IP, None)
        if settings.node_ip:
            annotations[PROVIDED_IP] = settings.node_ip
        if node["status"].get("addresses") or not settings.node_ip:
            return
    found = facts.machine.addresses
    if found:
        listed = [{"type": one.type, "address": one.address} for one in found]
        node["status"]["addresses"] = listed


def _machine_info(node: Json, facts: Facts, _settings: Settings) -> None:
    """N-15, N-16, N-17; resources that are not ours are offered as they are."""
    status, machine = node["status"], facts.machine
    others = {k: v for k, v in odd.part(status, "capacity").items() if not is_own(k)}
    status["capacity"] = others | machine.capacity
    status["allocatable"] = others | machine.allocatable
    who = machine.identity
    info = {
        **odd.part(status, "nodeInfo"),
        "machineID": who.machine_id,
        "systemUUID": who.system_uuid,
        "bootID": who.boot_id,
    }
    info.pop("swap", None)
    if machine.swap:
        info["swap"] = {"capacity": machine.swap}
    info.pop("runningInUserNamespace", None)
    if who.user_namespace:
        info["runningInUserNamespace"] = True
    status["nodeInfo"] = info


def is_own(resource: str) -> bool:
    """Whether a resource's amount is the kubelet's to say, and not a device's or a user's."""
    return resource in _OWN or resource.startswith(HUGEPAGES)


def _versions(node: Json, facts: Facts, _settings: Settings) -> None:
    who, runtime = facts.machine.identity, facts.runtime
    info = node["status"]["nodeInfo"]
    version = odd.text(info, "containerRuntimeVersion")
    if runtime is not None and runtime.name:
        version = f"{runtime.name}://{runtime.version}"
    info |= {
        "kernelVersion": who.kernel,
        "osImage": who.os_image,
        "containerRuntimeVersion": version,
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
    }


def _endpoints(node: Json, _facts: Facts, settings: Settings) -> None:
    node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": settings.port}}


def _images(node: Json, facts: Facts, _settings: Settings) -> None:
    """N-18; while nobody knows them, what was said stays."""
    if facts.images is not None:
        listed = [{"names": list(one.names), "sizeBytes": one.size} for one in facts.images]
        node["status"]["images"] = listed


def _platform(node: Json, facts: Facts, _settings: Settings) -> None:
    """N-8: the labels that only the machine knows are put right each time."""
    architecture = facts.machine.identity.architecture
    info = node["status"]["nodeInfo"]
    info |= {"operatingSystem": identity.OS, "architecture": architecture}
    node["metadata"]["labels"] |= identity.platform_labels()


def _handlers(node: Json, facts: Facts, _settings: Settings) -> None:
    runtime = facts.runtime
    if runtime is None or not runtime.connected:
        return  # what was known stays
    node["status"].pop("runtimeHandlers", None)
    if runtime.handlers:
        node["status"]["runtimeHandlers"] = [_handler(one) for one in runtime.handlers]


def _handler(found: Handler) -> Json:
    return {
        "name": found.name,
        "features": {
            "recursiveReadOnlyMounts": found.recursive_read_only_mounts,
            "userNamespaces": found.user_namespaces,
        },
    }


def _features(node: Json, facts: Facts, _settings: Settings) -> None:
    """What the runtime can do; of one that has no features nothing is said."""
    runtime = facts.runtime
    if runtime is None or not runtime.connected:
        return
    node["status"].pop("features", None)
    if runtime.features:
        groups = "supplemental_groups_policy" in runtime.features
        node["status"]["features"] = {"supplementalGroupsPolicy": groups}


def _conditions(node: Json, facts: Facts, _settings: Settings) -> None:
    said = {one.type: one for one in conditions.all_of(facts)}
    now = {name: conditions.put(node, one, facts.wall_ns) for name, one in said.items()}
    listed = odd.maps(node, "status", "conditions")
    known = [one.get("type") for one in listed]
    kept = [now.get(str(one.get("type")), one) for one in listed]
    added = [now[name] for name in conditions.OURS if name not in known]
    node["status"]["conditions"] = kept + added


def _in_use(node: Json, facts: Facts, _settings: Settings) -> None:
    """L-13; until all are known, what was said to be in use stays so. What is attached is not ours.

    A controller may detach what is not named here, so that a name too many costs a while, and one
    too few a file system.
    """
    found = set(facts.in_use)
    if not facts.in_use_settled:
        said = node["status"].get("volumesInUse")
        found |= {one for one in said if isinstance(one, str)} if isinstance(said, list) else set()
    node["status"].pop("volumesInUse", None)
    if found:
        node["status"]["volumesInUse"] = sorted(found)


def _declared(node: Json, _facts: Facts, settings: Settings) -> None:
    """N-21."""
    node["status"].pop("declaredFeatures", None)
    if settings.declared:
        node["status"]["declaredFeatures"] = sorted(settings.declared)


# In the order of N-13.
SETTERS: Final[tuple[Setter, ...]] = (
    _addresses,
    _machine_info,
    _versions,
    _endpoints,
    _images,
    _platform,
    _handlers,
    _features,
    _conditions,
    _in_use,
    _declared,
)
