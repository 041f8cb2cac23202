"""Exec over its URL, and the simulator as a command. SPDY is shown by the validation suite."""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

from kubelet.cri import api_pb2 as pb

from .control import SimControl
from .process import REPOSITORY
from .websocket import accept


def websocket(url: str) -> socket.socket:
    """A connection that was upgraded; the answer to the key is checked."""
    parts = urllib.parse.urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
    key = base64.b64encode(b"0123456789abcdef").decode()
    head = (
        f"GET {parts.path} HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    )
    connection.sendall(head.encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += connection.recv(1)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert f"Sec-WebSocket-Accept: {accept(key)}".encode() in answer
    return connection


def frames(connection: socket.socket) -> list[bytes]:
    """Every frame up to the end."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    found = []
    while data:
        opcode, length = data[0] & 15, data[1]
        at = 2
        if length == 126:
            (length,) = struct.unpack("!H", data[2:4])
            at = 4
        if opcode == 2:
            found.append(data[at : at + length])
        data = data[at + length :]
    return found


def test_exec_over_a_websocket(cri):
    """Output comes on its channel, and the code comes at the end as a Status."""
    container = cri.run(cri.run_pod(), "top")
    command = ["sh", "-c", "echo hi; echo no >&2; exit 4"]
    request = pb.ExecRequest(container_id=container, cmd=command, stdout=True, stderr=True)
    with websocket(cri.runtime.Exec(request).url) as connection:
        out, err, status = frames(connection)
    assert (out, err) == (b"\x01hi\n", b"\x02no\n")
    assert status[:1] == b"\x03"
    verdict = json.loads(status[1:])
    assert verdict["reason"] == "NonZeroExitCode"
    assert verdict["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


def test_a_url_is_good_for_one_upgrade(cri):
    """A plain request is refused, and then the URL is used up."""
    container = cri.run(cri.run_pod(), "top")
    request = pb.AttachRequest(container_id=container, stdout=True)
    url = cri.runtime.Attach(request).url
    for code in (400, 404):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url, timeout=10)
        assert caught.value.code == code
        caught.value.close()


def test_it_ends_with_its_parent(sim_directory):
    """With --die-with-parent it goes when the process that started it is killed."""
    path = f"{sim_directory}/p.sock"
    line = f"'{sys.executable}' -m tests.sim --socket {path} --die-with-parent & wait"
    parent = subprocess.Popen(
        ["bash", "-c", line], cwd=REPOSITORY, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith(b"sim: ready on unix://")
    with SimControl(f"{path}.control") as control:
        pidfd = os.pidfd_open(control.do("ping")["pid"])
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        assert select.select([pidfd], [], [], 10)[0], "it did not end"
    finally:
        os.close(pidfd)
    assert not os.path.exists(path)


def test_it_serves_in_the_background_until_it_is_stopped(sim_directory):
    """--detach returns when it serves, --stop when it is gone."""
    base = [sys.executable, "-m", "tests.sim", "--socket", f"{sim_directory}/d/d.sock"]

    def call(*more: str) -> str:
        done = subprocess.run(
            [*base, *more], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    assert call("--detach", "--pods", "3").startswith("sim: ready on unix://")
    with SimControl(f"{sim_directory}/d/d.sock.control") as control:
        assert control.stats()["containers"] == 6
    assert call("--stop").startswith("sim: ended")
    assert call("--stop").startswith("sim: nobody serves")
    assert os.listdir(f"{sim_directory}/d") == ["d.sock.log"]
