"""Builds and runs critest, the published CRI validation suite, on a runtime's socket."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSION = "v1.36.0"
PACKAGE = "sigs.k8s.io/cri-tools/cmd/critest"
MODULE = Path(__file__).parent / "critest"
_SUMMARY = re.compile(r"(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped")


class Unavailable(Exception):  # noqa: N818 - a reason to skip, not an error
    """The suite cannot be had here, and why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the suite found."""

    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...]
    output: str


def cache() -> Path:
    """Where binaries and Go's build cache are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "kubelet-tests"


def build(seconds: float = 900) -> Path:
    """The suite's binary; ``Unavailable`` when it cannot be built."""
    binary = cache() / "bin" / f"critest-{VERSION}"
    if binary.exists():
        return binary
    if shutil.which("go") is None:
        raise Unavailable("Go is not installed, so critest cannot be built")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with (binary.parent / "critest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            _build(binary, seconds)
    return binary


def _build(binary: Path, seconds: float) -> None:
    print(f"building critest {VERSION} (a minute or two, once)", flush=True)
    temporary = binary.with_suffix(".new")
    environ = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(cache() / "go-build")}
    flags = ["-trimpath", "-ldflags", "-s -w", "-o", str(temporary)]
    built = subprocess.run(
        ["go", "test", "-c", *flags, PACKAGE],
        cwd=MODULE,
        env=environ,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if built.returncode != 0 or not temporary.exists():
        raise Unavailable(f"critest cannot be built: {built.stderr.strip()[-300:]}")
    temporary.replace(binary)


def skips() -> dict[str, str]:
    """Names that are skipped, with the reasons."""
    rows = {}
    for line in (MODULE / "skip.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            rows[name] = reason
    return rows


def run(endpoint: str, directory: Path, seconds: float = 170, *more: str) -> Outcome:
    """Run the suite on an endpoint, without what the list skips."""
    arguments = [f"-ginkgo.skip={name}" for name in skips()]
    done = subprocess.run(
        [str(build()), f"-runtime-endpoint={endpoint}", "-ginkgo.no-color", *arguments, *more],
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    counts = _SUMMARY.search(done.stdout)
    if counts is None:
        raise AssertionError(f"critest did not finish: {done.stdout[-2000:]}")
    failures = re.findall(r"^\s*\[FAIL\] (.*)$", done.stdout, re.MULTILINE)
    passed, failed, _pending, skipped = (int(n) for n in counts.groups())
    return Outcome(passed, failed, skipped, tuple(failures), done.stdout)
