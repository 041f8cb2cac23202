"""The table holds every field, flag and gate of the fact tables, with its default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubelet import config, durations
from kubelet.config import reference
from kubelet.config.gates import GATES, Stage
from kubelet.config.table import ELSEWHERE, FIELD_BY_PATH, FIELDS, FLAG_BY_NAME, FLAGS, REMOVED

# Table 1.3: field, default, flag.
FACTS = """
enableServer true enable-server
staticPodPath "" pod-manifest-path
staticPodURL "" manifest-url
staticPodURLHeader {} manifest-url-header
podLogsDir /var/log/pods -
syncFrequency 1m sync-frequency
fileCheckFrequency 20s file-check-frequency
httpCheckFrequency 20s http-check-frequency
address 0.0.0.0 address
port 10250 port
readOnlyPort 0 read-only-port
tlsCertFile "" tls-cert-file
tlsPrivateKeyFile "" tls-private-key-file
tlsCipherSuites [] tls-cipher-suites
tlsMinVersion "" tls-min-version
tlsCurvePreferences [] -
rotateCertificates false rotate-certificates
serverTLSBootstrap false rotate-server-certificates
authentication.x509.clientCAFile "" client-ca-file
authentication.webhook.enabled true authentication-token-webhook
authentication.webhook.cacheTTL 2m authentication-token-webhook-cache-ttl
authentication.anonymous.enabled false anonymous-auth
authorization.mode Webhook authorization-mode
authorization.webhook.cacheAuthorizedTTL 5m authorization-webhook-cache-authorized-ttl
authorization.webhook.cacheUnauthorizedTTL 30s authorization-webhook-cache-unauthorized-ttl
registryPullQPS 5 registry-qps
registryBurst 10 registry-burst
imagePullCredentialsVerificationPolicy NeverVerifyPreloadedImages -
preloadedImagesVerificationAllowlist [] -
eventRecordQPS 50 event-qps
eventBurst 100 event-burst
enableDebuggingHandlers true enable-debugging-handlers
enableContentionProfiling false contention-profiling
enableProfilingHandler true -
enableDebugFlagsHandler true -
enableSystemLogHandler true -
enableSystemLogQuery false -
healthzPort 10248 healthz-port
healthzBindAddress 127.0.0.1 healthz-bind-address
oomScoreAdj -999 oom-score-adj
clusterDomain "" cluster-domain
clusterDNS [] cluster-dns
streamingConnectionIdleTimeout 4h streaming-connection-idle-timeout
nodeStatusUpdateFrequency 10s node-status-update-frequency
nodeStatusReportFrequency 5m -
nodeLeaseDurationSeconds 40 -
imageMinimumGCAge 2m minimum-image-ttl-duration
imageMaximumGCAge 0s -
imageGCHighThresholdPercent 85 image-gc-high-threshold
imageGCLowThresholdPercent 80 image-gc-low-threshold
volumeStatsAggPeriod 1m volume-stats-agg-period
kubeletCgroups "" kubelet-cgroups
systemCgroups "" system-cgroups
cgroupRoot "" cgroup-root
cgroupsPerQOS true cgroups-per-qos
cgroupDriver cgroupfs cgroup-driver
singleProcessOOMKill unset -
cpuManagerPolicy none cpu-manager-policy
cpuManagerPolicyOptions {} cpu-manager-policy-options
cpuManagerReconcilePeriod 10s cpu-manager-reconcile-period
memoryManagerPolicy None memory-manager-policy
reservedMemory [] reserved-memory
topologyManagerPolicy none topology-manager-policy
topologyManagerScope container topology-manager-scope
topologyManagerPolicyOptions {} topology-manager-policy-options
qosReserved {} qos-reserved
runtimeRequestTimeout 2m runtime-request-timeout
hairpinMode promiscuous-bridge hairpin-mode
maxPods 110 max-pods
podsPerCore 0 pods-per-core
podCIDR "" pod-cidr
podPidsLimit -1 pod-max-pids
resolvConf /etc/resolv.conf resolv-conf
runOnce false runonce
cpuCFSQuota true cpu-cfs-quota
cpuCFSQuotaPeriod 100ms cpu-cfs-quota-period
nodeStatusMaxImages 50 node-status-max-images
maxOpenFiles 1000000 max-open-files
contentType application/vnd.kubernetes.protobuf kube-api-content-type
kubeAPIQPS 50 kube-api-qps
kubeAPIBurst 100 kube-api-burst
serializeImagePulls true serialize-image-pulls
maxParallelImagePulls unset -
evictionHard E-1 eviction-hard
evictionSoft {} eviction-soft
evictionSoftGracePeriod {} eviction-soft-grace-period
evictionPressureTransitionPeriod 5m eviction-pressure-transition-period
evictionMaxPodGracePeriod 0 eviction-max-pod-grace-period
evictionMinimumReclaim {} eviction-minimum-reclaim
mergeDefaultEvictionSettings false -
enableControllerAttachDetach true enable-controller-attach-detach
protectKernelDefaults false protect-kernel-defaults
makeIPTablesUtilChains true make-iptables-util-chains
iptablesMasqueradeBit 14 -
iptablesDropBit 15 -
featureGates {} feature-gates
failSwapOn true fail-swap-on
memorySwap.swapBehavior "" -
containerLogMaxSize 10Mi container-log-max-size
containerLogMaxFiles 5 container-log-max-files
containerLogMaxWorkers 1 -
containerLogMonitorInterval 10s -
configMapAndSecretChangeDetectionStrategy Watch -
systemReserved {} system-reserved
kubeReserved {} kube-reserved
reservedSystemCPUs "" reserved-cpus
showHiddenMetricsForVersion "" -
systemReservedCgroup "" system-reserved-cgroup
kubeReservedCgroup "" kube-reserved-cgroup
enforceNodeAllocatable ["pods"] enforce-node-allocatable
allowedUnsafeSysctls [] allowed-unsafe-sysctls
defaultPodSysctls {} -
volumePluginDir /usr/libexec/kubernetes/kubelet-plugins/volume/exec/ volume-plugin-dir
providerID "" provider-id
kernelMemcgNotification false kernel-memcg-notification
logging.format text logging-format
logging.flushFrequency 5s log-flush-frequency
logging.verbosity 0 v
logging.vmodule [] vmodule
logging.options.text.splitStream false log-text-split-stream
logging.options.text.infoBufferSize "0" log-text-info-buffer-size
logging.options.json.splitStream false log-json-split-stream
logging.options.json.infoBufferSize "0" log-json-info-buffer-size
shutdownGracePeriod 0s -
shutdownGracePeriodCriticalPods 0s -
shutdownGracePeriodByPodPriority [] -
crashLoopBackOff.maxContainerRestartPeriod 300s -
seccompDefault false -
memoryThrottlingFactor unset -
memoryReservationPolicy None -
registerWithTaints [] register-with-taints
registerNode true register-node
tracing.endpoint unset -
tracing.samplingRatePerMillion unset -
localStorageCapacityIsolation true local-storage-capacity-isolation
containerRuntimeEndpoint unix:///run/containerd/containerd.sock container-runtime-endpoint
imageServiceEndpoint "" image-service-endpoint
failCgroupV1 true fail-cgroupv1
userNamespaces.idsPerPod 65536 -
"""
ROWS = [line.split() for line in FACTS.strip().splitlines()]
WORDS = {"true": True, "false": False, '""': "", "{}": {}, "[]": [], "unset": None}
E_1 = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}

# Table 1.2: flags without a field.
FLAG_FACTS = {
    "config": "",
    "config-dir": "",
    "kubeconfig": "",
    "bootstrap-kubeconfig": "",
    "hostname-override": "",
    "node-ip": "",
    "cert-dir": "/var/lib/kubelet/pki",
    "root-dir": "/var/lib/kubelet",
    "cloud-provider": "",
    "node-labels": {},
    "seccomp-default": False,
    "runtime-cgroups": "",
    "image-credential-provider-config": "",
    "image-credential-provider-bin-dir": "",
    "lock-file": "",
    "exit-on-lock-contention": False,
    "housekeeping-interval": "10s",
    "version": "false",
    "help": False,
    "minimum-container-ttl-duration": "0s",
    "maximum-dead-containers-per-container": 1,
    "maximum-dead-containers": -1,
    "experimental-mounter-path": "",
    "experimental-allocatable-ignore-eviction": False,
    "run-dir": "/run/kubelet",
    "heartbeat-timeout": "5s",
    "heartbeat-interval": "500ms",
    "unprivileged-user": "kubelet",
}
BY_SYNCLOOP = """
allowedUnsafeSysctls
cgroupRoot
cgroupsPerQOS
clusterDNS
clusterDomain
containerLogMaxFiles
containerLogMaxSize
containerLogMaxWorkers
containerLogMonitorInterval
cpuCFSQuota
cpuCFSQuotaPeriod
crashLoopBackOff.maxContainerRestartPeriod
defaultPodSysctls
fileCheckFrequency
httpCheckFrequency
imagePullCredentialsVerificationPolicy
imageServiceEndpoint
kubeReserved
maxParallelImagePulls
maxPods
memoryReservationPolicy
memorySwap.swapBehavior
memoryThrottlingFactor
podLogsDir
podPidsLimit
podsPerCore
preloadedImagesVerificationAllowlist
registryBurst
registryPullQPS
reservedSystemCPUs
resolvConf
seccompDefault
serializeImagePulls
singleProcessOOMKill
staticPodPath
staticPodURL
staticPodURLHeader
syncFrequency
systemReserved
userNamespaces.idsPerPod
"""
BY_NODE = """
enableControllerAttachDetach
eventBurst
eventRecordQPS
kubeAPIBurst
kubeAPIQPS
nodeLeaseDurationSeconds
nodeStatusMaxImages
nodeStatusReportFrequency
nodeStatusUpdateFrequency
providerID
registerNode
registerWithTaints
"""
ACTED_ON = {
    "volumeStatsAggPeriod": "volumes",
    "configMapAndSecretChangeDetectionStrategy": "node",
    "rotateCertificates": "node",
    "serverTLSBootstrap": "node",
    "tlsCertFile": "node",
    "tlsPrivateKeyFile": "node",
    "containerRuntimeEndpoint": "pleg",
    "runtimeRequestTimeout": "pleg",
    "healthzPort": "api",
    "healthzBindAddress": "api",
    "oomScoreAdj": "supervisor",
    "maxOpenFiles": "supervisor",
    "featureGates": "config",
    "failSwapOn": "startup",
    "failCgroupV1": "startup",
    "protectKernelDefaults": "startup",
}
ACTED_ON |= dict.fromkeys(BY_SYNCLOOP.split(), "syncloop")
ACTED_ON |= dict.fromkeys(BY_NODE.split(), "node")


def _value(path, text):
    if text == "E-1":
        return E_1
    if text in WORDS:
        return WORDS[text]
    if text.startswith(("[", '"')):
        return json.loads(text)
    kind = FIELD_BY_PATH[path].type
    if kind.name == "duration":
        return durations.render(durations.parse(text))
    return kind.parse(text)


@pytest.mark.parametrize(("path", "default", "flag"), ROWS, ids=[row[0] for row in ROWS])
def test_every_field_of_the_facts_is_there(path, default, flag):
    """Table 1.3: each field has its default and its flag."""
    row = FIELD_BY_PATH[path]
    assert row.default == _value(path, default)
    assert row.flag == (None if flag == "-" else flag)


def test_no_field_beyond_the_facts():
    """The table invents no field, and lists none twice."""
    assert sorted(row.path for row in FIELDS) == sorted(row[0] for row in ROWS)


@pytest.mark.parametrize(("name", "default"), FLAG_FACTS.items())
def test_every_flag_of_the_facts_is_there(name, default):
    """Table 1.2 and our own: each flag has its default."""
    assert FLAG_BY_NAME[name].default == default


def test_no_flag_beyond_the_facts():
    """Every flag is one of the facts, ours, or mirrors a field; none is listed twice."""
    mirrors = [row[2] for row in ROWS if row[2] != "-"]
    assert sorted(flag.name for flag in FLAGS) == sorted([*FLAG_FACTS, *mirrors])


@pytest.mark.parametrize(
    "name",
    [
        "container-runtime",
        "pod-infra-container-image",
        "network-plugin",
        "cni-",
        "cloud-config",
        "keep-terminated-pod-volumes",
        "iptables-masquerade-bit",
        "iptables-drop-bit",
        "register-schedulable",
        "azure-container-registry-config",
        "event-storage-",
    ],
)
def test_removed_flags_are_known_as_removed(name):
    """Table 1.2, last row: gone flags are not flags, but have a hint."""
    assert name in REMOVED
    assert name not in FLAG_BY_NAME


def test_windows_flags_are_known_as_such():
    """The flags of the kubelet for Windows are named as what they are."""
    assert set(ELSEWHERE) == {"windows-service", "windows-priorityclass"}


def test_mirrors_are_deprecated_but_for_five():
    """Table 1.2: a flag that mirrors a field is deprecated, with five exceptions."""
    kept = {flag.name for flag in FLAGS if flag.field and not flag.deprecated}
    assert kept == {"v", "vmodule", "log-flush-frequency", "provider-id", "fail-cgroupv1"}


def test_who_acts_on_what():
    """What is acted on today is marked, and nothing else is."""
    marked = {row.path: row.acted_on_by for row in FIELDS if row.acted_on_by}
    logging = {row.path: "all" for row in FIELDS if row.path.startswith("logging.")}
    assert marked == ACTED_ON | logging
    assert len(logging) == 8


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row.path)
def test_defaults_pass_their_own_type_and_check(row):
    """A default could be written into the file as it is."""
    if row.default is None:
        return
    assert row.type.decode(row.default) == row.default
    assert row.check is None or row.check(row.default) is None
    assert row.help.endswith(".")


@pytest.mark.parametrize(
    ("name", "stage", "default", "locked"),
    [
        ("NodeSwap", Stage.GA, True, True),
        ("ServiceAccountTokenPodNodeInfo", Stage.GA, True, True),
        ("CustomCPUCFSQuotaPeriod", Stage.GA, True, False),
        ("SELinuxMount", Stage.GA, True, False),
        ("MemoryQoS", Stage.BETA, True, False),
        ("PodAndContainerStatsFromCRI", Stage.BETA, False, False),
        ("EventedPLEG", Stage.ALPHA, False, False),
        ("InPlacePodVerticalScalingExclusiveMemory", Stage.ALPHA, False, False),
        ("DisableNodeKubeProxyVersion", Stage.DEPRECATED, True, True),
        ("GitRepoVolumeDriver", Stage.DEPRECATED, False, True),
        ("AllowDNSOnlyNodeCSR", Stage.DEPRECATED, False, False),
        ("KubeletPodResourcesListUseActivePods", Stage.DEPRECATED, True, False),
        ("AllAlpha", Stage.ALPHA, False, False),
        ("AllBeta", Stage.BETA, False, False),
    ],
)
def test_gates_of_each_row_of_the_facts(name, stage, default, locked):
    """Table 0.1: state and default, one or two of each row."""
    gate = GATES[name]
    assert (gate.stage, gate.default, gate.locked) == (stage, default, locked)


def test_reference_page_is_current():
    """The checked-in page is what the table gives today."""
    page = Path(__file__).parents[3] / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == reference.page(), (
        "run: python -m kubelet.config.reference > docs/configuration.md"
    )


def test_help_names_every_flag_and_gate():
    """--help leaves nothing out."""
    text = config.help_text()
    assert all(f"--{flag.name}" in text for flag in FLAGS)
    assert all(f"{name}=true|false" in text for name in GATES)
    assert "DEPRECATED: set maxPods in the file" in text
    assert all(len(line) <= 110 for line in text.splitlines() if "https" not in line)
