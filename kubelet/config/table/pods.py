"""Fields about running pods: runtime, images, logs, volumes, DNS, eviction, shutdown."""

from __future__ import annotations

from typing import Final

from kubelet import durations
from kubelet.config import checks
from kubelet.config.structs import SHUTDOWN_STEPS
from kubelet.config.table.row import Field
from kubelet.config.types import (
    BOOL,
    DURATION,
    INTEGER32,
    INTEGER64,
    QUANTITY_STRING,
    STRING,
    list_of,
    map_of,
    one_of,
)

_NOT_NEGATIVE: Final = checks.at_least(0)
_PERCENT: Final = checks.between(0, 100)
_BIT: Final = checks.between(0, 31)
_STRINGS: Final = map_of(STRING)
_THRESHOLDS: Final = map_of(STRING, "<")

# E-1: the hard thresholds of Linux.
EVICTION_HARD: Final = {
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
}


def _ids_per_pod(value: int) -> str | None:
    good = value >= 65536 and value % 65536 == 0 and value <= (1 << 32) - 1
    return None if good else f"must be a multiple of 65536, at most {(1 << 32) - 1}"


def _not_negative_period(value: str) -> str | None:
    return None if durations.parse(value) >= 0 else "must not be negative"


RUNTIME: Final = (
    Field(
        "containerRuntimeEndpoint",
        STRING,
        "unix:///run/containerd/containerd.sock",
        "Socket of the container runtime.",
        "container-runtime-endpoint",
        checks.not_empty,
        zero_unset=True,
        acted_on_by="pleg",
    ),
    Field(
        "imageServiceEndpoint",
        STRING,
        "",
        "Socket of the image service; empty means the runtime's own.",
        "image-service-endpoint",
        acted_on_by="syncloop",
    ),
    Field(
        "runtimeRequestTimeout",
        DURATION,
        "2m0s",
        "Time limit of a call to the runtime; pulls, logs and exec have none.",
        "runtime-request-timeout",
        zero_unset=True,
        acted_on_by="pleg",
    ),
    Field(
        "podLogsDir",
        STRING,
        "/var/log/pods",
        "Directory under which the runtime writes the logs of containers.",
        check=checks.pod_logs_dir,
        zero_unset=True,
        relative=True,
        acted_on_by="syncloop",
    ),
    Field(
        "containerLogMaxSize",
        QUANTITY_STRING,
        "10Mi",
        "Size at which a container's log is rotated; negative turns rotation off.",
        "container-log-max-size",
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "containerLogMaxFiles",
        INTEGER32,
        5,
        "Log files kept for each container.",
        "container-log-max-files",
        checks.at_least(2),
        acted_on_by="syncloop",
    ),
    Field(
        "containerLogMaxWorkers",
        INTEGER32,
        1,
        "Logs rotated at the same time.",
        check=checks.at_least(1),
        acted_on_by="syncloop",
    ),
    Field(
        "containerLogMonitorInterval",
        DURATION,
        "10s",
        "How often log sizes are looked at.",
        check=checks.period("3s"),
        acted_on_by="syncloop",
    ),
    Field("runOnce", BOOL, False, "Not supported any more.", "runonce", checks.only_false),
    Field(
        "crashLoopBackOff.maxContainerRestartPeriod",
        DURATION,
        "5m0s",
        "Longest wait before a crashing container is started again.",
        check=checks.period("1s", "5m"),
        acted_on_by="syncloop",
    ),
    Field(
        "seccompDefault",
        BOOL,
        False,
        "Use RuntimeDefault where a pod names no profile.",
        acted_on_by="syncloop",
    ),
    Field(
        "userNamespaces.idsPerPod",
        INTEGER64,
        65536,
        "User and group ids that a pod with its own user namespace gets.",
        check=_ids_per_pod,
        acted_on_by="syncloop",
    ),
    Field(
        "allowedUnsafeSysctls",
        list_of(STRING),
        [],
        "Sysctls beyond the safe ones that pods may set; a name, or a prefix with *.",
        "allowed-unsafe-sysctls",
        acted_on_by="syncloop",
    ),
    Field(
        "defaultPodSysctls",
        _STRINGS,
        {},
        "Sysctls that every pod gets unless it sets them.",
        acted_on_by="syncloop",
    ),
)

IMAGES: Final = (
    Field(
        "registryPullQPS",
        INTEGER32,
        5,
        "Image pulls a second; 0 sets no limit.",
        "registry-qps",
        _NOT_NEGATIVE,
        acted_on_by="syncloop",
    ),
    Field(
        "registryBurst",
        INTEGER32,
        10,
        "Image pulls at once while registryPullQPS is kept on average.",
        "registry-burst",
        _NOT_NEGATIVE,
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "imagePullCredentialsVerificationPolicy",
        one_of(
            "NeverVerify",
            "NeverVerifyPreloadedImages",
            "NeverVerifyAllowlistedImages",
            "AlwaysVerify",
        ),
        "NeverVerifyPreloadedImages",
        "When a pod must prove that it may use an image that is already here.",
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "preloadedImagesVerificationAllowlist",
        list_of(STRING),
        [],
        "Images that need no proof: names without tag or digest, or host/path/*.",
        acted_on_by="syncloop",
    ),
    Field(
        "serializeImagePulls",
        BOOL,
        True,
        "Pull one image at a time; off by itself when maxParallelImagePulls is 2 or more.",
        "serialize-image-pulls",
        acted_on_by="syncloop",
    ),
    Field(
        "maxParallelImagePulls",
        INTEGER32,
        None,
        "Images pulled at the same time; unset means no limit of its own.",
        check=checks.at_least(1),
        acted_on_by="syncloop",
    ),
    Field(
        "imageMinimumGCAge",
        DURATION,
        "2m0s",
        "Time for which an unused image is kept at least.",
        "minimum-image-ttl-duration",
        _not_negative_period,
        zero_unset=True,
    ),
    Field(
        "imageMaximumGCAge",
        DURATION,
        "0s",
        "Time after which an unused image is removed; 0 means never for its age.",
        check=_not_negative_period,
    ),
    Field(
        "imageGCHighThresholdPercent",
        INTEGER32,
        85,
        "Disk usage at which unused images are removed.",
        "image-gc-high-threshold",
        _PERCENT,
    ),
    Field(
        "imageGCLowThresholdPercent",
        INTEGER32,
        80,
        "Disk usage down to which unused images are removed.",
        "image-gc-low-threshold",
        _PERCENT,
    ),
)

VOLUMES: Final = (
    Field(
        "volumeStatsAggPeriod",
        DURATION,
        "1m0s",
        "How often the disk usage of volumes is measured; negative turns it off.",
        "volume-stats-agg-period",
        zero_unset=True,
        acted_on_by="volumes",
    ),
    Field(
        "volumePluginDir",
        STRING,
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "Directory of FlexVolume drivers.",
        "volume-plugin-dir",
        zero_unset=True,
        relative=True,
    ),
    Field(
        "enableControllerAttachDetach",
        BOOL,
        True,
        "Leave attaching volumes to the controller in the control plane.",
        "enable-controller-attach-detach",
        acted_on_by="node",
    ),
    Field(
        "configMapAndSecretChangeDetectionStrategy",
        one_of("Get", "Cache", "Watch"),
        "Watch",
        "How changes of config maps and secrets are noticed.",
        zero_unset=True,
        acted_on_by="node",
    ),
    Field(
        "localStorageCapacityIsolation",
        BOOL,
        True,
        "Account and limit the local storage of pods.",
        "local-storage-capacity-isolation",
    ),
)

NETWORK: Final = (
    Field(
        "clusterDomain",
        STRING,
        "",
        "DNS domain of the cluster.",
        "cluster-domain",
        acted_on_by="syncloop",
    ),
    Field(
        "clusterDNS",
        list_of(STRING),
        [],
        "IP addresses of the cluster's DNS.",
        "cluster-dns",
        acted_on_by="syncloop",
    ),
    Field(
        "resolvConf",
        STRING,
        "/etc/resolv.conf",
        "Resolver file on which pods' own ones are based.",
        "resolv-conf",
        relative=True,
        acted_on_by="syncloop",
    ),
    Field(
        "hairpinMode",
        one_of("promiscuous-bridge", "hairpin-veth", "none"),
        "promiscuous-bridge",
        "Checked and kept for compatibility; the network plugin decides.",
        "hairpin-mode",
        zero_unset=True,
    ),
    Field("podCIDR", STRING, "", "Pods' address range, without an API server only.", "pod-cidr"),
    Field(
        "makeIPTablesUtilChains",
        BOOL,
        True,
        "Keep the KUBE-* iptables chains in place.",
        "make-iptables-util-chains",
    ),
    Field("iptablesMasqueradeBit", INTEGER32, 14, "Packet mark bit for SNAT.", check=_BIT),
    Field("iptablesDropBit", INTEGER32, 15, "Packet mark bit for drops.", check=_BIT),
)

EVICTION: Final = (
    Field(
        "evictionHard",
        _THRESHOLDS,
        EVICTION_HARD,
        "Thresholds at which pods are evicted at once.",
        "eviction-hard",
    ),
    Field(
        "evictionSoft",
        _THRESHOLDS,
        {},
        "Thresholds at which pods are evicted after a grace period.",
        "eviction-soft",
    ),
    Field(
        "evictionSoftGracePeriod",
        _STRINGS,
        {},
        "Grace period of each signal in evictionSoft.",
        "eviction-soft-grace-period",
    ),
    Field(
        "evictionPressureTransitionPeriod",
        DURATION,
        "5m0s",
        "Time for which a pressure condition stays after its cause.",
        "eviction-pressure-transition-period",
        zero_unset=True,
    ),
    Field(
        "evictionMaxPodGracePeriod",
        INTEGER32,
        0,
        "Longest termination grace, in seconds, of a pod evicted softly.",
        "eviction-max-pod-grace-period",
    ),
    Field(
        "evictionMinimumReclaim",
        _STRINGS,
        {},
        "How much to gain at least when a signal's threshold was met.",
        "eviction-minimum-reclaim",
    ),
    Field(
        "mergeDefaultEvictionSettings",
        BOOL,
        False,
        "Fill in the default thresholds of signals that evictionHard does not name.",
    ),
)

SHUTDOWN: Final = (
    Field(
        "shutdownGracePeriod",
        DURATION,
        "0s",
        "Time by which a node shutdown is delayed for its pods.",
        check=checks.zero_or_second,
    ),
    Field(
        "shutdownGracePeriodCriticalPods",
        DURATION,
        "0s",
        "Part of shutdownGracePeriod that is kept for critical pods.",
        check=checks.zero_or_second,
    ),
    Field(
        "shutdownGracePeriodByPodPriority",
        SHUTDOWN_STEPS,
        [],
        "Time to stop for pods of each priority, instead of the two above.",
    ),
)

PODS: Final = RUNTIME + IMAGES + VOLUMES + NETWORK + EVICTION + SHUTDOWN
