"""The images of the node as its status lists them (N-18)."""

from __future__ import annotations

import asyncio

import pytest

from kubelet.channels.errors import HandlerError
from kubelet.channels.messages import ListImages, NodeImage, NodeImages
from kubelet.cri import api_pb2 as pb
from kubelet.cri.errors import Code, CriError
from procs.syncloop.images.listing import Listing, largest

SMALL = pb.Image(id="s", repo_tags=["s:1"], size=1)
LARGE = pb.Image(id="l", repo_tags=["l:1", "l:2"], repo_digests=["l@sha256:1"], size=9)
NAMELESS = pb.Image(id="n", size=5)


@pytest.mark.parametrize(
    ("limit", "sizes"), [(-1, [9, 5, 1]), (50, [9, 5, 1]), (2, [9, 5]), (0, [])]
)
def test_the_largest_come_first(limit, sizes):
    """N-18: so many of them; all if there is no limit."""
    found = largest([SMALL, LARGE, NAMELESS], limit)
    assert [image.size for image in found] == sizes


def test_digests_come_before_tags_and_five_names_are_enough():
    """N-18."""
    assert largest([LARGE], -1) == (NodeImage(("l@sha256:1", "l:1", "l:2"), 9),)
    many = pb.Image(repo_digests=["d1", "d2", "d3"], repo_tags=["t1", "t2", "t3"], size=1)
    assert largest([many], -1)[0].names == ("d1", "d2", "d3", "t1", "t2")


def test_the_same_images_make_the_same_list():
    """Images of one size keep their order whatever the runtime's is: it would be news each time."""
    twins = [pb.Image(repo_tags=[name], size=3) for name in ("b", "a", "c")]
    assert largest(twins, -1) == largest(reversed(twins), -1)


class Client:
    """A runtime with these images, or with a failure."""

    def __init__(self, answer):
        self._answer = answer

    async def list_images(self):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_the_request_is_answered():
    """What the runtime has, or why nobody knows: an expected failure that ends nothing."""
    answer = asyncio.run(Listing(Client([SMALL])).answer(ListImages(), None))
    assert answer == NodeImages((NodeImage(("s:1",), 1),))
    broken = Client(CriError(Code.UNAVAILABLE, "no socket", "ListImages"))
    with pytest.raises(HandlerError, match="no socket"):
        asyncio.run(Listing(broken).answer(ListImages(), None))
