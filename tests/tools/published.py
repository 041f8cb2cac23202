"""Modules that publish an interface, fetched to compare ours with them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.install import cache_directory


def download(module, version):
    """The directory of a published module, fetched by Go's own client; or a reasoned skip."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: the published interface cannot be fetched")
    place = cache_directory() / "gomod"
    place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOMODCACHE": str(place), "GOFLAGS": "-modcacherw"}
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    try:
        run = subprocess.run(
            command,
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{module} {version}: no answer from the module proxy in 120s")
    if run.returncode:
        pytest.skip(f"{module} {version} cannot be fetched: {run.stdout}{run.stderr}".strip())
    return Path(json.loads(run.stdout)["Dir"])
