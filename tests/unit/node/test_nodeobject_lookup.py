"""What a name server may know of the node's name (N-19), without anybody waiting for it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from procs.node.nodeobject import lookup
from tests.unit.node.nodeobject_scene import SETTINGS


@pytest.mark.parametrize(
    ("node_ip", "name", "expected"),
    [
        ("", "node-1", True),
        ("0.0.0.0", "node-1", True),
        ("192.0.2.5", "node-1", False),
        ("", "192.0.2.5", False),
        ("", "listed", False),
        ("", "commented", True),
    ],
)
def test_who_has_to_be_asked(tmp_path, node_ip, name, expected):
    """Nobody, where an address is configured, is the name, or is in the hosts file."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text("127.0.1.1 other listed # commented\n\n")
    settings = replace(SETTINGS, node_ip=node_ip, node=name)
    assert lookup.needed(settings, str(tmp_path)) is expected


def test_names_that_have_no_address():
    """What is no name, or has no address, has none: that is no error."""
    assert lookup.ask("a..b") == ()
    assert lookup.ask("x" * 300) == ()
    assert "127.0.0.1" in lookup.ask("127.0.0.1")


def test_the_loop_goes_on_while_somebody_is_asked():
    """A name server that hangs holds a thread that nobody waits for, and nothing else."""
    released = threading.Event()

    def ask(name):
        released.wait(10)
        return (name,)

    async def story():
        asking = asyncio.create_task(lookup.resolve("box", ask))
        await asyncio.sleep(0)
        assert not asking.done()
        released.set()
        assert await asyncio.wait_for(asking, 10) == ("box",)

    asyncio.run(story())


def test_an_answer_that_comes_too_late_is_nobodys():
    """The loop, or who asked, may be gone by then."""
    released, done = threading.Event(), threading.Event()

    def ask(_name):
        released.wait(10)
        done.set()
        return ()

    async def story():
        asking = asyncio.create_task(lookup.resolve("box", ask))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(story())
    released.set()
    assert done.wait(10)
