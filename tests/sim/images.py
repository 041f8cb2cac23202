"""Images: what can be pulled, how long it takes, and what is there. Pure.

Every reference can be pulled. Its content is named by its path and tag without the registry's host,
so the same path from two registries is the same image, as with a mirror. The catalogue adds what a
name alone does not say: a user, a program, one content for several tags.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kubelet.cri import api_pb2 as pb

from .model import SimError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Picture:
    """What the registry has under the names that match: sizes, times, errors and contents."""

    size: int = 0  # 0: made up from the name
    pull_seconds: float = 0.05
    error: str = ""
    code: str = "UNKNOWN"
    content: str = ""  # the same content is the same image
    uid: int | None = None
    username: str = ""
    program: str = ""
    need_auth: bool = False


CATALOGUE: tuple[tuple[str, Picture], ...] = (
    (r"(^|/)nginx(-slim)?[:@]", Picture(program="listen 80; echo nginx; run")),
    (r"(^|/)hostnet-nginx-\w+:", Picture(program="listen 12003; run")),
    (r"(^|/)httpd:", Picture(program="listen 80; echo httpd: configured; run")),
    (r"/test-image-tags:", Picture(content="test-image-tags")),
    (r"/test-image-user-uid:", Picture(uid=1002)),
    (r"/test-image-user-username:", Picture(username="www-data")),
    (r"/test-image-user-uid-group:", Picture(uid=1003)),
    (r"/test-image-user-username-group:", Picture(username="www-data")),
    (r"/test-image-predefined-group:", Picture(uid=1000)),
    (
        r"(^|/)sim/pull-error:",
        Picture(error="failed to resolve reference: not found", code="NOT_FOUND"),
    ),
    (r"(^|/)sim/private:", Picture(need_auth=True)),
)


@dataclass(slots=True)
class Image:
    """An image that is there."""

    id: str
    size: int
    tags: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    pinned: bool = False
    uid: int | None = None
    username: str = ""
    program: str = ""

    def message(self) -> pb.Image:
        """The image as CRI shows it."""
        message = pb.Image(id=self.id, size=self.size, username=self.username, pinned=self.pinned)
        message.repo_tags.extend(self.tags)
        message.repo_digests.extend(self.digests)
        if self.uid is not None or not self.username:
            message.uid.value = self.uid or 0
        return message


def split_reference(reference: str) -> tuple[str, str, str]:
    """Repository, tag and digest of a reference; tag and digest may be empty."""
    rest, _, digest = reference.partition("@")
    head, _, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    return (f"{head}/{last}" if head else last), tag, digest


def canonical(reference: str) -> str:
    """A reference with a host and a tag, as runtimes keep them."""
    path, tag, digest = split_reference(reference)
    host = path.split("/")[0]
    if "/" not in path:
        path = f"docker.io/library/{path}"
    elif "." not in host and ":" not in host and host != "localhost":
        path = f"docker.io/{path}"
    if digest:
        return f"{path}@{digest}"
    return f"{path}:{tag or 'latest'}"


class Images:
    """The images that are there, and what the registry would give."""

    def __init__(self) -> None:
        self.images: dict[str, Image] = {}
        self._pictures: list[tuple[str, Picture]] = list(CATALOGUE)

    def set(self, pattern: str, **changes: Any) -> None:
        """Say what the registry has under the names that a pattern matches."""
        known = dict(self._pictures).get(pattern, Picture())
        self._pictures = [row for row in self._pictures if row[0] != pattern]
        self._pictures.insert(0, (pattern, replace(known, **changes)))

    def picture(self, reference: str) -> Picture:
        """What the registry has under a name."""
        name = canonical(reference)
        for pattern, picture in self._pictures:
            if re.search(pattern, name):
                return picture
        return Picture()

    def pull(self, reference: str, *, authenticated: bool = False) -> Image:
        """Have the image; ``SimError`` when the registry refuses."""
        if not reference:
            raise SimError("INVALID_ARGUMENT", "image reference is empty")
        picture = self.picture(reference)
        name = canonical(reference)
        if picture.need_auth and not authenticated:
            raise SimError("UNKNOWN", f'failed to pull and unpack image "{name}": 401 Unauthorized')
        if picture.error:
            raise SimError(
                picture.code, f'failed to pull and unpack image "{name}": {picture.error}'
            )
        path, tag, digest = split_reference(name)
        content = picture.content or f"{path.partition('/')[2]}:{tag or digest}"
        seed = hashlib.sha256(content.encode())
        image = self.images.setdefault(f"sha256:{seed.hexdigest()}", _fresh(seed, picture))
        manifest = digest or "sha256:" + hashlib.sha256(seed.digest()).hexdigest()
        _once(image.digests, f"{path}@{manifest}")
        if not digest:
            _once(image.tags, name)
        return image

    def find(self, reference: str) -> Image | None:
        """The image with this ID, tag or digest."""
        if not reference:
            return None
        found = self.images.get(reference) or self.images.get(f"sha256:{reference}")
        if found is None:
            name = canonical(reference)
            for image in self.images.values():
                if name in image.tags or name in image.digests:
                    return image
        return found

    def remove(self, reference: str) -> None:
        """Take an image away with all its names; one that is not there is no error."""
        image = self.find(reference)
        if image is not None:
            del self.images[image.id]

    def used_bytes(self) -> int:
        """What the images take."""
        return sum(image.size for image in self.images.values())

    def records(self) -> Iterator[dict[str, Any]]:
        """The images for the state file."""
        for image in self.images.values():
            yield {"image": asdict(image)}

    def load(self, records: list[dict[str, Any]]) -> None:
        """Take the images of an earlier life."""
        for record in records:
            if "image" in record:
                image = Image(**record["image"])
                self.images[image.id] = image


def _fresh(seed: Any, picture: Picture) -> Image:
    size = picture.size or (1 + seed.digest()[0]) * MIB
    identity = f"sha256:{seed.hexdigest()}"
    made = Image(identity, size, uid=picture.uid, username=picture.username)
    made.program = picture.program
    return made


def _once(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)
