"""The flags: those without a field of their own, ours, and those that mirror a field."""

from __future__ import annotations

from typing import Any, Final

from kubelet.config import checks
from kubelet.config.table.node import NODE
from kubelet.config.table.pods import PODS
from kubelet.config.table.resources import RESOURCES
from kubelet.config.table.row import Field, Flag
from kubelet.config.table.serving import SERVING
from kubelet.config.types import (
    BOOL,
    DURATION,
    INTEGER32,
    LABELS,
    STRING,
    Type,
    one_of,
    parse_bool,
)

FIELDS: Final[tuple[Field, ...]] = SERVING + PODS + RESOURCES + NODE
FIELD_BY_PATH: Final[dict[str, Field]] = {field.path: field for field in FIELDS}

# Of the flags that mirror a field, the only ones that are not deprecated.
KEPT: Final = frozenset({"v", "vmodule", "log-flush-frequency", "provider-id", "fail-cgroupv1"})


def _version(text: str) -> str:
    if text == "raw":
        return text
    return "true" if parse_bool(text) else "false"


VERSION_KIND: Final = Type("true, false or raw", one_of("true", "false", "raw").decode, _version)
_GONE: Final = "kept for old command lines; it will go"

ALONE: Final = (
    Flag("config", STRING, "", "Configuration file.", acted_on_by="config"),
    Flag(
        "config-dir",
        STRING,
        "",
        "Directory of *.conf files that are merged over the configuration file, in the order of "
        "their names.",
        acted_on_by="config",
    ),
    Flag(
        "kubeconfig",
        STRING,
        "",
        "How to reach the API server; without it there is none.",
        acted_on_by="node",
    ),
    Flag(
        "bootstrap-kubeconfig",
        STRING,
        "",
        "How to reach the API server for the first credential.",
        acted_on_by="node",
    ),
    Flag(
        "hostname-override",
        STRING,
        "",
        "Node name, instead of the host name.",
        acted_on_by="config",
    ),
    Flag(
        "node-ip",
        STRING,
        "",
        "The node's address, or one of each family with a comma between.",
        acted_on_by="syncloop",
    ),
    Flag(
        "cert-dir",
        STRING,
        "/var/lib/kubelet/pki",
        "Directory of certificates.",
        acted_on_by="node",
    ),
    Flag(
        "root-dir",
        STRING,
        "/var/lib/kubelet",
        "Directory of pods, volumes and plugins.",
        acted_on_by="syncloop",
    ),
    Flag("cloud-provider", STRING, "", 'Must be "external" or empty.', acted_on_by="node"),
    Flag(
        "node-labels",
        LABELS,
        {},
        "Labels that the node is created with: key=value,...",
        acted_on_by="syncloop",
    ),
    Flag(
        "seccomp-default",
        BOOL,
        False,
        "Use RuntimeDefault where a pod names no profile; also on if the file says so.",
        bare="true",
        acted_on_by="syncloop",
    ),
    Flag("runtime-cgroups", STRING, "", "Cgroup that the container runtime runs in."),
    Flag(
        "image-credential-provider-config",
        STRING,
        "",
        "Configuration of credential providers: a file, or a directory of them.",
        acted_on_by="syncloop",
    ),
    Flag(
        "image-credential-provider-bin-dir",
        STRING,
        "",
        "Directory of credential provider programs.",
        acted_on_by="syncloop",
    ),
    Flag("lock-file", STRING, "", "File to lock while running.", acted_on_by="supervisor"),
    Flag(
        "exit-on-lock-contention",
        BOOL,
        False,
        "End when someone else opens the lock file.",
        bare="true",
        acted_on_by="supervisor",
    ),
    Flag("housekeeping-interval", DURATION, "10s", "How often container statistics are read."),
    Flag(
        "minimum-container-ttl-duration",
        DURATION,
        "0s",
        "Time for which a dead container is kept at least.",
        deprecated=_GONE,
        acted_on_by="syncloop",
    ),
    Flag(
        "maximum-dead-containers-per-container",
        INTEGER32,
        1,
        "Dead instances kept of each container.",
        deprecated=_GONE,
        acted_on_by="syncloop",
    ),
    Flag(
        "maximum-dead-containers",
        INTEGER32,
        -1,
        "Dead containers kept in all; negative sets no limit.",
        deprecated=_GONE,
        acted_on_by="syncloop",
    ),
    Flag(
        "experimental-mounter-path", STRING, "", "Mount program to use instead.", deprecated=_GONE
    ),
    Flag(
        "experimental-allocatable-ignore-eviction",
        BOOL,
        False,
        "Leave hard eviction thresholds out of the node's allocatable resources.",
        bare="true",
        deprecated=_GONE,
    ),
    Flag(
        "help", BOOL, False, "Print this and end.", shorthand="h", bare="true", acted_on_by="config"
    ),
    Flag(
        "version",
        VERSION_KIND,
        "false",
        "Print the version and end; raw prints all of it.",
        bare="true",
        acted_on_by="config",
    ),
)

OWN: Final = (
    Flag(
        "run-dir",
        STRING,
        "/run/kubelet",
        "Directory of sockets, shared memory and state of the running kubelet.",
        check=checks.absolute_path,
        own=True,
        acted_on_by="supervisor",
    ),
    Flag(
        "heartbeat-timeout",
        DURATION,
        "5s",
        "Silence after which a process counts as stuck and is replaced.",
        check=checks.period("500ms"),
        own=True,
        acted_on_by="supervisor",
    ),
    Flag(
        "heartbeat-interval",
        DURATION,
        "500ms",
        "How often a process says that it is alive; at most a quarter of the time-out, which a "
        "shorter time-out makes the default.",
        check=checks.positive_period,
        own=True,
        acted_on_by="supervisor",
    ),
    Flag(
        "unprivileged-user",
        STRING,
        "kubelet",
        "User that processes without root run as: a name, or uid[:gid].",
        check=checks.user,
        own=True,
        acted_on_by="supervisor",
    ),
)


def _mirror(field: Field) -> Flag:
    """Make the flag that sets a field."""
    assert field.flag is not None
    instead = "" if field.flag in KEPT else f"set {field.path} in the file given by --config"
    return Flag(
        name=field.flag,
        type=field.type,
        default=field.default,
        help=field.help,
        field=field.path,
        shorthand="v" if field.flag == "v" else "",
        bare="true" if field.type is BOOL else None,
        deprecated=instead,
        acted_on_by=field.acted_on_by,
    )


MIRRORS: Final = tuple(_mirror(field) for field in FIELDS if field.flag)
FLAGS: Final[tuple[Flag, ...]] = tuple(sorted(ALONE + OWN + MIRRORS, key=lambda flag: flag.name))
FLAG_BY_NAME: Final[dict[str, Flag]] = {flag.name: flag for flag in FLAGS}
FLAG_BY_SHORTHAND: Final = {flag.shorthand: flag for flag in FLAGS if flag.shorthand}

# Flags that older Go kubelets had; the value says what became of them. A name that ends in "-"
# stands for every flag that begins so.
REMOVED: Final[dict[str, str]] = {
    "allow-privileged": "pods may always be privileged; use admission control",
    "azure-container-registry-config": "use --image-credential-provider-config",
    "cadvisor-port": "use /metrics/cadvisor of the kubelet's API",
    "cloud-config": "cloud providers run outside the kubelet",
    "cni-": "the container runtime is configured for networking",
    "container-runtime": "every runtime is reached through containerRuntimeEndpoint",
    "docker-": "every runtime is reached through containerRuntimeEndpoint",
    "dynamic-config-dir": "use --config and --config-dir",
    "event-storage-": "events are not stored on the node any more",
    "iptables-drop-bit": "set iptablesDropBit in the configuration file",
    "iptables-masquerade-bit": "set iptablesMasqueradeBit in the configuration file",
    "keep-terminated-pod-volumes": "volumes of ended pods are always unmounted",
    "network-plugin": "the container runtime is configured for networking",
    "network-plugin-": "the container runtime is configured for networking",
    "non-masquerade-cidr": "use an ip-masq agent",
    "pod-infra-container-image": "the container runtime is configured for the pause image",
    "register-schedulable": "use --register-with-taints",
}
# Flags that the Go kubelet has on another system only.
ELSEWHERE: Final[dict[str, str]] = {
    "windows-priorityclass": "a flag of the kubelet for Windows",
    "windows-service": "a flag of the kubelet for Windows",
}


def defaults() -> dict[str, Any]:
    """Return the default of every flag that does not mirror a field."""
    return {flag.name: flag.default for flag in FLAGS if flag.field is None}
