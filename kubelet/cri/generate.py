"""Write the stubs anew from api.proto: ``python -m kubelet.cri.generate``; ``--check`` compares.

The result depends on the generator's version, so that is pinned, here and in the ``dev`` extra.
Imports in the stubs are by package, because the file is named to the generator by its path from
the top of the repository; that also keeps it apart from other files of the name ``api.proto``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from typing import Final

TOOLS: Final = "grpcio-tools"
PIN: Final = "1.85.1"
HERE: Final = os.path.dirname(os.path.abspath(__file__))
TOP: Final = os.path.dirname(os.path.dirname(HERE))
PROTO: Final = "kubelet/cri/api.proto"
STUBS: Final = ("api_pb2.py", "api_pb2.pyi", "api_pb2_grpc.py")


class GenerateError(Exception):
    """The stubs cannot be made here, and why."""


def generated() -> dict[str, bytes]:
    """Run the generator; file name -> content. GenerateError when it is missing or another one."""
    _check_tools()
    with tempfile.TemporaryDirectory(prefix="cri-stubs-") as out:
        outputs = (f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python"))
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{TOP}", *outputs, PROTO]
        run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
        if run.returncode:
            raise GenerateError(f"protoc failed:\n{run.stderr.strip()}")
        return {name: _read(os.path.join(out, os.path.dirname(PROTO), name)) for name in STUBS}


def differing() -> list[str]:
    """The stubs that are not what the generator makes of api.proto."""
    return [name for name, content in generated().items() if _read(_stub(name)) != content]


def _check_tools() -> None:
    try:
        version = metadata.version(TOOLS)
    except metadata.PackageNotFoundError:
        raise GenerateError(f"{TOOLS} is not installed: pip install {TOOLS}=={PIN}") from None
    if version != PIN:
        raise GenerateError(f"{TOOLS} is {version}, the stubs are made with {PIN}")


def _stub(name: str) -> str:
    return os.path.join(HERE, name)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def main() -> int:
    """Generate, or compare."""
    parser = argparse.ArgumentParser(prog="python -m kubelet.cri.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if they differ")
    check = parser.parse_args().check
    try:
        stubs = generated()
    except GenerateError as error:
        print(error, file=sys.stderr)
        return 2
    changed = [name for name, content in stubs.items() if _read(_stub(name)) != content]
    for name in changed:
        print(f"{'differs' if check else 'written'}: kubelet/cri/{name}")
        if not check:
            with open(_stub(name), "wb") as file:
                file.write(stubs[name])
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
