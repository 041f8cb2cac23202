"""CSI drivers of the cluster: what a CSIDriver object asks of a kubelet (L-45, L-47)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kubelet import logging as klog
from kubelet.cluster.names import noted
from kubelet.cluster.rows import CLUSTER, CsiDriverRow, TokenRequestRow, driver_key
from kubelet.pods.wire import BadRecordError
from kubelet.process import Process
from procs.node.apiserver.types import Json, Watched
from procs.node.kit import Kit
from procs.node.objects.mirrored import Mirrored

log = klog.get_logger(__name__)

PATH: Final = "/apis/storage.k8s.io/v1/csidrivers"
_PREFIX: Final = driver_key("")
TOKEN_SECONDS: Final = 3600  # where a driver does not say for how long it wants a token
_POLICY: Final = "ReadWriteOnceWithFSType"
_MODES: Final = ("Persistent",)


class CsiDrivers:
    """Keeps table ``cluster`` true about CSI drivers; ``changed`` is told the name of each."""

    def __init__(self, kit: Kit, changed: Callable[[str], None]) -> None:
        self._mirrored = Mirrored(
            kit,
            watched=Watched(PATH, name="CSI drivers"),
            prefix=_PREFIX,
            key_of=key_of,
            row_of=row_of,
            kind="csi_drivers",
            changed=lambda key: changed(key.removeprefix(_PREFIX)),
        )

    def start(self) -> None:
        """List and watch."""
        self._mirrored.start()


def driver(process: Process, name: str) -> CsiDriverRow | None:
    """Return what is known of a driver; None: there is no such object, for all we know."""
    value = process.tables.value(CLUSTER, driver_key(name)) if noted(name) else None
    try:
        return None if value is None else CsiDriverRow.from_wire(value)
    except BadRecordError:
        return None


def key_of(item: Json) -> str:
    """Return the key of a driver; "": it has no name."""
    name = _map(item.get("metadata")).get("name")
    if not isinstance(name, str) or not noted(name):
        log.warning("CSI driver is passed over", field="metadata.name")
        return ""
    return driver_key(name)


def row_of(item: Json) -> CsiDriverRow:
    """Return the row of a driver; what is absent or odd is as the API defaults it."""
    name: str = item["metadata"]["name"]
    spec = _map(item.get("spec"))
    policy = spec.get("fsGroupPolicy")
    return CsiDriverRow(
        name,
        attach_required=spec.get("attachRequired") is not False,
        pod_info_on_mount=spec.get("podInfoOnMount") is True,
        fs_group_policy=policy if isinstance(policy, str) and policy else _POLICY,
        lifecycle_modes=_texts(spec.get("volumeLifecycleModes")) or _MODES,
        requires_republish=spec.get("requiresRepublish") is True,
        token_requests=tuple(_token_requests(name, spec.get("tokenRequests"))),
        tokens_in_secrets=spec.get("serviceAccountTokenInSecrets") is True,
        selinux_mount=spec.get("seLinuxMount") is True,
        update_seconds=_number(spec.get("nodeAllocatableUpdatePeriodSeconds")),
    )


def _token_requests(name: str, value: Any) -> Iterator[TokenRequestRow]:
    for item in value if isinstance(value, list) else ():
        audience = _map(item).get("audience")
        if not isinstance(audience, str):
            log.warning("Token request is passed over", driver=name, field="spec.tokenRequests")
            continue
        yield TokenRequestRow(audience, _number(item.get("expirationSeconds")) or TOKEN_SECONDS)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
