"""What this node remembers of its pulls, in files below ``image_manager`` (I-29).

An *intent* stands for a pull from before it begins until its end is known; a *pulled record* says
with whose credentials an image came. An image with neither was put there by somebody else.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from kubelet import logging as klog
from kubelet import times
from kubelet.api import codec
from procs.syncloop.images.verify import Known, Proofs, PulledRecord, merged

log = klog.get_logger(__name__)

GROUP: Final = "kubelet.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1beta1"
INTENT: Final = "ImagePullIntent"
PULLED: Final = "ImagePulledRecord"
_READABLE: Final = (API_VERSION, f"{GROUP}/v1alpha1")  # the older one has the same fields
_FILE: Final = "sha256-"
_PARTIAL: Final = ".tmp"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PullIntent:
    """``ImagePullIntent``."""

    api_version: str = ""
    kind: str = ""
    image: str = ""


class RecordError(Exception):
    """A record could not be written; says which and why."""


class Records:
    """The files. Every method may wait for the disk: it is for a thread that may wait."""

    def __init__(self, root_dir: str, clock: Callable[[], int]) -> None:
        self._pulling = os.path.join(root_dir, "image_manager", "pulling")
        self._pulled = os.path.join(root_dir, "image_manager", "pulled")
        self._clock = clock  # wall
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()  # pulls of an image that have not ended

    def known(self, image: str, ref: str) -> Known:
        """Return what is remembered about an image; what cannot be read proves nothing."""
        with self._lock:
            path = _path(self._pulled, ref)
            if os.path.exists(path):
                return Known(by_us=True, record=_load(path, PulledRecord, PULLED))
            return Known(by_us=os.path.exists(_path(self._pulling, image)))

    def begin(self, image: str) -> None:
        """Note that an image is about to be pulled; RecordError when that cannot be noted."""
        with self._lock:
            path = _path(self._pulling, image)
            if not os.path.exists(path):
                _store(path, PullIntent(API_VERSION, INTENT, image))
            self._under_way[image] += 1

    def done(self, image: str, ref: str, repository: str, proofs: Proofs) -> None:
        """Note who pulled an image; RecordError when that cannot be noted."""
        with self._lock:
            noted = False
            try:
                self._add(ref, repository, proofs)
                noted = True
            finally:
                self._end(image, forget=noted)

    def failed(self, image: str, *, unsure: bool) -> None:
        """Note that a pull came to nothing; ``unsure`` is one that the runtime may yet finish.

        The intent of such a one stays: an image without any record is taken for a preloaded one,
        which any pod may use.
        """
        with self._lock:
            self._end(image, forget=not unsure)

    def learn(self, ref: str, repository: str, proofs: Proofs) -> None:
        """Add a proof to the record of an image; RecordError when that cannot be noted."""
        with self._lock:
            self._add(ref, repository, proofs)

    def prune(self, refs: Collection[str], before_ns: int) -> int:
        """Remove the records of images that are gone, but for those written since; how many."""
        keep = {os.path.basename(_path(self._pulled, ref)) for ref in refs}
        removed = 0
        with self._lock:
            for name in sorted(set(_listed(self._pulled)) - keep):
                path = os.path.join(self._pulled, name)
                if os.stat(path).st_mtime_ns < before_ns:
                    removed += _remove(path)
        return removed

    def _add(self, ref: str, repository: str, proofs: Proofs) -> None:
        path = _path(self._pulled, ref)
        old = _load(path, PulledRecord, PULLED) if os.path.exists(path) else None
        record = old or PulledRecord(image_ref=ref)
        mapping = dict(record.credential_mapping)
        mapping[repository] = merged(mapping.get(repository), proofs)
        now = times.to_text(self._clock())
        _store(path, PulledRecord(API_VERSION, PULLED, now, ref, mapping))

    def _end(self, image: str, *, forget: bool) -> None:
        """Count a pull as ended; the last one takes the intent away."""
        self._under_way[image] -= 1
        if self._under_way[image] > 0:
            return
        del self._under_way[image]
        if forget:
            _remove(_path(self._pulling, image))


def _path(directory: str, name: str) -> str:
    return os.path.join(directory, _FILE + hashlib.sha256(name.encode()).hexdigest())


def _remove(path: str) -> bool:
    """Remove a record; one that stays only makes a pod prove its right once more."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as err:
        log.error("Record of an image pull cannot be removed", path=path, err=err)
        return False
    return True


def _listed(directory: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if not name.endswith(_PARTIAL)]
    except FileNotFoundError:
        return []


def _load(path: str, cls: type[_T], kind: str) -> _T | None:
    """Read a record; None, and a line in the log, for what is not one."""
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
        if not isinstance(document, dict) or document.get("kind") != kind:
            raise ValueError(f"it is no {kind}")
        if document.get("apiVersion") not in _READABLE:
            raise ValueError(f"apiVersion {document.get('apiVersion')!r} is not known")
        return codec.read(cls, document)
    except (OSError, ValueError, RecursionError) as err:
        log.warning("Record of an image pull cannot be used", path=path, err=err)
        return None


def _store(path: str, record: PullIntent | PulledRecord) -> None:
    """Write a record so that a reader finds the old or the new one, after a crash too."""
    partial = f"{path}{_PARTIAL}"
    try:
        _directory(os.path.dirname(path))
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(json.dumps(codec.encode(record)).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as err:
        with suppress(OSError):
            os.unlink(partial)
        why = f"{record.kind} {path} cannot be written: {err.strerror or err}"
        raise RecordError(why) from None


def _directory(path: str) -> None:
    """Make a directory that is root's alone, with the one above it."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    os.makedirs(os.path.dirname(above), exist_ok=True)
    for each in (above, path):
        with suppress(FileExistsError):
            os.mkdir(each, 0o700)
