"""Container events to everyone who listens; some can be lost on purpose."""

from __future__ import annotations

import asyncio

from kubelet.cri import api_pb2 as pb

CAPACITY = 1000  # events that wait for a slow listener; more are dropped and counted


class Broadcast:
    """Hands each event to every listener."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[pb.ContainerEventResponse | None]] = set()
        self.sent = 0
        self.dropped = 0
        self.to_drop: int | None = 0  # how many more are lost; None is all

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._queues)

    def subscribe(self) -> asyncio.Queue[pb.ContainerEventResponse | None]:
        """A queue of events from now on; None in it is the end of the stream."""
        queue: asyncio.Queue[pb.ContainerEventResponse | None] = asyncio.Queue(CAPACITY)
        self._queues.add(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[pb.ContainerEventResponse | None]) -> None:
        """Nobody reads it any more."""
        self._queues.discard(queue)

    def wanted(self) -> bool:
        """Whether the next event goes anywhere; if it is to be lost, it is lost here."""
        if self.to_drop is None or self.to_drop > 0:
            self.to_drop = None if self.to_drop is None else self.to_drop - 1
            self.dropped += 1
            return False
        return bool(self._queues)

    def send(self, event: pb.ContainerEventResponse) -> None:
        """Give it to everyone who has room."""
        self.sent += 1
        for queue in self._queues:
            if queue.full():
                self.dropped += 1
            else:
                queue.put_nowait(event)

    def end_streams(self) -> int:
        """Break every stream, as a runtime that restarts does."""
        count = len(self._queues)
        for queue in list(self._queues):
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
        return count
