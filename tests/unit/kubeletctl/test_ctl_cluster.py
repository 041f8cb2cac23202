"""What ``kubeletctl status`` says of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from kubelet.cluster.rows import ConnectionRow, Trouble
from kubeletctl import cluster

NOW = 1_000_000.0
S = 10**9


def at(seconds_ago: float) -> int:
    return int((NOW - seconds_ago) * S)


WELL = ConnectionRow(
    server="https://10.0.0.1:6443",
    connected=True,
    since_ns=at(90),
    registered=True,
    ready="True",
    ready_reason="KubeletReady",
    lease_ns=at(3),
    client_expiry_ns=at(-7200),
)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (None, ""),
        ("odd", ""),
        ({}, ""),
        ({"server": 5}, ""),
        (
            WELL.to_wire(),
            (
                "https://10.0.0.1:6443, connected for 1m30s, Ready=True, lease renewed 3.0s ago, "
                "client certificate ends in 2h00m"
            ),
        ),
        (
            ConnectionRow(server="https://a", since_ns=at(5), client_expiry_ns=at(60)).to_wire(),
            "https://a, not reachable for 5.0s, not registered, client certificate ended 1m00s ago",
        ),
    ],
)
def test_line(row: Any, expected: str) -> None:
    """One line says how it is, and nothing where there is no API server."""
    assert cluster.line(row, NOW) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (None, []),
        (WELL.to_wire(), []),
        (
            ConnectionRow(server="https://a", since_ns=at(5), error="refused").to_wire(),
            [
                (
                    "API server https://a cannot be reached for 5.0s: refused; "
                    "pods run on as they were assigned"
                )
            ],
        ),
        (
            ConnectionRow(
                server="https://a",
                connected=True,
                since_ns=at(5),
                ready="False",
                ready_reason="KubeletNotReady: pleg is down",
                troubles=(Trouble("lease", "forbidden", at(30)),),
            ).to_wire(),
            [
                "the node says Ready=False: KubeletNotReady: pleg is down",
                "lease, for 30s: forbidden",
            ],
        ),
    ],
)
def test_problems(row: Any, expected: list[str]) -> None:
    """Each thing that does not work is a sentence with its age and its cause."""
    assert list(cluster.problems(row, NOW)) == expected
