"""Objects of the cluster that a pod refers to, and who knows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from kubelet.api.pod import Pod
from procs.syncloop.configs.errors import SANDBOX, ConfigError
from procs.syncloop.configs.needs import Needs


@dataclass(frozen=True, slots=True)
class Secret:
    """The data of a secret."""

    data: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """The data of a config map."""

    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of a service."""

    port: int
    name: str = ""
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class Service:
    """A service as containers learn of it; one without an address of its own is headless."""

    name: str
    namespace: str
    cluster_ip: str = ""
    ports: tuple[ServicePort, ...] = ()


class Lookup(Protocol):
    """Knows objects of the cluster.

    What could not be had, or is not known yet, is a ConfigError, which says so.
    """

    def secret(self, namespace: str, name: str) -> Secret | None:
        """Return a secret; None: there is none."""

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """Return a config map; None: there is none."""

    def services(self, namespace: str) -> tuple[Service, ...] | None:
        """Return the services of a namespace; None: they have not been read yet (P-172)."""

    def runtime_handler(self, pod: Pod) -> str:
        """Return the runtime handler of a pod's class; ConfigError: there is no such class."""

    def of(self, pod: Pod) -> Lookup:
        """Return what is known for a pod: nothing is read for those that are this node's own."""

    def unknown(self, needs: Needs) -> Needs:
        """Return what nothing is known of yet, and may be any moment."""

    async def known(self, needs: Needs) -> None:
        """Wait, for a while, until it is known of everything whether and what it is."""

    def tell(self, needs: Needs, wake: Callable[[], None]) -> None:
        """Call back, for a while, when something that does not serve as it is becomes another."""


class Nothing:
    """A node without an API server: there is no object at all, and that is certain."""

    def secret(self, namespace: str, name: str) -> Secret | None:
        """Know no secret."""
        del namespace, name
        return None

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """Know no config map."""
        del namespace, name
        return None

    def services(self, namespace: str) -> tuple[Service, ...] | None:
        """Know that there is no service."""
        del namespace
        return ()

    def runtime_handler(self, pod: Pod) -> str:
        """Know that there is no runtime class (P-164)."""
        name = pod.spec.runtime_class_name
        if name:
            raise no_such_class(name)
        return ""

    def of(self, pod: Pod) -> Lookup:
        """Know the same for every pod."""
        del pod
        return self

    def unknown(self, needs: Needs) -> Needs:
        """Know that nothing will ever come."""
        del needs
        return ()

    async def known(self, needs: Needs) -> None:
        """Wait for nothing."""

    def tell(self, needs: Needs, wake: Callable[[], None]) -> None:
        """Tell nothing: there is never any news."""


def no_such_class(name: str) -> ConfigError:
    """Return what is said of a pod whose runtime class is not there (P-164)."""
    return ConfigError(f'runtimeclass.node.k8s.io "{name}" not found', SANDBOX)


NOTHING: Final = Nothing()
