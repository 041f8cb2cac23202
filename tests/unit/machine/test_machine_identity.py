"""Who the machine is (N-2, N-15)."""

from __future__ import annotations

import os

import pytest

from kubelet import config
from kubelet.machine import identity

FILES = {
    "etc/machine-id": "0123456789abcdef\n",
    "sys/class/dmi/id/product_uuid": "ABC-DEF\n",
    "proc/sys/kernel/random/boot_id": "b00t\n",
    "proc/sys/kernel/osrelease": "6.1.0-18\n",
    "proc/self/uid_map": "         0          0 4294967295\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
}


def machine(root, **changes):
    """Another machine; a file of None is not there."""
    for name, text in (FILES | changes).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
    return str(root)


def test_everything_that_a_machine_says(tmp_path):
    """N-15."""
    found = identity.read(machine(tmp_path))
    assert found == identity.Identity(
        machine_id="0123456789abcdef",
        system_uuid="ABC-DEF",
        boot_id="b00t",
        kernel="6.1.0-18",
        os_image="Debian GNU/Linux 12 (bookworm)",
        architecture=identity.architecture(),
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sys/class/dmi/id/product_uuid": None}, "0123456789abcdef"),
        (
            {"sys/class/dmi/id/product_uuid": "", "proc/device-tree/system-id": "tree\0"},
            "tree",
        ),
    ],
)
def test_a_machine_without_a_firmwares_word(tmp_path, changes, expected):
    """N-15: the device tree, or else the machine's own id."""
    assert identity.read(machine(tmp_path, **changes)).system_uuid == expected


def test_a_machine_that_says_nothing(tmp_path):
    """What is not there is empty; the system has a name all the same."""
    found = identity.read(str(tmp_path))
    assert (found.machine_id, found.system_uuid, found.boot_id) == ("", "", "")
    assert (found.os_image, found.user_namespace) == ("Linux", False)


def test_an_older_place_of_the_machines_id(tmp_path):
    """N-15."""
    changes = {"etc/machine-id": "", "var/lib/dbus/machine-id": "dbus\n"}
    assert identity.read(machine(tmp_path, **changes)).machine_id == "dbus"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PRETTY_NAME=Plain\n", "Plain"),
        ("PRETTY_NAME='Single quoted'\n", "Single quoted"),
        ('PRETTY_NAME="half\n', "half"),
        ('PRETTY_NAME=""\n', "Linux"),
        ("ID=x\n", "Linux"),
    ],
)
def test_names_of_systems(tmp_path, text, expected):
    """N-15: as a shell would read the file; what is broken is shown as it stands."""
    assert identity.os_image(machine(tmp_path, **{"etc/os-release": text})) == expected


def test_a_user_namespace_shows(tmp_path):
    """N-15."""
    root = machine(tmp_path, **{"proc/self/uid_map": "0 100000 65536\n"})
    assert identity.read(root).user_namespace


def test_this_machine():
    """The real files, as far as anybody can tell."""
    found = identity.read()
    assert found.kernel == os.uname().release
    assert found.boot_id


def test_labels():
    """N-2: those of the machine, and those of the command line."""
    found = identity.labels(config.load(["--node-labels=a=b,rack=1"]).config, "box")
    arch = identity.architecture()
    assert found == {
        "kubernetes.io/hostname": "box",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
        "a": "b",
        "rack": "1",
    }
