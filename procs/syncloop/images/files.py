"""The node's own docker configuration, found where kubelets look for it (I-22)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kubelet import logging as klog
from procs.syncloop.images.keyring import BadDockerConfigError, DockerConfig, parse_config

log = klog.get_logger(__name__)

CONFIG: Final = "config.json"
LEGACY: Final = ".dockercfg"
_MAX_BYTES: Final = 4 << 20

Stamp = tuple[int, int, int]  # of a file: when it changed, its size, which one it is


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may hold the configuration."""

    path: str
    legacy: bool


def search_paths(root_dir: str, cwd: str, home: str) -> tuple[Candidate, ...]:
    """Return where the configuration may be, best place first; an empty home is none."""
    in_home = [os.path.join(home, ".docker")] if home else []
    new = [root_dir, cwd, *in_home, "/.docker"]
    old = [root_dir, cwd, *([home] if home else []), "/"]
    paths = [Candidate(os.path.join(where, CONFIG), legacy=False) for where in new]
    paths += [Candidate(os.path.join(where, LEGACY), legacy=True) for where in old]
    return tuple(dict.fromkeys(paths))


@dataclass(slots=True)
class _Known:
    """What a file held when it had this stamp; None is something that cannot be used."""

    stamp: Stamp
    config: DockerConfig | None


@dataclass(slots=True)
class NodeConfig:
    """Reads the first usable file; a file is read again when it has changed."""

    candidates: tuple[Candidate, ...]
    _known: dict[str, _Known] = field(default_factory=dict)

    @classmethod
    def of(cls, root_dir: str, environ: Mapping[str, str] = os.environ) -> NodeConfig:
        """Look in the places of this process."""
        return cls(search_paths(root_dir, os.getcwd(), environ.get("HOME", "")))

    def load(self) -> DockerConfig:
        """Return the configuration; empty where there is none."""
        for candidate in self.candidates:
            config = self._load(candidate)
            if config is not None:
                return config
        return {}

    def _load(self, candidate: Candidate) -> DockerConfig | None:
        try:
            found = os.stat(candidate.path)
        except OSError:
            self._known.pop(candidate.path, None)
            return None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._known.get(candidate.path)
        if known is None or known.stamp != stamp:
            known = _Known(stamp, _read(candidate))
            self._known[candidate.path] = known
        return known.config


def _read(candidate: Candidate) -> DockerConfig | None:
    """Read one file; one that cannot be used is said once, and passed over."""
    try:
        with open(candidate.path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise BadDockerConfigError(f"it has more than {_MAX_BYTES} bytes")
        return parse_config(data, legacy=candidate.legacy)
    except (OSError, BadDockerConfigError) as err:
        log.warning("Docker configuration cannot be used", path=candidate.path, err=err)
        return None
