"""What a name server says about the node's name (N-19), for nodes that nothing else tells of.

The library's lookup cannot be given up: it has a thread of its own, which nobody waits for at
the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable

from kubelet.machine import addresses, files
from procs.node.nodeobject.settings import Settings

# Returns the addresses of a name, and waits for it.
Ask = Callable[[str], tuple[str, ...]]


def needed(settings: Settings, root: str = "/") -> bool:
    """Whether only a name server could know more: no address is given, and no file has the name."""
    if addresses.configured(settings.node_ip) or addresses.family_of(settings.node) is not None:
        return False
    lines = files.text(root, "etc/hosts").splitlines()
    return not any(settings.node in line.partition("#")[0].split()[1:] for line in lines)


def ask(name: str) -> tuple[str, ...]:
    """Return the addresses of a name; nothing if it has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(one[4][0]) for one in found))


async def resolve(name: str, asking: Ask = ask) -> tuple[str, ...]:
    """Return the addresses of a name, without blocking the loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[str, ...]] = loop.create_future()

    def done(found: tuple[str, ...]) -> None:
        if not future.done():
            future.set_result(found)

    def work() -> None:
        found = asking(name)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(done, found)

    threading.Thread(target=work, name="lookup of the node's name", daemon=True).start()
    return await future
