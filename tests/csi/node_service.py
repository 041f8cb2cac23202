"""What the driver does on its node: directories and images become mounts.

A volume is a directory of the state directory, bound to where it is wanted. One that wants ext4 is
an image with a file system of its own, whose growth needs CAP_SYS_RESOURCE; one that wants tmpfs
grows anywhere, and keeps nothing beyond its stage. A block volume is an image behind a loop device.
"""

from __future__ import annotations

import os
import subprocess

import grpc

from procs.volumes.csi.wire import csi_pb2 as pb
from tests.csi.mounting import attach, bind, detach, file_system, loop_of, mounted, run, unmount
from tests.csi.services import Refusal
from tests.csi.store import DEFAULT_BYTES, Volume

EPHEMERAL = "csi.storage.k8s.io/ephemeral"
OWN_FILE_SYSTEMS = ("ext4",)
Capability = pb.NodeServiceCapability.RPC


def wanted(value, name):
    """Refuse a call that leaves a field out."""
    if not value:
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{name} is missing")


class NodeService:
    """csi.v1.Node."""

    def __init__(self, options, store, control):
        self._options = options
        self._store = store
        self._control = control

    # Calls by their names in the interface.

    def NodeGetInfo(self, _request):  # noqa: N802
        limit = self._control.read().get("max_volumes", self._options.max_volumes)
        topology = dict(pair.split("=", 1) for pair in self._options.topology)
        reply = pb.NodeGetInfoResponse(node_id=self._options.node_id, max_volumes_per_node=limit)
        if topology:
            reply.accessible_topology.segments.update(topology)
        return reply

    def NodeGetCapabilities(self, _request):  # noqa: N802
        o = self._options
        having = {
            Capability.STAGE_UNSTAGE_VOLUME: not o.no_stage,
            Capability.GET_VOLUME_STATS: not o.no_stats,
            Capability.VOLUME_CONDITION: not o.no_stats,
            Capability.EXPAND_VOLUME: not o.no_expand,
            Capability.SINGLE_NODE_MULTI_WRITER: o.single_writer,
            Capability.VOLUME_MOUNT_GROUP: o.mount_group,
        }
        kinds = [kind for kind, has in having.items() if has]
        capabilities = [{"rpc": {"type": kind}} for kind in kinds]
        return pb.NodeGetCapabilitiesResponse(capabilities=capabilities)

    def NodeStageVolume(self, request):  # noqa: N802
        self._check(request, "staging_target_path")
        volume = self._volume(request)
        with self._store.lock:
            self._stage(volume, request.staging_target_path, request.volume_capability)
        return pb.NodeStageVolumeResponse()

    def NodeUnstageVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.staging_target_path, "staging_target_path")
        with self._store.lock:
            unmount(request.staging_target_path)
            detach(self._store.image(request.volume_id))
        return pb.NodeUnstageVolumeResponse()

    def NodePublishVolume(self, request):  # noqa: N802
        self._check(request, "target_path")
        volume = self._volume(request)
        if not self._options.no_stage and not volume.ephemeral:
            wanted(request.staging_target_path, "staging_target_path")
        with self._store.lock:
            self._publish(volume, request)
        return pb.NodePublishVolumeResponse()

    def NodeUnpublishVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.target_path, "target_path")
        with self._store.lock:
            target = request.target_path
            unmount(target)
            if os.path.isdir(target):
                os.rmdir(target)
            elif os.path.lexists(target):
                os.unlink(target)
            volume = self._store.get(request.volume_id)
            if volume is not None and volume.ephemeral:
                self._store.delete(volume.id)
        return pb.NodeUnpublishVolumeResponse()

    def NodeGetVolumeStats(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.volume_path, "volume_path")
        volume = self._known(request.volume_id)
        path = request.volume_path
        if not mounted(path):
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"volume is not at {path}")
        reply = pb.NodeGetVolumeStatsResponse(usage=self._usage(volume, path))
        message = self._control.read().get("conditions", {}).get(volume.id)
        reply.volume_condition.abnormal = message is not None
        reply.volume_condition.message = message or "the volume is well"
        return reply

    def NodeExpandVolume(self, request):  # noqa: N802
        wanted(request.volume_id, "volume_id")
        wanted(request.volume_path, "volume_path")
        with self._store.lock:
            volume = self._known(request.volume_id)
            size = max(volume.capacity, request.capacity_range.required_bytes)
            self._grow(volume, size, request.volume_path)
            volume.capacity = size
            self._store.put(volume)
        return pb.NodeExpandVolumeResponse(capacity_bytes=size)

    # How it is done.

    def _check(self, request, path):
        wanted(request.volume_id, "volume_id")
        wanted(getattr(request, path), path)
        wanted(request.HasField("volume_capability"), "volume_capability")

    def _known(self, ident):
        volume = self._store.get(ident)
        if volume is None:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"there is no volume {ident!r}")
        return volume

    def _volume(self, request):
        ephemeral = request.volume_context.get(EPHEMERAL) == "true"
        if self._store.get(request.volume_id) is None and (
            ephemeral or self._options.create_unknown
        ):
            block = request.volume_capability.HasField("block")
            size = int(request.volume_context.get("size", DEFAULT_BYTES))
            made = Volume(request.volume_id, capacity=size, block=block, ephemeral=ephemeral)
            self._store.put(made)
        return self._known(request.volume_id)

    def _stage(self, volume, path, capability):
        if capability.HasField("block"):
            attach(self._image(volume))
        elif not mounted(path):
            self._mount(volume, path, capability.mount)

    def _publish(self, volume, request):
        target = request.target_path
        if mounted(target):
            return
        staged = not self._options.no_stage and not volume.ephemeral
        if request.volume_capability.HasField("block"):
            source = loop_of(self._image(volume)) if staged else attach(self._image(volume))
            os.close(os.open(target, os.O_CREAT | os.O_RDONLY, 0o660))
            bind(source, target)
            return
        os.makedirs(target, mode=0o750, exist_ok=True)
        flags = tuple(request.volume_capability.mount.mount_flags)
        if staged:
            if not mounted(request.staging_target_path):
                raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "the volume is not staged")
            bind(request.staging_target_path, target, readonly=request.readonly, flags=flags)
        else:
            self._mount(volume, target, request.volume_capability.mount, request.readonly)

    def _mount(self, volume, path, how, readonly=False):
        flags = tuple(how.mount_flags)
        if how.fs_type in OWN_FILE_SYSTEMS:
            image = self._image(volume, how.fs_type)
            options = ",".join(["loop", *(["ro"] if readonly else []), *flags])
            run("mount", "-t", how.fs_type, "-o", options, image, path)
        elif how.fs_type == "tmpfs":
            options = ",".join([f"size={volume.capacity}", *(["ro"] if readonly else []), *flags])
            run("mount", "-t", "tmpfs", "-o", options, f"csi-{volume.id}", path)
        else:
            directory = self._store.directory(volume.id)
            os.makedirs(directory, mode=0o755, exist_ok=True)
            bind(directory, path, readonly=readonly, flags=flags)
        if how.volume_mount_group and not readonly:
            run("chgrp", how.volume_mount_group, path)
            run("chmod", "g+rwxs", path)

    def _image(self, volume, fs_type=""):
        image = self._store.image(volume.id)
        if not os.path.exists(image):
            with open(f"{image}.new", "wb") as file:
                file.truncate(volume.capacity)
            if fs_type:
                run(f"mkfs.{fs_type}", "-q", "-F", f"{image}.new")
            os.replace(f"{image}.new", image)
        return image

    def _grow(self, volume, size, path):
        if file_system(path) == "tmpfs":
            run("mount", "-o", f"remount,size={size}", path)
            return
        image = self._store.image(volume.id)
        if not os.path.exists(image) or os.path.getsize(image) >= size:
            return
        os.truncate(image, size)
        device = loop_of(image)
        if device:
            run("losetup", "--set-capacity", device)
            if not volume.block and _has_ext4(device):
                run("resize2fs", device)

    def _usage(self, volume, path):
        if volume.block:
            return [{"unit": pb.VolumeUsage.BYTES, "total": volume.capacity}]
        found = os.statvfs(path)
        size = found.f_frsize
        return [
            {
                "unit": pb.VolumeUsage.BYTES,
                "total": found.f_blocks * size,
                "available": found.f_bavail * size,
                "used": (found.f_blocks - found.f_bfree) * size,
            },
            {
                "unit": pb.VolumeUsage.INODES,
                "total": found.f_files,
                "available": found.f_ffree,
                "used": found.f_files - found.f_ffree,
            },
        ]


def _has_ext4(device):
    probe = ["blkid", "-o", "value", "-s", "TYPE", device]
    return (
        subprocess.run(probe, capture_output=True, text=True, check=False).stdout.strip() == "ext4"
    )
