"""Addresses of runtimes: which are accepted, and what is said about the others."""

from __future__ import annotations

import asyncio

import pytest

from kubelet import logging as klog
from kubelet.cri import endpoint
from kubelet.cri.client import RuntimeClient
from kubelet.cri.errors import EndpointError
from tests.unit.cri.runtime import VERSION, serving


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock"),
        ("unix:/run/x.sock", "/run/x.sock"),
        ("unix:///a%20b.sock", "/a b.sock"),
    ],
)
def test_accepted(text, path, capfd):
    """A unix URL names a socket; escapes in it are decoded."""
    assert endpoint.parse(text).path == path
    klog.flush()
    assert "scheme" not in capfd.readouterr().err


def test_a_bare_path_is_accepted_with_a_warning(capfd):
    """As the Go kubelet does; the warning shows the form to use."""
    assert str(endpoint.parse("/run/x.sock")) == "unix:///run/x.sock"
    klog.flush()
    warning = capfd.readouterr().err
    assert warning.startswith("W")
    assert 'use="unix:///run/x.sock"' in warning


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tcp://127.0.0.1:1234", "scheme 'tcp' is not supported: only unix:///<absolute path>"),
        ("npipe:////./pipe/containerd", "scheme 'npipe' is not supported"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("run/x.sock", "it has no scheme"),
        ("", "it has no scheme"),
        ("unix://run/x.sock", "'run' stands where a host would: write three slashes"),
        ("unix://", "must be absolute"),
        ("unix:x.sock", "must be absolute"),
        ("unix:///x?y", "cannot hold"),
        ("unix:///x#y", "cannot hold"),
        ("unix:///x\0y", "control characters"),
        ("unix:///x%00y", "control characters"),
        ("unix:///x\ny", "control characters"),
        ("/" + "x" * 107, "the path has 108 bytes, the kernel allows 107"),
        ("unix:///" + "\N{SNOWMAN}" * 40, "the path has 121 bytes"),
    ],
)
def test_refused(text, why):
    """The error names the endpoint, what is wrong and what is allowed; nothing is opened."""

    async def main():
        await RuntimeClient.connect(text)

    with pytest.raises(EndpointError) as caught:
        asyncio.run(main())
    assert repr(text) in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("name", ["plain", "a b", "100%25", "x;y&z=1", "\N{SNOWMAN}", "a:b@c"])
def test_odd_names_reach_the_very_socket(sockets, name):
    """The path that was meant is opened, although gRPC decodes addresses once more."""

    async def main():
        path = sockets / name
        async with (
            serving(endpoint.Endpoint(str(path)).target.removeprefix("unix:")),
            await RuntimeClient.connect(str(path)) as client,
        ):
            assert await client.version() == VERSION
            assert path.is_socket()

    asyncio.run(main())
