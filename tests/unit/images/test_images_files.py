"""The node's docker configuration (I-22)."""

from __future__ import annotations

import json
import os

from procs.syncloop.images.files import Candidate, NodeConfig, search_paths
from procs.syncloop.images.keyring import Auth


def text(user):
    return json.dumps({"auths": {"r.io": {"username": user, "password": "p"}}})


def test_it_is_sought_in_the_known_places():
    """config.json everywhere first, then .dockercfg; the kubelet's own directory leads (I-22)."""
    found = [c.path for c in search_paths("/var/lib/kubelet", "/cwd", "/home/me")]
    assert found == [
        "/var/lib/kubelet/config.json",
        "/cwd/config.json",
        "/home/me/.docker/config.json",
        "/.docker/config.json",
        "/var/lib/kubelet/.dockercfg",
        "/cwd/.dockercfg",
        "/home/me/.dockercfg",
        "/.dockercfg",
    ]
    assert search_paths("/r", "/", "")[-1] == Candidate("/.dockercfg", legacy=True)
    assert not any("home" in c.path for c in search_paths("/r", "/", ""))


def test_the_first_usable_file_is_used(tmp_path):
    """What is broken is passed over; a legacy file is read in its own form."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "config.json").write_text("{broken")
    (tmp_path / "c" / ".dockercfg").write_text('{"r.io": {"username": "old"}}')
    node = NodeConfig(search_paths(*(str(tmp_path / name) for name in ("a", "b", "c"))))
    assert node.load() == {"r.io": Auth("old")}
    (tmp_path / "b" / "config.json").write_text(text("new"))
    assert node.load() == {"r.io": Auth("new", "p")}


def test_a_file_is_read_when_it_has_changed(tmp_path):
    """An unchanged stamp gives what is known; a new one, or a file that goes, is seen at once."""
    path = tmp_path / "config.json"
    node = NodeConfig((Candidate(str(path), legacy=False),))
    assert node.load() == {}
    path.write_text(text("one"))
    first = node.load()
    assert node.load() is first
    path.write_text(text("two"))
    os.utime(path, ns=(1, 1))
    assert node.load() == {"r.io": Auth("two", "p")}
    path.unlink()
    assert node.load() == {}


def test_home_comes_from_the_environment(tmp_path):
    """The process's own places are the root directory, where it stands, and its home."""
    home = tmp_path / "home" / ".docker"
    home.mkdir(parents=True)
    (home / "config.json").write_text(text("me"))
    node = NodeConfig.of(str(tmp_path), {"HOME": str(tmp_path / "home")})
    assert str(home / "config.json") in [c.path for c in node.candidates]
    assert os.path.join(os.getcwd(), "config.json") in [c.path for c in node.candidates]
