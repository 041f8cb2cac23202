"""Servers in a pod that do not behave, each under a path or at a port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.node.pod_node import Document
from tests.node.probe_scene import Scene
from tests.node.probe_targets import GrpcTarget, HttpTarget, Target

OK = b"HTTP/1.1 200 OK\r\n"
HUGE = 12 << 20  # bytes of headers
ELSEWHERE = "http://192.0.2.1/secret"
URL = r'Get "http://[0-9.]+:8080/{path}": '
SLOW = r"context deadline exceeded \(Client\.Timeout exceeded while awaiting headers\)"


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send headers byte by byte, without end."""
    writer.write(OK + b"X-Slow: ")
    while True:
        await asyncio.sleep(0.05)
        writer.write(b"x")
        await writer.drain()


async def endless(writer: asyncio.StreamWriter) -> None:
    """Send a body without end."""
    writer.write(OK + b"\r\n")
    while True:
        writer.write(b"x" * (1 << 16))
        await writer.drain()


async def huge(writer: asyncio.StreamWriter) -> None:
    """Send many megabytes of headers."""
    writer.write(OK)
    line = b"X-Much: " + b"x" * 8000 + b"\r\n"
    for _ in range(HUGE // len(line)):
        writer.write(line)
        await writer.drain()


def words(data: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Send these bytes, and close."""

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return send


def redirect(place: str) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Send to another place."""
    head = f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 3\r\n\r\ngo!"
    return words(head.encode())


WAYS = {
    "/drip": drip,
    "/endless": endless,
    "/huge": huge,
    "/nothing": words(b""),
    "/garbage": words(b"SSH-2.0-odd\r\n\r\n"),
    "/loop": redirect("/loop"),
    "/elsewhere": redirect(ELSEWHERE),
    "/file": redirect("file:///etc/passwd"),
    "/here": redirect("/well"),
    "/well": words(OK + b"\r\n"),
}


class OddServer(HttpTarget):
    """An HTTP server with a way of its own for each path."""

    async def answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        """Answer in the way of this path."""
        await WAYS[path](writer)


@dataclass(frozen=True, slots=True)
class Odd:
    """What is asked, and what is to come of it."""

    handler: Document
    ready: bool = False
    reason: str = "Unhealthy"
    message: str = ""  # a pattern; nothing: nothing is told


def servers_of(scene: Scene) -> list[Target]:
    """The servers of one pod."""
    return [OddServer(scene.servers, 8080), GrpcTarget(scene.servers, 9000, health=False)]


def every_odd_one() -> dict[str, Odd]:
    """Each odd one by the name of the container that is to be judged by it."""
    terminated = r"Readiness probe warning: Probe terminated redirects, Response body: go!"
    failures = {
        "drip": SLOW,
        "huge": (
            r"net/http: HTTP/1\.x transport connection broken: "
            r"net/http: server response headers exceeded 10485760 bytes; aborted"
        ),
        "nothing": r"EOF",
        "garbage": (
            r"net/http: HTTP/1\.x transport connection broken: "
            r'malformed HTTP response "SSH-2\.0-odd"'
        ),
    }
    odd = {
        path: Odd(_get(path), message=f"Readiness probe failed: {URL.format(path=path)}{text}")
        for path, text in failures.items()
    }
    odd |= {path: Odd(_get(path), ready=True) for path in ("endless", "here", "well")}
    odd |= {
        path: Odd(_get(path), ready=True, reason="ProbeWarning", message=terminated)
        for path in ("elsewhere", "file")
    }
    loops = r'Readiness probe failed: Get "/loop": stopped after 10 redirects'
    odd["loop"] = Odd(_get("loop"), message=loops)
    odd["closed"] = Odd(
        _get("well", port=8089),
        message=(
            r'Readiness probe failed: Get "http://[0-9.]+:8089/well": '
            r"dial tcp [0-9.]+:8089: connect: connection refused"
        ),
    )
    odd["nameless"] = Odd(
        _get("well", host="no.such.name.invalid"),
        message=(
            r'Readiness probe failed: Get "http://no\.such\.name\.invalid:8080/well": '
            r".*(no such host|exceeded|timeout).*"  # as this machine's resolver likes
        ),
    )
    odd["portless"] = Odd(
        _get("well", port="nowhere"),
        message=r"Readiness probe errored and resulted in unknown state: .*nowhere.*",
    )
    odd["unhealthy"] = Odd(
        {"grpc": {"port": 9000}},
        message=(
            r"Readiness probe failed: error: this server does not implement the grpc health "
            r"protocol \(grpc\.health\.v1\.Health\): Method not found!"
        ),
    )
    return odd


def _get(path: str, port: int | str = 8080, **more: Any) -> Document:
    return {"httpGet": {"path": f"/{path}", "port": port, **more}}
