"""Where submitted pods are kept over restarts and reboots: a file for each, never half of one.

A write is a new file, flushed, that takes the old one's name, and the directory flushed after it:
whoever is killed, and whatever loses its power, leaves the old version or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Final

from kubelet.api import codec
from kubelet.api.pod import Pod

_SUFFIX: Final = ".json"
_HALF: Final = ".half"  # a write that was broken off


class StoreError(Exception):
    """A pod could not be kept; says why."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the store: its pod, or what is wrong with it."""

    path: str
    uid: str
    pod: Pod | None
    problem: str = ""


class Store:
    """A directory of pods."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def load(self) -> list[Stored]:
        """Return what is kept; a broken file is said and left as it is."""
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return []
        except OSError as err:
            raise StoreError(f"{self._directory}: cannot be read: {err.strerror}") from None
        self._clear(names)
        return [self._load(name) for name in names if name.endswith(_SUFFIX)]

    def _clear(self, names: list[str]) -> None:
        for name in names:
            if name.endswith(_HALF):
                with contextlib.suppress(OSError):  # it is in nobody's way
                    os.unlink(os.path.join(self._directory, name))

    def _load(self, name: str) -> Stored:
        path = os.path.join(self._directory, name)
        uid = name.removesuffix(_SUFFIX)
        try:
            with open(path, "rb") as file:
                pod, _ = codec.decode(Pod, json.loads(file.read()))
        except (OSError, ValueError, RecursionError) as err:
            reason = err.strerror if isinstance(err, OSError) else str(err)
            return Stored(path, uid, None, f"{path}: cannot be read: {reason}")
        if pod.uid != uid:
            problem = f"{path}: metadata.uid: Invalid value: {pod.uid!r}: must be {uid!r}"
            return Stored(path, uid, None, problem)
        return Stored(path, uid, pod)

    def put(self, pod: Pod) -> None:
        """Keep a pod; StoreError if that was not possible, and then the old version stays."""
        data = json.dumps(codec.encode(pod), separators=(",", ":")).encode()
        try:
            self._make()
            self._write(self._path(pod.uid), data)
        except OSError as err:
            where = self._path(pod.uid)
            raise StoreError(f"pod {pod} cannot be kept in {where}: {err.strerror}") from None

    def drop(self, uid: str) -> None:
        """Keep a pod no more."""
        try:
            os.unlink(self._path(uid))
        except FileNotFoundError:
            return
        except OSError as err:
            raise StoreError(f"{self._path(uid)} cannot be removed: {err.strerror}") from None
        self._flush()

    def _path(self, uid: str) -> str:
        return os.path.join(self._directory, uid + _SUFFIX)

    def _make(self) -> None:
        if not os.path.isdir(self._directory):
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            _flush(os.path.dirname(self._directory))

    def _write(self, path: str, data: bytes) -> None:
        half = path + _HALF
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            while data:
                data = data[os.write(fd, data) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(half, path)
        self._flush()

    def _flush(self) -> None:
        _flush(self._directory)


def _flush(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
