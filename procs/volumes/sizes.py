"""How large a volume in memory may be, and which huge pages it is made of (L-30)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubelet import quantities
from kubelet.api.pod import Pod
from kubelet.pods import resources
from procs.volumes.errors import VolumeError

HUGE_PAGES: Final = "HugePages"
_HUGE_MEDIUM: Final = "HugePages-"


def tmpfs_size(pod: Pod, size_limit: str, allocatable: int) -> int:
    """Return the least of: the node's memory for pods, the pod's limit, the volume's limit."""
    sizes = [allocatable, memory_limit(pod) or 0]
    if size_limit:
        sizes.append(_parsed("sizeLimit", size_limit))
    return min((size for size in sizes if size > 0), default=0)


def memory_limit(pod: Pod) -> int | None:
    """Return the memory limit of the whole pod; None if a container has none (P-194)."""
    whole = resources.limits(pod.spec.resources).get(resources.MEMORY)
    among = (*pod.spec.containers, *pod.spec.init_containers)
    each = (resources.limits(c.resources).get(resources.MEMORY) for c in among)
    if not whole and not all(each):
        return None
    total = resources.pod_limits(pod).get(resources.MEMORY)
    return total.value if total is not None else None  # a pod without containers has no limit


def page_size(pod: Pod, medium: str) -> str:
    """Return the size of the huge pages behind a volume, such as ``2M``, as a mount takes it.

    ``HugePages`` takes the one size that the pod requests; ``HugePages-2Mi`` names it, and the pod
    must request it too.
    """
    requested = {size: text for text, size in _huge_pages(pod)}
    if medium == HUGE_PAGES:
        if not requested:
            raise VolumeError(f"medium {medium}: no container requests huge pages")
        if len(requested) > 1:
            sizes = ", ".join(sorted(requested.values()))
            raise VolumeError(f"medium {medium}: containers request several page sizes: {sizes}")
        return _kernel_size(next(iter(requested)))
    text = medium.removeprefix(_HUGE_MEDIUM)
    size = _parsed("medium", text)
    if size not in requested:
        raise VolumeError(f"medium {medium}: no container requests {resources.HUGEPAGES}{text}")
    return _kernel_size(size)


def is_huge_pages(medium: str) -> bool:
    """Tell whether an emptyDir's medium is huge pages."""
    return medium == HUGE_PAGES or medium.startswith(_HUGE_MEDIUM)


def _huge_pages(pod: Pod) -> Iterable[tuple[str, int]]:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        requests = container.resources.requests if container.resources is not None else {}
        for resource in requests:
            if resource.startswith(resources.HUGEPAGES):
                text = resource.removeprefix(resources.HUGEPAGES)
                yield text, _parsed(resource, text)


def _kernel_size(size: int) -> str:
    for shift, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{suffix}"
    return str(size)


def _parsed(field: str, text: str) -> int:
    try:
        return quantities.parse(text).value
    except ValueError as err:
        raise VolumeError(f"{field}: {text!r} {err}") from None
