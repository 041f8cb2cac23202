"""The command, run as a process of its own, against a stand-in for the tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
ACTOR = Path(__file__).with_name("actor.py")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
    "PYTHONPATH": str(ROOT),
}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def kubeletctl(*arguments: str, **environment: str) -> Done:
    """Run the command with its output piped."""
    done = subprocess.run(
        [sys.executable, "-m", "kubeletctl.main", *arguments],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **environment},
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass
class Tree:
    """The stand-in: its directory, and what its state file says."""

    root: Path

    def run(self, *arguments: str, **environment: str) -> Done:
        return kubeletctl("--run-dir", str(self.root), *arguments, **environment)

    @property
    def state(self) -> dict[str, Any]:
        return json.loads((self.root / "state.json").read_text())

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Replace the state file by an edited one."""
        state = self.state
        edit(state)
        (self.root / "state.json").write_text(json.dumps(state))

    def pid(self, kind: str) -> int:
        return next(one["pid"] for one in self.state["processes"] if one["name"] == kind)

    def process(self, state: dict[str, Any], kind: str) -> dict[str, Any]:
        return next(one for one in state["processes"] if one["name"] == kind)
