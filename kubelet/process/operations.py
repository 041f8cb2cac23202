"""What a process is doing now, for the board: shown by ``kubeletctl``, blamed after a death."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from shm.board import RowWriter


class Operations:
    """The operations under way. The board shows the one begun last that is still going on.

    That is the one which a stuck loop is stuck in: nothing can begin while it is.
    """

    def __init__(self, row: RowWriter) -> None:
        self._row = row
        self._active: dict[int, tuple[str, str]] = {}
        self._next = 0

    @contextlib.contextmanager
    def doing(self, operation: str, pod: str = "") -> Iterator[None]:
        """Be in an operation; an error that leaves it remembers the pod."""
        self._next += 1
        number = self._next
        self._active[number] = (operation, pod)
        self._row.begin(operation, pod)
        try:
            yield
        except Exception as err:
            remember_pod(err, pod)
            raise
        finally:
            del self._active[number]
            self._show_newest()

    def _show_newest(self) -> None:
        if self._active:
            self._row.begin(*self._active[next(reversed(self._active))])
        else:
            self._row.end()


def remember_pod(error: BaseException, pod: str) -> None:
    """Note on an error which pod it happened on, unless an inner operation has done so."""
    if pod and not pod_of(error):
        error.add_note(f"pod: {pod}")


def pod_of(error: BaseException) -> str:
    """The pod that an error happened on, or ""."""
    for note in getattr(error, "__notes__", ()):
        if note.startswith("pod: "):
            return str(note).removeprefix("pod: ")
    return ""
