"""Heartbeats to the API server: the purpose of these calls gives each a time of its own.

So none waits for one that hangs: that would be noticed only after minutes, and the node would be
given up by then.
"""

from __future__ import annotations

from procs.node.apiserver.types import Api, Json, PatchType, Purpose


class Calls:
    """The calls about the node itself."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def get(self, path: str) -> Json:
        """Return an object."""
        return await self._api.get(path, purpose=Purpose.HEARTBEAT)

    async def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return await self._api.create(path, body, purpose=Purpose.HEARTBEAT)

    async def replace(self, path: str, body: Json) -> Json:
        """Replace an object."""
        return await self._api.replace(path, body, purpose=Purpose.HEARTBEAT)

    async def patch(self, path: str, body: Json) -> Json:
        """Change an object by a strategic merge."""
        return await self._api.patch(path, body, PatchType.STRATEGIC, purpose=Purpose.HEARTBEAT)
