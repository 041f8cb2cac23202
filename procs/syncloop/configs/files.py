"""Files and directories that a pod needs on the node before its containers are made."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Final

from kubelet.api.container import Container
from kubelet.api.pod import Pod
from procs.syncloop.configs import hosts
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.hostname import host_name
from procs.syncloop.site import Site

_DATA_MODE: Final = 0o750  # P-55
_LOG_MODE: Final = 0o755  # P-153
_HOSTS_MODE: Final = 0o644
_LAST_WORDS_MODE: Final = 0o666  # whoever the container runs as writes there
_NAME_LIMIT: Final = 255  # bytes of a file's name
_NODE_HOSTS: Final = "/etc/hosts"
_HOSTS_LIMIT: Final = 10 << 20


def make_pod_dirs(pod: Pod, site: Site) -> None:
    """Make the directories of a pod (P-55)."""
    top = site.pod_dir(pod.uid)
    for path in (top, f"{top}/volumes", f"{top}/plugins", f"{top}/containers"):
        _directory(path, _DATA_MODE)


def ensure_log_directory(pod: Pod, site: Site, container: str = "") -> str:
    """Make the directory of a pod's logs, or of one container's, and return it (P-153)."""
    path = site.pod_logs_dir(pod.namespace, pod.name, pod.uid)
    _directory(path, _LOG_MODE)
    if container:
        path = f"{path}/{container}"
        _directory(path, _LOG_MODE)
    return path


def prepare(
    pod: Pod, container: Container, attempt: int, pod_ips: tuple[str, ...], site: Site
) -> None:
    """Make all that a container's configuration names: logs, hosts file, file of last words."""
    ensure_log_directory(pod, site, container.name)
    _container_dir(pod, container.name, site)
    if pod_ips:
        write_hosts(pod, pod_ips, site)
    if container.termination_message_path:
        make_termination_log(pod, container.name, attempt, site)


def _container_dir(pod: Pod, container: str, site: Site) -> None:
    _directory(f"{site.pod_dir(pod.uid)}/containers/{container}", _DATA_MODE)


# --- last words --------------------------------------------------------------------------------


def termination_log_path(uid: str, container: str, attempt: int, site: Site) -> str:
    """Return the file of a container's last words (P-185).

    Its name follows from what the container is, so that it is found again without a note of it.
    """
    digest = hashlib.sha256(f"{uid}\0{container}\0{attempt}".encode()).hexdigest()[:8]
    return f"{site.pod_dir(uid)}/containers/{container}/{digest}"


def make_termination_log(pod: Pod, container: str, attempt: int, site: Site) -> str:
    """Make the empty file of a container's last words, and return it."""
    _container_dir(pod, container, site)
    path = termination_log_path(pod.uid, container, attempt, site)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _LAST_WORDS_MODE)
    try:
        os.fchmod(fd, _LAST_WORDS_MODE)
    finally:
        os.close(fd)
    return path


def remove_termination_log(uid: str, container: str, attempt: int, site: Site) -> None:
    """Remove the file of the last words of a container that is removed."""
    with suppress(FileNotFoundError):
        os.unlink(termination_log_path(uid, container, attempt, site))


# --- hosts -------------------------------------------------------------------------------------


def hosts_path(uid: str, site: Site) -> str:
    """Return the file that a pod's containers mount at /etc/hosts."""
    return f"{site.pod_dir(uid)}/etc-hosts"


def hosts_content(pod: Pod, pod_ips: tuple[str, ...], site: Site, node_file: str) -> str:
    """Return the content of that file."""
    aliases = pod.spec.host_aliases
    if pod.spec.host_network:
        return hosts.of_node(node_file, aliases)
    return hosts.managed(pod_ips, host_name(pod, site.cluster_domain), aliases)


def write_hosts(
    pod: Pod, pod_ips: tuple[str, ...], site: Site, node_hosts: str = _NODE_HOSTS
) -> str:
    """Write a pod's hosts file where it differs (P-175), and return its path."""
    node_file = _read_hosts(node_hosts) if pod.spec.host_network else ""
    path = hosts_path(pod.uid, site)
    content = hosts_content(pod, pod_ips, site, node_file)
    _overwrite(path, content.encode(errors="surrogateescape"))
    return path


def _read_hosts(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_HOSTS_LIMIT)
    except OSError as err:
        raise ConfigError(f"cannot read the node's hosts file {path}: {err.strerror}") from None


def _overwrite(path: str, content: bytes) -> None:
    """Write into the same file: containers that run have it mounted, and not what replaces it.

    What is new is written over what is old, and the rest is cut off then: who reads in between
    never finds the file empty.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _HOSTS_MODE)
    try:
        os.fchmod(fd, _HOSTS_MODE)
        size = os.fstat(fd).st_size
        if size == len(content) and os.pread(fd, size + 1, 0) == content:
            return
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))
    finally:
        os.close(fd)


# --- logs --------------------------------------------------------------------------------------


def log_name(container: str, attempt: int) -> str:
    """Return where a container's log is below the pod's directory of logs (P-153)."""
    return f"{container}/{attempt}.log"


def log_path(pod: Pod, container: str, attempt: int, site: Site) -> str:
    """Return where a container's log is."""
    top = site.pod_logs_dir(pod.namespace, pod.name, pod.uid)
    return f"{top}/{log_name(container, attempt)}"


def attempt_by_logs(pod: Pod, container: str, site: Site) -> int:
    """Return the restart count of a container of which nothing is left but its logs (P-82)."""
    directory = os.path.dirname(log_path(pod, container, 0, site))
    with suppress(FileNotFoundError):
        names = [name.partition(".") for name in os.listdir(directory)]
        known = [int(n) for n, _, rest in names if n.isdecimal() and rest.split(".")[0] == "log"]
        return max(known, default=-1) + 1
    return 0


def link_path(pod: Pod, container: str, container_id: str, site: Site) -> str:
    """Return the legacy link to a container's log (P-154)."""
    suffix = ".log"
    name = f"{pod.name}_{pod.namespace}_{container}-{container_id}"
    kept = name.encode()[: _NAME_LIMIT - len(suffix)].decode(errors="ignore")
    return f"{site.links_dir}/{kept}{suffix}"


def link_log(pod: Pod, container: str, attempt: int, container_id: str, site: Site) -> bool:
    """Link to a container's log from where older programs look; False: there is no log."""
    path = log_path(pod, container, attempt, site)
    if not os.path.lexists(path):
        return False
    os.makedirs(site.links_dir, mode=_LOG_MODE, exist_ok=True)
    with suppress(FileExistsError):
        os.symlink(path, link_path(pod, container, container_id, site))
    return True


def unlink_log(pod: Pod, container: str, container_id: str, site: Site) -> None:
    """Remove the legacy link to a container's log."""
    with suppress(FileNotFoundError):
        os.unlink(link_path(pod, container, container_id, site))


def _directory(path: str, mode: int) -> None:
    """Make a directory of a mode, whatever our umask; one that is there keeps its own."""
    os.makedirs(os.path.dirname(path), mode=mode, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, mode)
        os.chmod(path, mode)
