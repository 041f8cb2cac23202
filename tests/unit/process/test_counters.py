"""Names of counters, which the board has room for up to a length."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shm.board import RowWriter

TOP = Path(__file__).parents[3]


def counted():
    """Every name that a process counts something under."""
    for path in sorted((TOP / "procs").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if not isinstance(called, ast.Attribute) or called.attr != "count" or not node.args:
                continue
            owner, first = ast.unparse(called.value), node.args[0]
            if owner.endswith("row") and isinstance(first, ast.Constant):
                yield pytest.param(first.value, id=f"{path.name}-{first.value}")


@pytest.mark.parametrize("name", list(counted()))
def test_a_counters_name_fits_the_board(tmp_path, name):
    """One that is too long would end the process that counts."""
    row = RowWriter.create(tmp_path / "row")
    row.count(name)
    row.close()
