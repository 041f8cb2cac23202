"""The image service, which may have an endpoint of its own."""

from __future__ import annotations

from typing import ClassVar

from kubelet.cri import api_pb2 as pb
from kubelet.cri.service import Service, required


class ImageClient(Service):
    """Images: list, look, pull, remove, and the disk that they lie on."""

    SERVICE: ClassVar[str] = "ImageService"

    async def list_images(
        self,
        filter: pb.ImageFilter | None = None,  # noqa: A002 - the field's name
    ) -> list[pb.Image]:
        """Every image, or those that the filter lets through."""
        request = pb.ListImagesRequest(filter=filter)
        return list((await self._call("ListImages", request, pb.ListImagesResponse)).images)

    async def stream_images(
        self,
        filter: pb.ImageFilter | None = None,  # noqa: A002 - as above
    ) -> list[pb.Image]:
        """The same in parts, so that no list is too long for a message; or else in one."""
        request = pb.StreamImagesRequest(filter=filter)
        parts = await self._streamed("StreamImages", request, pb.StreamImagesResponse)
        if parts is None:
            return await self.list_images(filter)
        return [image for part in parts for image in part.images]

    async def image_status(
        self, image: pb.ImageSpec, *, verbose: bool = False
    ) -> pb.ImageStatusResponse:
        """Look for an image; one that is not there leaves ``image`` unset, and is no error."""
        request = pb.ImageStatusRequest(image=image, verbose=verbose)
        name, about = "ImageStatus", image.image
        answer = await self._call(name, request, pb.ImageStatusResponse, about)
        if answer.HasField("image"):
            required(answer.image.id, "image.id", name, about)
        return answer

    async def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> str:
        """Fetch an image, however long it takes; what it is to be called by from now on."""
        request = pb.PullImageRequest(image=image, auth=auth, sandbox_config=sandbox_config)
        name, about = "PullImage", image.image
        answer = await self._call(name, request, pb.PullImageResponse, about)
        return required(answer.image_ref, "image_ref", name, about)

    async def remove_image(self, image: pb.ImageSpec) -> bool:
        """Remove an image; False when there is none."""
        request = pb.RemoveImageRequest(image=image)
        return await self._gone("RemoveImage", request, pb.RemoveImageResponse, image.image)

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        """How full the filesystems of images and of containers are."""
        request = pb.ImageFsInfoRequest()
        return await self._call("ImageFsInfo", request, pb.ImageFsInfoResponse)
