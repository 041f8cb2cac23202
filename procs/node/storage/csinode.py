"""The CSINode object, and what the Node says of its CSI drivers (L-41). Pure.

Each function gives an object or a patch that is to be written, or None where nothing is to change.
"""

from __future__ import annotations

import json
from typing import Final

from kubelet import logging as klog
from kubelet.channels.messages import RegisterCsiDriver
from kubelet.cluster.names import noted
from procs.node.apiserver.types import Json
from procs.node.nodeobject import odd

log = klog.get_logger(__name__)

COLLECTION: Final = "/apis/storage.k8s.io/v1/csinodes"
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
# The kinds of volumes of old for which CSI drivers stand in; the scheduler and the controllers
# read here that this node expects so.
MIGRATED_PLUGINS: Final = ",".join(
    f"kubernetes.io/{name}"
    for name in (
        "aws-ebs",
        "azure-disk",
        "azure-file",
        "cinder",
        "gce-pd",
        "portworx-volume",
        "vsphere-volume",
    )
)
MOST_VOLUMES: Final = (1 << 31) - 1  # the API has no more bits for it


class CollisionError(Exception):
    """What a driver says cannot be written down; the text is one sentence that may be shown."""


def problem_with(driver: RegisterCsiDriver) -> str:
    """Say what of a driver can be written nowhere; "": nothing."""
    if not noted(driver.name):
        return f"name: {driver.name[:80]!r} is no name of a CSI driver"
    if not driver.node_id:
        return f"node_id: CSI driver {driver.name} gives this node no ID"
    return ""


def new(node: str, uid: str) -> Json:
    """Return the object as it is created."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": node,
            "ownerReferences": [owner],
            "annotations": {MIGRATED: MIGRATED_PLUGINS},
        },
        "spec": {"drivers": []},
    }


def is_owned(item: Json, node: str, uid: str) -> bool:
    """Whether an object is this Node's, and not that of an earlier one of the same name."""
    return any(
        (owner.get("kind"), owner.get("name"), owner.get("uid")) == ("Node", node, uid)
        for owner in odd.maps(item, "metadata", "ownerReferences")
    )


def annotated(item: Json) -> Json | None:
    """Return the object with the annotation that it is to have."""
    metadata = odd.part(item, "metadata")
    notes = odd.part(metadata, "annotations")
    said = set(odd.text(notes, MIGRATED).split(","))
    if said == set(MIGRATED_PLUGINS.split(",")):
        return None
    return {**item, "metadata": {**metadata, "annotations": {**notes, MIGRATED: MIGRATED_PLUGINS}}}


def with_driver(item: Json, driver: RegisterCsiDriver) -> Json | None:
    """Return the object with an entry for a driver."""
    entry = _entry(driver)
    drivers = odd.maps(item, "spec", "drivers")
    same = [one for one in drivers if one.get("name") == driver.name]
    noted_already = len(same) == 1 and _said(same[0]) == _said(entry)
    if noted_already and annotated(item) is None:
        return None
    if not noted_already:
        drivers = [one for one in drivers if one.get("name") != driver.name] + [entry]
    found = annotated(item) or item
    return {**found, "spec": {**odd.part(item, "spec"), "drivers": drivers}}


def without_driver(item: Json, name: str) -> Json | None:
    """Return the object without the entry of a driver."""
    drivers = odd.maps(item, "spec", "drivers")
    left = [one for one in drivers if one.get("name") != name]
    if len(left) == len(drivers):
        return None
    return {**item, "spec": {**odd.part(item, "spec"), "drivers": left}}


def _entry(driver: RegisterCsiDriver) -> Json:
    found: Json = {
        "name": driver.name,
        "nodeID": driver.node_id,
        "topologyKeys": sorted(driver.topology),
    }
    if driver.max_volumes > 0:
        found["allocatable"] = {"count": min(driver.max_volumes, MOST_VOLUMES)}
    elif driver.max_volumes < 0:
        log.error(
            "Number of volumes is passed over",
            driver=driver.name,
            field="max_volumes_per_node",
            value=driver.max_volumes,
        )
    return found


def _said(entry: Json) -> tuple[object, ...]:
    """Return what an entry says, however it is written."""
    keys = entry.get("topologyKeys")
    topology = sorted(str(key) for key in keys) if isinstance(keys, list) else []
    return entry.get("nodeID"), topology, odd.part(entry, "allocatable").get("count")


# The Node.


def node_with(node: Json, driver: RegisterCsiDriver) -> Json | None:
    """Return the patch that has the Node name a driver and where it says that the node is."""
    metadata: Json = {}
    ids = _ids(node)
    if ids.get(driver.name) != driver.node_id:
        metadata["annotations"] = {NODE_IDS: _text_of({**ids, driver.name: driver.node_id})}
    labels = odd.part(node, "metadata", "labels")
    for key, value in sorted(driver.topology.items()):
        if key in labels and labels[key] != value:
            raise CollisionError(
                f"detected topology value collision: driver {driver.name} reported "
                f'"{key}":"{value}" but existing label is "{key}":"{labels[key]}"'
            )
    missing = {key: value for key, value in driver.topology.items() if key not in labels}
    if missing:
        metadata["labels"] = missing
    return {"metadata": metadata} if metadata else None


def node_without(node: Json, name: str) -> Json | None:
    """Return the patch that has the Node name a driver no more; its labels stay."""
    ids = _ids(node)
    if name not in ids:
        return None
    del ids[name]
    return {"metadata": {"annotations": {NODE_IDS: _text_of(ids) if ids else None}}}


def _text_of(ids: dict[str, str]) -> str:
    return json.dumps(ids, sort_keys=True, separators=(",", ":"))


def _ids(node: Json) -> dict[str, str]:
    """Return the IDs that drivers gave this node; CollisionError: the annotation is not ours."""
    text = odd.text(node, "metadata", "annotations", NODE_IDS)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise CollisionError(
            f"metadata.annotations[{NODE_IDS}] of the node is no map of drivers to IDs: "
            f"{text[:80]!r}"
        )
    return found
