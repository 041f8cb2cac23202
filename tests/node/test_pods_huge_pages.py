"""An emptyDir of huge pages on a real runtime (L-30)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.pod_node import SLEEP, pod_node, sh
from tests.node.shared import pod
from tests.node.test_pods_volumes import mount, volume
from tests.processes.conftest import run_root

__all__ = ["run_root"]

PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
WANTED = 8


@pytest.fixture
def pages():
    """Some huge pages for the node, given back at the end."""
    if not PAGES.exists():
        pytest.skip("this machine has no huge pages of 2 MiB")
    before = PAGES.read_text()
    PAGES.write_text(str(int(before) + WANTED))
    try:
        if int(PAGES.read_text()) < int(before) + WANTED:
            pytest.skip("this machine's memory has no room for huge pages")
        yield
    finally:
        PAGES.write_text(before)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("medium", ["HugePages", "HugePages-2Mi"])
def test_an_empty_directory_of_huge_pages(containerd24, run_root, medium):
    """The pod finds a hugetlbfs with the pages that it asks for, and it goes with the pod."""
    amounts = {"hugepages-2Mi": "4Mi", "memory": "32Mi", "cpu": "10m"}
    container = sh(
        f"grep ' /v ' /proc/mounts; {SLEEP}",
        volumeMounts=[mount()],
        resources={"requests": amounts, "limits": amounts},
    )
    with pod_node(containerd24, run_root) as node:
        node.start()
        name = node.write(pod("huge", container, volumes=[volume(emptyDir={"medium": medium})]))
        node.await_output(name, "hugetlbfs")
        assert "pagesize=2M" in node.output(name)
        node.remove("huge")
        node.await_gone(name)
