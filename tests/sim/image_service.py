"""ImageService: each RPC."""
# ruff: noqa: N802 - each method has the name of its RPC

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

from kubelet.cri import api_pb2 as pb

from .engine import Engine
from .images import Image


class ImageService:
    """The answers of ImageService, one method for each RPC, named as the RPC."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._images = engine.images

    async def ListImages(self, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
        return pb.ListImagesResponse(images=self._list(request.filter))

    async def StreamImages(
        self, request: pb.StreamImagesRequest
    ) -> AsyncIterator[pb.StreamImagesResponse]:
        yield pb.StreamImagesResponse(images=self._list(request.filter))

    async def ImageStatus(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        image = self._images.find(request.image.image)
        answer = pb.ImageStatusResponse()
        if image is not None:
            answer.image.CopyFrom(image.message())
            if request.verbose:
                answer.info["info"] = json.dumps({"chainID": image.id, "imageSpec": {}})
        return answer

    async def PullImage(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        given = request.HasField("auth") and request.auth.ByteSize() > 0
        image = await self._engine.pull(request.image.image, authenticated=given)
        return pb.PullImageResponse(image_ref=image.id)

    async def RemoveImage(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        self._images.remove(request.image.image)
        self._engine.changed()
        return pb.RemoveImageResponse()

    async def ImageFsInfo(self, _request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
        answer = pb.ImageFsInfoResponse()
        containers = len(self._engine.world.containers)
        for usage, size, inodes in (
            (
                answer.image_filesystems.add(),
                self._images.used_bytes(),
                len(self._images.images) * 100,
            ),
            (answer.container_filesystems.add(), containers * 4096 * 8, containers * 8),
        ):
            usage.timestamp = time.time_ns()
            usage.fs_id.mountpoint = self._engine.settings.mountpoint
            usage.used_bytes.value = size
            usage.inodes_used.value = inodes
        return answer

    def _list(self, wanted: pb.ImageFilter) -> list[pb.Image]:
        if wanted.image.image:
            found: list[Image | None] = [self._images.find(wanted.image.image)]
        else:
            found = list(self._images.images.values())
        return [image.message() for image in found if image is not None]
