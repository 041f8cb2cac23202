"""Variables out of files that a container of the pod has written (P-174)."""

from __future__ import annotations

import asyncio
import os

import pytest

from kubelet.channels.messages import FileKeyRead, ReadFileKey
from kubelet.channels.server import Caller
from procs.volumes.envfile import EnvFiles
from procs.volumes.operations.runner import Operations
from procs.volumes.variables import LIMIT, value_in
from tests.unit.volumes.standing import UID

SYNCLOOP = Caller("syncloop", 0, 1, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("B='1'", None),
        ("A='1'", "1"),
        ("A=''", ""),
        ("\n# A='0'\n \t A='1'  # more\n\nB='2'\r\n", "1"),
        ("A='1'\r\n", "1"),
        ("A='1'# near", "1"),
        ("A='1'\nA='2'\n", "1"),
        ("A='1'\nnothing", "1"),
        ("A= '1'", ""),
        ("B= '1'\nA='2'", "2"),
        ("A='two\nlines # kept $(X) \"'\nB='2'", 'two\nlines # kept $(X) "'),
        ("B='two\nA='\nA='1'", "1"),
        ("A B='1'\nA='2'", "2"),
    ],
)
def test_a_variable_in_a_file(text, expected):
    """P-174: values stand between single quotes and are taken as they are; the first one counts."""
    assert value_in(text, "A") == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A=1", "line 1: the value must be enclosed in single quotes"),
        ("B='1'\nA=\"2\"", "line 2: the value must be enclosed in single quotes"),
        ("A=", "line 1: the value must be enclosed in single quotes"),
        ("A = '1'", "line 1: there must be no space before '='"),
        ("B='\n\nA='1'", "line 3: nothing but a comment may follow the closing quote"),
        ("A='1", "line 1: the single quote is not closed"),
        ("B='1'x\nA='1'", "line 1: nothing but a comment may follow the closing quote"),
        ("='1'", "line 1: the variable has no name"),
        ("word", "line 1: '=' is missing"),
    ],
)
def test_a_line_that_is_no_variable(text, problem):
    """P-174: what is no such line is named by its number."""
    with pytest.raises(ValueError, match=f"^{problem}"):
        value_in(text, "A")


@pytest.fixture
def volume(tmp_path):
    """A volume with files of variables, good and bad."""
    made = tmp_path / "volume"
    made.mkdir()
    (tmp_path / "secret").write_text("K='secret'\n")
    (made / "env").write_text("K='from file'\n")
    (made / "link").symlink_to("env")
    (made / "bad").write_text("K=1\n")
    (made / "binary").write_bytes(b"K='\xff'\n")
    (made / "big").write_bytes(b"#" * (LIMIT + 1))
    (made / "out").symlink_to(tmp_path / "secret")
    (made / "directory").mkdir()
    os.mkfifo(made / "pipe")
    return made


@pytest.fixture
def read(process, layout, volume):
    """Ask for a variable of a volume ``v``, which is mounted."""
    operations = Operations(f"{layout.root}/locks")
    there = {(UID, "v"): str(volume)}
    files = EnvFiles(process, layout, operations, lambda *of: there.get(of, ""))

    def ask(path, key="K", volume="v", pod=UID):
        return asyncio.run(files.handle(ReadFileKey(pod, volume, path, key), SYNCLOOP))

    yield ask
    operations.close()


def test_a_variable_is_read(read):
    """P-174: a variable is read from a file that another container left in a volume."""
    for path in ("env", "/env", "link"):
        assert read(path) == FileKeyRead("from file")


def test_what_is_not_there_is_no_error(read):
    """P-174: whether a variable may be missing is for its container to say."""
    assert read("none") == FileKeyRead(None)
    assert read("env", "L") == FileKeyRead(None)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("out", "leads out of the volume"),
        ("../secret", "path: '../secret' must not contain '..'"),
        ("bad", "line 1: the value must be enclosed in single quotes"),
        ("binary", "can't decode byte 0xff"),
        ("big", f"it has more than {LIMIT} bytes"),
        ("pipe", "it is not a file"),
        ("directory", "it is not a file"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(read, path, message):
    """P-174: what cannot be read says why, and a link never leads out of the volume."""
    found = read(path)
    assert found.value is None
    assert message in found.error


def test_a_volume_that_is_not_there(read):
    """P-174: a volume that is not mounted, or no volume at all, is an error."""
    assert "cannot find the volume" in read("env", volume="w").error
    assert "is not a volume's name" in read("env", volume="../x").error
    assert "is not a pod's uid" in read("env", pod="..").error
