"""Objects of the cluster as ``node`` has read them: tables ``objects`` and ``cluster``.

A row that is not there is not the same as an object that is not there: the pod waits for it. What
a secret holds is decoded when it is needed, and not kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kubelet import logging as klog
from kubelet.api.pod import Pod
from kubelet.cluster.names import noted
from kubelet.cluster.rows import (
    CLUSTER,
    CONFIG_MAP,
    LISTED_KEY,
    OBJECTS,
    SECRET,
    ListedRow,
    ObjectRow,
    RuntimeClassRow,
    ServiceRow,
    class_key,
    object_key,
)
from kubelet.pods.priority import SOURCE
from kubelet.pods.rows import API
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.configs.lookup import (
    ConfigMap,
    Lookup,
    Secret,
    Service,
    ServicePort,
    no_such_class,
)
from procs.syncloop.configs.needs import Need, Needs

log = klog.get_logger(__name__)

# Longer than ``node`` needs to take a refusal of the API server for its last word: then that word
# is there, and is what the pod says.
KNOWN_SECONDS: Final = 10.0
TELL_SECONDS: Final = 15.0  # by then a pod tries again by itself


class TableLookup:
    """Knows what ``node`` has read; ``certain``: what is not known will be."""

    def __init__(
        self, process: Process, *, certain: bool = True, seconds: float = KNOWN_SECONDS
    ) -> None:
        self._process = process
        self._certain = certain
        self._seconds = seconds
        self._services: dict[str, tuple[int, Service | None]] = {}  # by key, with the generation

    # What there is.

    def secret(self, namespace: str, name: str) -> Secret | None:
        """Return a secret; None: there is none."""
        row = self._object(SECRET, namespace, name)
        return None if row is None else Secret(row.data)

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """Return a config map; what it has of binary data is not for variables."""
        row = self._object(CONFIG_MAP, namespace, name)
        if row is None:
            return None
        texts = {key: data for key, data in row.data.items() if key not in row.binary}
        return ConfigMap({k: data.decode(errors="surrogateescape") for k, data in texts.items()})

    def _object(self, kind: str, namespace: str, name: str) -> ObjectRow | None:
        if not noted(name):  # no object can have that name
            return None
        row = self.row(kind, namespace, name)
        if row is None and self._certain:
            raise ConfigError(f"failed to sync {kind} cache: timed out waiting for the condition")
        if row is None or row.found:
            return row  # what was read holds, whatever became of a later read
        if row.error:
            raise ConfigError(row.error)
        return None

    def row(self, kind: str, namespace: str, name: str) -> ObjectRow | None:
        """Return the row of a secret or config map; None: there is none yet."""
        value = self._process.tables.value(OBJECTS, object_key(kind, namespace, name))
        try:
            return None if value is None else ObjectRow.from_wire(value)
        except BadRecordError:  # its text is not shown: it may say what a secret holds
            log.error("Row cannot be read", table=OBJECTS, kind=kind, name=f"{namespace}/{name}")
            return None

    def services(self, namespace: str) -> tuple[Service, ...] | None:
        """Return the services of a namespace; None: they have not been read yet (P-172)."""
        if not self._listed().services:
            return None
        prefix = f"service/{namespace}/"
        keys = [key for key in self._process.tables.keys(CLUSTER) if key.startswith(prefix)]
        for gone in [k for k in self._services if k.startswith(prefix) and k not in set(keys)]:
            del self._services[gone]
        found = (self._service(key) for key in keys)
        return tuple(service for service in found if service is not None)

    def _service(self, key: str) -> Service | None:
        entry = self._process.tables.get(CLUSTER, key)
        if entry is None:
            return None
        generation, known = self._services.get(key, (-1, None))
        if generation != entry.generation:
            known = _service_of(self._process.tables.value(CLUSTER, key), key)
            self._services[key] = (entry.generation, known)
        return known

    def runtime_handler(self, pod: Pod) -> str:
        """Return the runtime handler of a pod's class (P-164)."""
        name = pod.spec.runtime_class_name
        if not name:
            return ""
        value = self._process.tables.value(CLUSTER, class_key(name))
        try:
            if value is not None:
                return RuntimeClassRow.from_wire(value).handler
        except BadRecordError as err:
            log.error("Row cannot be read", table=CLUSTER, name=name, err=err)
        if self._certain and not self._listed().runtime_classes:
            text = f"failed to lookup RuntimeClass {name}: runtime classes have not been read yet"
            raise ConfigError(text, SANDBOX)
        raise no_such_class(name)

    def _listed(self) -> ListedRow:
        value = self._process.tables.value(CLUSTER, LISTED_KEY)
        try:
            return ListedRow() if value is None else ListedRow.from_wire(value)
        except BadRecordError:
            return ListedRow()

    # What there will be.

    def of(self, pod: Pod) -> Lookup:
        """Return what is known for a pod: ``node`` reads objects for those of the API server."""
        certain = pod.metadata.annotations.get(SOURCE) == API
        if certain == self._certain:
            return self
        return TableLookup(self._process, certain=certain, seconds=self._seconds)

    def unknown(self, needs: Needs) -> Needs:
        """Return what nothing is known of yet."""
        return tuple(need for need in needs if not self._is_known(need)) if self._certain else ()

    def _is_known(self, need: Need) -> bool:
        if need.listed and getattr(self._listed(), need.listed):
            return True
        return need.key != LISTED_KEY and self._generation(need) != _NEVER

    def _generation(self, need: Need) -> int:
        entry = self._process.tables.get(need.table, need.key)
        return _NEVER if entry is None else entry.generation

    async def known(self, needs: Needs) -> None:
        """Wait until all is known, as long as it is sane to; what is not, says so when used."""
        missing = self.unknown(needs)
        if missing:
            await self._until(missing, lambda: not self.unknown(missing), self._seconds)

    def tell(self, needs: Needs, wake: Callable[[], None]) -> None:
        """Call back when one of the rows is written again: a pod that failed may try then."""
        if not self._certain or not needs:
            return
        now = self._generations(needs)

        async def look_out() -> None:
            if await self._until(needs, lambda: self._generations(needs) != now, TELL_SECONDS):
                wake()

        self._process.spawn(look_out(), name="looking out for objects")

    def _generations(self, needs: Needs) -> tuple[tuple[int, bool], ...]:
        return tuple((self._generation(need), self._is_known(need)) for need in needs)

    async def _until(self, needs: Needs, check: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is true of rows; whether it is."""

        def look() -> bool | None:
            return check() or None

        places = {(need.table, need.key) for need in needs}
        places |= {(need.table, LISTED_KEY) for need in needs if need.listed}
        waiters = self._process.waiters
        waits = [
            asyncio.ensure_future(waiters.wait(table, key, look, seconds)) for table, key in places
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return check()


_NEVER: Final = -1  # the generation of what is not there


def _service_of(value: object, key: str) -> Service | None:
    if value is None:
        return None
    try:
        row = ServiceRow.from_wire(value)
    except BadRecordError as err:
        log.error("Row cannot be read", table=CLUSTER, key=key, err=err)
        return None
    ports = tuple(ServicePort(port.port, port.name, port.protocol) for port in row.ports)
    return Service(row.name, row.namespace, row.cluster_ip, ports)
