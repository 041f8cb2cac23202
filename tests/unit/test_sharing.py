"""Which mount a directory is in, and whether it is shared (L-2)."""

from __future__ import annotations

import pytest

from kubelet.sharing import below, holding

TABLE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 254:1 / /data rw shared:1 master:2 - ext4 /dev/vdb rw
31 30 254:2 / /data/a\\040b rw - ext4 /dev/vdc rw
32 27 254:0 /lib /lib rw - ext4 /dev/vda rw
33 32 254:0 /lib /lib rw shared:3 - ext4 /dev/vda rw
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/lib/kubelet", ("/", False)),
        ("/data", ("/data", True)),
        ("/data/kubelet", ("/data", True)),
        ("/data/a b/kubelet", ("/data/a b", False)),
        ("/database", ("/", False)),
        ("/lib/kubelet", ("/lib", True)),
    ],
)
def test_the_innermost_and_last_mount_holds_a_path(path, found):
    """A name that only begins alike is elsewhere, and what is mounted over another one counts."""
    assert holding(path, TABLE) == found


def test_what_is_mounted_inside_a_directory():
    """The directory itself is not inside."""
    assert below("/data", TABLE) == ["/data/a b"]
    assert below("/lib", TABLE) == []
