"""Fixtures: a process to stand on."""

from __future__ import annotations

import pytest

from tests.unit.pleg.standing import Standing


@pytest.fixture
def process(tmp_path):
    """A process with tables of its own."""
    standing = Standing(tmp_path)
    yield standing
    standing.tables.close()
