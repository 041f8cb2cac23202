"""Write all stubs anew: ``python -m kubelet.cri.generate``; ``--check`` compares.

The result depends on the generator's version, so that is pinned, here and in the ``dev`` extra.
Imports in the stubs are by package, because each file is named to the generator by its path from
the top of the repository; that also keeps it apart from other files of its name.
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
# Each description, and the kinds of stubs that are made of it. Whoever calls by a method's name
# needs no stubs of services: those cost memory in each process that imports them.
PROTOS: Final = {
    "kubelet/cri/api.proto": ("python", "pyi", "grpc_python"),
    "procs/volumes/csi/wire/csi.proto": ("python", "pyi"),
    "procs/volumes/csi/wire/registration.proto": ("python", "pyi"),
}
_ENDINGS: Final = {"python": "_pb2.py", "pyi": "_pb2.pyi", "grpc_python": "_pb2_grpc.py"}


class GenerateError(Exception):
    """The stubs cannot be made here, and why."""


def generated() -> dict[str, bytes]:
    """Run the generator; path from the top -> content. GenerateError: it is missing or another."""
    _check_tools()
    stubs: dict[str, bytes] = {}
    for proto, kinds in PROTOS.items():
        stubs.update(_generate(proto, kinds))
    return stubs


def differing() -> list[str]:
    """The stubs that are not what the generator makes of their descriptions."""
    return [name for name, content in generated().items() if _read(_stub(name)) != content]


def _generate(proto: str, kinds: tuple[str, ...]) -> dict[str, bytes]:
    names = [proto.removesuffix(".proto") + _ENDINGS[kind] for kind in kinds]
    with tempfile.TemporaryDirectory(prefix="stubs-") as out:
        outputs = (f"--{kind}_out={out}" for kind in kinds)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{TOP}", *outputs, proto]
        run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
        if run.returncode:
            raise GenerateError(f"protoc failed with {proto}:\n{run.stderr.strip()}")
        return {name: _read(os.path.join(out, name)) for name in names}


def _check_tools() -> None:
    try:
        version = metadata.version(TOOLS)
    except metadata.PackageNotFoundError:
        raise GenerateError(f"{TOOLS} is not installed: pip install {TOOLS}=={PIN}") from None
    if version != PIN:
        raise GenerateError(f"{TOOLS} is {version}, the stubs are made with {PIN}")


def _stub(name: str) -> str:
    return os.path.join(TOP, name)


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
        print(f"{'differs' if check else 'written'}: {name}")
        if not check:
            with open(_stub(name), "wb") as file:
                file.write(stubs[name])
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
