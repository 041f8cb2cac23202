"""Reads VolumeAttachments for whoever mounts (L-17, L-44)."""

from __future__ import annotations

from typing import Final

from kubelet.channels.messages import Attachment, GetAttachment
from kubelet.channels.server import Caller
from kubelet.cluster.names import possible
from kubelet.config.errors import one_line
from procs.node.apiserver.types import ApiError, Json
from procs.node.kit import Kit
from procs.node.nodeobject import odd

COLLECTION: Final = "/apis/storage.k8s.io/v1/volumeattachments"


class Attachments:
    """Answers what the API server has of an attachment.

    A node may read those that name it. Of one that is not there the API server says mostly that
    the node has no right to it, which is no other answer: it may come, and is asked for again.
    """

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def start(self) -> None:
        """Answer from now on."""
        self._kit.process.channels.handle(GetAttachment, self._get)

    async def _get(self, request: GetAttachment, _caller: Caller) -> Attachment:
        if not possible(request.name):
            return Attachment(False, error=f"name: {request.name[:80]!r} is no VolumeAttachment's")
        try:
            found = await self._kit.api.get(f"{COLLECTION}/{request.name}")
        except ApiError as err:
            return Attachment(False, error="" if err.not_found else one_line(str(err)))
        return attachment_of(found)


def attachment_of(item: Json) -> Attachment:
    """Return what an attachment's status says; what is odd in it is as if it were not there."""
    status = odd.part(item, "status")
    failed = odd.part(status, "attachError")
    code = failed.get("errorCode")
    metadata = odd.part(status, "attachmentMetadata")
    return Attachment(
        True,
        attached=status.get("attached") is True,
        metadata={key: text for key, text in metadata.items() if isinstance(text, str)},
        attach_error=one_line(odd.text(failed, "message")),
        attach_code=code if isinstance(code, int) and not isinstance(code, bool) else 0,
    )
