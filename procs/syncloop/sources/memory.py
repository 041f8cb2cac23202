"""What a predecessor left: which pod came from where, for as long as the node is up.

The pods themselves are in table ``pods``. Which manifest each came from is in a small file in the
run directory, and matters in two cases only: a manifest that is broken at this very start, and
two that claim one name. Whoever loses the file loses no more than that.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubelet import logging as klog
from kubelet.api.codec import DecodeError
from kubelet.api.pod import Pod
from kubelet.pods.rows import API, LOCAL, PODS, PodRow, WorkerState
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.syncloop.sources.changes import SEEN, Candidate
from procs.syncloop.sources.local import origin as local_origin
from procs.syncloop.sources.merge import Holder

log = klog.get_logger(__name__)

Origins = dict[str, dict[str, str]]  # source -> origin -> uid


@dataclass(frozen=True, slots=True)
class Past:
    """The pods of a predecessor that were not on their way out, by source and uid."""

    pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    moments: Mapping[str, str] = field(default_factory=dict)  # when each pod was first seen

    def good(self, source: str) -> dict[str, Pod]:
        """Return the last good version of each manifest of a source."""
        pods = self.pods.get(source, {})
        origins = self.origins.get(source, {})
        return {origin: pods[uid] for origin, uid in origins.items() if uid in pods}

    def holders(self, sources: Iterable[str]) -> dict[str, Holder]:
        """Return who had which name."""
        found: dict[str, Holder] = {}
        for source in sources:
            good = self.good(source)
            if source == LOCAL:
                good = {local_origin(pod): pod for pod in self.pods.get(LOCAL, {}).values()}
            for origin, pod in good.items():
                found[pod.full_name] = (source, origin)
        return found

    def seen(self) -> dict[str, str]:
        """Return when each pod was first seen, as its annotation says."""
        return dict(self.moments)


class Memory:
    """The file, and the table."""

    def __init__(self, process: Process, path: str) -> None:
        self._process = process
        self._path = path
        self._written: Origins = {}

    def recall(self) -> Past:
        """Return what a predecessor left; nothing at the first start after a boot."""
        pods: dict[str, dict[str, Pod]] = {}
        moments: dict[str, str] = {}
        for _, value in self._process.tables.items(PODS):
            try:
                row = PodRow.from_wire(value)
                if row.document:
                    moments[row.uid] = row.pod.metadata.annotations.get(SEEN, "")
                if row.document and row.state is WorkerState.SYNC:
                    pods.setdefault(row.source, {})[row.uid] = row.pod
            except (BadRecordError, DecodeError, ValueError) as err:
                log.v(1, "A row of a predecessor cannot be read", err=err)
        self._written = self._read()
        return Past(pods, self._written, moments)

    def _read(self) -> Origins:
        try:
            with open(self._path, "rb") as file:
                return _origins(json.loads(file.read()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as err:
            log.warning("Origins of static pods are forgotten", path=self._path, err=err)
            return {}

    def note(self, chosen: Iterable[Candidate], silent: Collection[str]) -> None:
        """Keep where the static pods came from; of ``silent`` sources it is as it was."""
        origins: Origins = {s: of for s, of in self._written.items() if s in silent}
        for one in chosen:
            if one.source not in (LOCAL, API):
                origins.setdefault(one.source, {})[one.origin] = one.pod.uid
        if origins == self._written:
            return
        half = self._path + ".half"
        try:
            with open(half, "w", encoding="ascii") as file:
                json.dump(origins, file)
            os.replace(half, self._path)
        except OSError as err:
            log.error("Origins of static pods cannot be kept", path=self._path, err=err)
            with contextlib.suppress(OSError):
                os.unlink(half)
            return
        self._written = origins


def _origins(value: Any) -> Origins:
    """Return a document of ours; ValueError if it is anything else."""
    if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
        raise ValueError("is no map of sources")
    return {
        source: {origin: uid for origin, uid in of.items() if isinstance(uid, str)}
        for source, of in value.items()
    }
