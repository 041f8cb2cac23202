"""The volumes of the driver, as files: what it knows survives its own death."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from dataclasses import asdict, dataclass, field

DEFAULT_BYTES = 64 << 20
TOTAL_BYTES = 1 << 40


@dataclass
class Volume:
    """A volume; ``attached`` is node -> readonly."""

    id: str
    name: str = ""
    capacity: int = DEFAULT_BYTES
    block: bool = False
    context: dict = field(default_factory=dict)
    attached: dict = field(default_factory=dict)
    ephemeral: bool = False


class Store:
    """Volumes by id, in one directory: a description and what is stored for each."""

    def __init__(self, state):
        self._directory = os.path.join(state, "volumes")
        os.makedirs(self._directory, exist_ok=True)
        self.lock = threading.RLock()

    def _file(self, ident, ending):
        # An id may be anything that an API object may hold: it is no file name.
        return os.path.join(
            self._directory, hashlib.sha256(ident.encode()).hexdigest()[:24] + ending
        )

    def directory(self, ident):
        """Where the files of a volume are."""
        return self._file(ident, ".data")

    def image(self, ident):
        """Where the content of a block volume or of a file system of its own is."""
        return self._file(ident, ".img")

    def get(self, ident):
        try:
            with open(self._file(ident, ".json"), encoding="utf-8") as file:
                return Volume(**json.load(file))
        except FileNotFoundError:
            return None

    def put(self, volume):
        path = self._file(volume.id, ".json")
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(asdict(volume), file)
        os.replace(f"{path}.new", path)

    def delete(self, ident):
        shutil.rmtree(self.directory(ident), ignore_errors=True)
        for ending in (".img", ".json"):
            path = self._file(ident, ending)
            if os.path.exists(path):
                os.unlink(path)

    def all(self):
        found = []
        for name in sorted(os.listdir(self._directory)):
            if name.endswith(".json"):
                with open(os.path.join(self._directory, name), encoding="utf-8") as file:
                    found.append(Volume(**json.load(file)))
        return found
