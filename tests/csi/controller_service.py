"""What the driver does for the cluster: it keeps a list of volumes and where they are attached."""

from __future__ import annotations

import hashlib

import grpc

from procs.volumes.csi.wire import csi_pb2 as pb
from tests.csi.node_service import wanted
from tests.csi.services import Refusal
from tests.csi.store import DEFAULT_BYTES, TOTAL_BYTES, Volume

Capability = pb.ControllerServiceCapability.RPC


def shown(volume):
    """Return a volume as the interface shows it."""
    return pb.Volume(
        volume_id=volume.id, capacity_bytes=volume.capacity, volume_context=volume.context
    )


class ControllerService:
    """csi.v1.Controller, without snapshots, clones and changes of parameters."""

    def __init__(self, options, store):
        self._options = options
        self._store = store

    def ControllerGetCapabilities(self, _request):  # noqa: N802 - here and below, the call's name
        kinds = [
            Capability.CREATE_DELETE_VOLUME,
            Capability.LIST_VOLUMES,
            Capability.GET_CAPACITY,
            Capability.EXPAND_VOLUME,
            Capability.GET_VOLUME,
            Capability.SINGLE_NODE_MULTI_WRITER,
        ]
        if not self._options.no_attach:
            kinds += [Capability.PUBLISH_UNPUBLISH_VOLUME, Capability.PUBLISH_READONLY]
            kinds += [Capability.LIST_VOLUMES_PUBLISHED_NODES]
        capabilities = [{"rpc": {"type": kind}} for kind in kinds]
        return pb.ControllerGetCapabilitiesResponse(capabilities=capabilities)

    def CreateVolume(self, request):  # noqa: N802
        wanted(request.name, "name")
        wanted(request.volume_capabilities, "volume_capabilities")
        with self._store.lock:
            ident = hashlib.sha256(request.name.encode()).hexdigest()[:32]
            volume = self._store.get(ident)
            if volume is None:
                volume = self._create(ident, request)
            self._check_fits(volume, request.capacity_range)
            return pb.CreateVolumeResponse(volume=shown(volume))

    def _create(self, ident, request):
        size = request.capacity_range.required_bytes or DEFAULT_BYTES
        if size > TOTAL_BYTES:
            raise Refusal(grpc.StatusCode.OUT_OF_RANGE, f"{size} bytes are more than there are")
        block = any(kind.HasField("block") for kind in request.volume_capabilities)
        volume = Volume(ident, request.name, size, block, dict(request.parameters))
        self._store.put(volume)
        return volume

    def _check_fits(self, volume, asked):
        too_small = volume.capacity < asked.required_bytes
        too_large = 0 < asked.limit_bytes < volume.capacity
        if too_small or too_large:
            text = f"there is one of that name with {volume.capacity} bytes"
            raise Refusal(grpc.StatusCode.ALREADY_EXISTS, text)

    def DeleteVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        with self._store.lock:
            self._store.delete(request.volume_id)
        return pb.DeleteVolumeResponse()

    def ControllerPublishVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.node_id, "node_id")
        wanted(request.HasField("volume_capability"), "volume_capability")
        with self._store.lock:
            volume = self._known(request.volume_id)
            if request.node_id != self._options.node_id:
                raise Refusal(grpc.StatusCode.NOT_FOUND, f"there is no node {request.node_id!r}")
            before = volume.attached.get(request.node_id, request.readonly)
            if before != request.readonly:
                raise Refusal(grpc.StatusCode.ALREADY_EXISTS, "it is attached in another mode")
            volume.attached[request.node_id] = request.readonly
            self._store.put(volume)
        context = {"attachment": f"{volume.id}@{request.node_id}"}
        return pb.ControllerPublishVolumeResponse(publish_context=context)

    def ControllerUnpublishVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        with self._store.lock:
            volume = self._store.get(request.volume_id)
            if volume is not None:
                if request.node_id:
                    volume.attached.pop(request.node_id, None)
                else:
                    volume.attached.clear()
                self._store.put(volume)
        return pb.ControllerUnpublishVolumeResponse()

    def ValidateVolumeCapabilities(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.volume_capabilities, "volume_capabilities")
        self._known(request.volume_id)
        reply = pb.ValidateVolumeCapabilitiesResponse()
        reply.confirmed.volume_capabilities.extend(request.volume_capabilities)
        reply.confirmed.volume_context.update(request.volume_context)
        reply.confirmed.parameters.update(request.parameters)
        return reply

    def ListVolumes(self, request):  # noqa: N802
        volumes = self._store.all()
        token = request.starting_token
        if token and not (token.isdigit() and int(token) <= len(volumes)):
            raise Refusal(grpc.StatusCode.ABORTED, f"starting_token {token!r} is not ours")
        first = int(token or 0)
        last = first + request.max_entries if request.max_entries else len(volumes)
        reply = pb.ListVolumesResponse(next_token=str(last) if last < len(volumes) else "")
        for volume in volumes[first:last]:
            status = {"published_node_ids": sorted(volume.attached)}
            reply.entries.add(volume=shown(volume), status=status)
        return reply

    def ControllerGetVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        volume = self._known(request.volume_id)
        status = {"published_node_ids": sorted(volume.attached)}
        return pb.ControllerGetVolumeResponse(volume=shown(volume), status=status)

    def GetCapacity(self, _request):  # noqa: N802
        used = sum(volume.capacity for volume in self._store.all())
        return pb.GetCapacityResponse(available_capacity=max(0, TOTAL_BYTES - used))

    def ControllerExpandVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.HasField("capacity_range"), "capacity_range")
        with self._store.lock:
            volume = self._known(request.volume_id)
            size = max(volume.capacity, request.capacity_range.required_bytes)
            needed = not self._options.no_expand
            if not needed:
                volume.capacity = size
                self._store.put(volume)
        return pb.ControllerExpandVolumeResponse(
            capacity_bytes=size, node_expansion_required=needed
        )

    def _known(self, ident):
        volume = self._store.get(ident)
        if volume is None:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"there is no volume {ident!r}")
        return volume
