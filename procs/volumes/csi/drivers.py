"""The CSI drivers that have registered with this kubelet."""

from __future__ import annotations

from collections.abc import Callable

from procs.volumes.csi.driver import Driver


class Drivers:
    """Drivers by their names; whoever waits for one is told when it comes, changes or goes."""

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}
        self._callbacks: list[Callable[[str], None]] = []

    def get(self, name: str) -> Driver | None:
        """Return a driver; None: there is none of that name on this node now."""
        return self._drivers.get(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all, sorted."""
        return tuple(sorted(self._drivers))

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call back with a driver's name when it has registered, again too, or has gone away."""
        self._callbacks.append(callback)

    def put(self, driver: Driver) -> None:
        """Have a driver; one that was there by its name ends the calls that it has."""
        before = self._drivers.get(driver.name)
        self._drivers[driver.name] = driver
        if before is not None and before is not driver:
            before.retire()
        self._tell(driver.name)

    def remove(self, name: str) -> None:
        """Have a driver no more; its calls that are under way end as they will."""
        driver = self._drivers.pop(name, None)
        if driver is not None:
            driver.retire()
            self._tell(name)

    def close(self) -> None:
        """Let go of all connections; nobody is told."""
        for driver in self._drivers.values():
            driver.retire()
        self._drivers.clear()

    def _tell(self, name: str) -> None:
        for callback in self._callbacks:
            callback(name)
