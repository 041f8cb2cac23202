"""A parent that loads the client, and children that use it: ``SOCKET imported|opened``."""

from __future__ import annotations

import asyncio
import gc
import os
import sys

from kubelet.cri.client import RuntimeClient

CHILDREN = 10


async def call(path):
    """Open a channel here and use it."""
    async with await RuntimeClient.connect(f"unix://{path}", timeout=10) as client:
        answers = await asyncio.gather(*(client.version(fresh=True) for _ in range(5)))
        return all(answer.runtime_name == "fake" for answer in answers)


def in_child(work):
    """Fork, and exit with whether the work went well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return pid


def imported(path):
    """Each child opens a channel of its own, all at the same time."""
    gc.collect()
    gc.freeze()
    pids = [in_child(lambda: asyncio.run(call(path))) for _ in range(CHILDREN)]
    good = sum(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    print(f"{good} of {CHILDREN}, {len(os.listdir('/proc/self/task'))} thread")


async def opened(path):
    """A channel that is open while the process forks is refused in the child, rather than hang."""
    async with await RuntimeClient.connect(f"unix://{path}", timeout=10) as client:
        await client.version()

        def work():
            try:
                client.list_containers().send(None)
            except RuntimeError as error:
                return "opened before the fork" in str(error)

        _, status = os.waitpid(in_child(work), 0)  # noqa: ASYNC222 - it ends at once
        await client.version(fresh=True)
        print("refused" if status == 0 else f"status {status}")


if __name__ == "__main__":
    if sys.argv[2] == "imported":
        imported(sys.argv[1])
    else:
        asyncio.run(opened(sys.argv[1]))
