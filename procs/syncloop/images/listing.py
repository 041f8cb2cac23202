"""Which images the node has, as its status lists them (N-18)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubelet.channels.errors import HandlerError
from kubelet.channels.messages import ListImages, NodeImage, NodeImages
from kubelet.channels.server import Caller
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import ImageClient
from kubelet.cri.errors import CriError

_NAMES: Final = 5


def largest(images: Iterable[pb.Image], limit: int) -> tuple[NodeImage, ...]:
    """Return the largest images, at most ``limit`` of them, all if that is -1; digests first."""
    found = [
        NodeImage((*image.repo_digests, *image.repo_tags)[:_NAMES], image.size) for image in images
    ]
    found.sort(key=lambda image: (-image.size, image.names))
    return tuple(found if limit < 0 else found[:limit])


class Listing:
    """Answers the question."""

    def __init__(self, client: ImageClient) -> None:
        self._client = client

    async def answer(self, request: ListImages, _caller: Caller) -> NodeImages:
        """Ask the runtime."""
        try:
            found = await self._client.list_images()
        except CriError as err:
            raise HandlerError(str(err)) from None
        return NodeImages(largest(found, request.limit))
