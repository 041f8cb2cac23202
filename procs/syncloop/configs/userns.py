"""Users of their own for pods with ``hostUsers: false`` (N-64).

Each such pod gets a block of the node's user and group ids. Which one is written into the pod's
directory, in the form that every kubelet knows, before any container has it: what runs there is
told apart from other pods by nothing else.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kubelet.api.pod import Pod
from kubelet.cri import api_pb2 as pb
from kubelet.pods.runtime import Handler
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.site import Site

FILE: Final = "userns"
_USER: Final = "kubelet"
_TOOL: Final = "getsubids"
_ALL_IDS: Final = 1 << 32
_FILE_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Range:
    """Ids that may be given to pods."""

    first: int
    count: int


# Returns the ids of the node's user "kubelet"; None: there is no such rule here.
ReadRange = Callable[[], Range | None]


def subordinate_ids() -> Range | None:
    """Ask the system which ids the user ``kubelet`` may give away; ConfigError: it is unclear."""
    with suppress(KeyError):
        pwd.getpwnam(_USER)
        if shutil.which(_TOOL):
            return _agreed(_ask(), _ask("-g"))
    return None


def _ask(*options: str) -> str:
    command = [_TOOL, *options, _USER]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise ConfigError(f"{' '.join(command)} failed: {err}", SANDBOX) from None
    return done.stdout if done.returncode == 0 else ""


def _agreed(users: str, groups: str) -> Range | None:
    """Read lines of the form ``0: kubelet 65536 7208960``: one range, the same for both."""
    if not users.strip() and not groups.strip():
        return None  # the user is there for something else
    if users != groups or len(users.splitlines()) != 1:
        raise ConfigError(
            f"user {_USER} must have one range of subordinate ids, the same in /etc/subuid and "
            "/etc/subgid",
            SANDBOX,
        )
    words = users.split()
    if len(words) != 4 or not (words[2].isdecimal() and words[3].isdecimal()):
        raise ConfigError(f"{_TOOL} {_USER} answers {users.strip()!r}, which is no range", SANDBOX)
    return Range(int(words[2]), int(words[3]))


class UserNamespaces:
    """Gives blocks of ids to pods, and remembers them on the disk."""

    def __init__(
        self, site: Site, ids_per_pod: int, read_range: ReadRange = subordinate_ids
    ) -> None:
        self._site = site
        self._size = ids_per_pod
        self._read_range = read_range
        self._blocks: dict[str, tuple[int, int]] = {}  # uid -> first and count of its ids
        self._loaded = False

    def mappings(self, pod: Pod, handler: Handler | None) -> pb.UserNamespace | None:
        """Return the users of a pod; None: it says nothing about them and has the node's."""
        if pod.spec.host_users is None:
            return None
        if pod.spec.host_users:
            return pb.UserNamespace(mode=pb.NODE)
        if handler is None or not handler.user_namespaces:
            name = handler.name if handler is not None else ""
            raise ConfigError(f'runtime handler "{name}" does not support user namespaces', SANDBOX)
        self._load()
        if pod.uid not in self._blocks:
            block = (self._free(), self._size)
            self._write(pod.uid, block)
            self._blocks[pod.uid] = block
        first, count = self._blocks[pod.uid]
        ids = [pb.IDMapping(host_id=first, container_id=0, length=count)]
        return pb.UserNamespace(mode=pb.POD, uids=ids, gids=ids)

    def release(self, uid: str) -> None:
        """Take the ids of a pod back, of which nothing is left."""
        self._blocks.pop(uid, None)
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(f"{self._site.pod_dir(uid)}/{FILE}")

    def _load(self) -> None:
        """Read what pods were given before; what cannot be read is never given to another."""
        if self._loaded:
            return
        with suppress(FileNotFoundError):
            for uid in os.listdir(f"{self._site.root_dir}/pods"):
                block = self._read(uid)
                if block is not None:
                    self._blocks[uid] = block
        self._loaded = True

    def _free(self) -> int:
        """Return the first id of the lowest block that touches no other's."""
        ids = self._read_range() or Range(self._size, _ALL_IDS - self._size)
        if ids.first % self._size or ids.first < self._size:
            raise ConfigError(
                f"subordinate ids of user {_USER} begin at {ids.first}, which must be a multiple "
                f"of {self._size}",
                SANDBOX,
            )
        taken = sorted(self._blocks.values())
        first = ids.first
        for start, count in taken:
            if first + self._size <= start:
                break
            if start + count > first:
                first = -(-(start + count) // self._size) * self._size
        if first + self._size > min(ids.first + ids.count, _ALL_IDS):
            raise ConfigError("no block of user ids is left for a user namespace", SANDBOX)
        return first

    def _read(self, uid: str) -> tuple[int, int] | None:
        path = f"{self._site.pod_dir(uid)}/{FILE}"
        try:
            with open(path, encoding="utf-8") as file:
                return _block(json.loads(file.read(_FILE_LIMIT)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, KeyError, IndexError) as err:
            message = f"cannot read the user ids of a pod from {path}: {err!r}"
            raise ConfigError(message, SANDBOX) from None

    def _write(self, uid: str, block: tuple[int, int]) -> None:
        """Write before use, and so that it is there after a crash."""
        mapping = [{"hostId": block[0], "containerId": 0, "length": block[1]}]
        directory = self._site.pod_dir(uid)
        os.makedirs(directory, mode=0o750, exist_ok=True)
        new = f"{directory}/{FILE}.new"
        try:
            with open(new, "w", encoding="utf-8") as file:
                json.dump({"uidMappings": mapping, "gidMappings": mapping}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, f"{directory}/{FILE}")
        except OSError as err:
            message = f"cannot write the user ids of a pod to {directory}/{FILE}: {err.strerror}"
            raise ConfigError(message, SANDBOX) from None


def _block(document: Any) -> tuple[int, int]:
    """Return the block in a pod's file; one that is not of our making is an error."""
    (users,), (groups,) = document["uidMappings"], document["gidMappings"]
    if users != groups or users["containerId"] != 0:
        raise ValueError("user and group ids differ, or do not begin at 0")
    first, count = users["hostId"], users["length"]
    if not (isinstance(first, int) and isinstance(count, int) and first > 0 and count > 0):
        raise ValueError("hostId and length must be numbers above 0")
    return first, count
