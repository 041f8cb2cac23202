"""Deletes files: what a container leaves, a pod's logs, links to nothing. To run in a thread."""

from __future__ import annotations

import contextlib
import os
import shutil

from kubelet.pods.runtime import ContainerRecord, PodRecord
from procs.syncloop.configs.files import remove_termination_log
from procs.syncloop.gc import logs
from procs.syncloop.site import Site


def delete_last_words(site: Site, pod: PodRecord, container: ContainerRecord) -> None:
    """Delete the termination message file of a container; OSError if that cannot be done."""
    if logs.is_plain(pod.uid) and logs.is_plain(container.name):
        remove_termination_log(pod.uid, container.name, container.attempt, site)


def delete_logs(site: Site, pod: PodRecord, container: ContainerRecord) -> None:
    """Delete all log files of a container and its legacy link (I-41); OSError if it cannot."""
    directory = logs.log_directory(site, pod, container)
    if directory is not None:
        for name in _listed(directory):
            if logs.is_log_of(name, container):
                _unlink(os.path.join(directory, name))
    link = logs.link_name(pod, container)
    if link is not None:
        _unlink(os.path.join(site.links_dir, link))


def pod_directories(site: Site) -> list[str]:
    """Return the names of the directories in which pods have their logs."""
    with contextlib.suppress(FileNotFoundError), os.scandir(site.logs_dir) as entries:
        return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    return []


def dangling_links(site: Site) -> list[str]:
    """Return the names of the legacy links that lead to nothing."""
    with contextlib.suppress(FileNotFoundError), os.scandir(site.links_dir) as entries:
        return sorted(e.name for e in entries if e.is_symlink() and not os.path.exists(e.path))
    return []


def delete_directory(site: Site, name: str) -> None:
    """Delete the logs of a pod; OSError if that cannot be done."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(os.path.join(site.logs_dir, name))


def delete_link(site: Site, name: str) -> None:
    """Delete a link that leads to nothing, unless it leads somewhere by now."""
    path = os.path.join(site.links_dir, name)
    if not os.path.exists(path):
        _unlink(path)


def _listed(directory: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(directory)
    return []


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
