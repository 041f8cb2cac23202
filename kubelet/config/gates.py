"""Feature gates: the names this version knows, their stage, default and whether they may change.

A gate is set in the file's ``featureGates`` or by ``--feature-gates``. ``AllAlpha`` and
``AllBeta`` switch every gate of their stage that is not set by its own name.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kubelet.config.errors import closest

ALL_ALPHA: Final = "AllAlpha"
ALL_BETA: Final = "AllBeta"


class Stage(enum.Enum):
    """How far a feature has come."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"
    DEPRECATED = "deprecated"


@dataclass(frozen=True, slots=True)
class Gate:
    """One feature gate."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False


def _gates(names: str, stage: Stage, default: bool, locked: bool = False) -> list[Gate]:
    return [Gate(name, stage, default, locked) for name in names.split()]


_LOCKED = """
    CPUManagerPolicyOptions CSIServiceAccountTokenSecrets DRAAdminAccess DRADeviceTaints
    DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus DynamicResourceAllocation
    ExecProbeTimeout HostnameOverride ImageMaximumGCAge ImageVolume InPlacePodVerticalScaling
    InPlacePodVerticalScalingInitContainers KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz
    KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
    MutableCSINodeAllocatableCount NodeDeclaredFeatures NodeLogQuery NodeSwap PLEGOnDemandRelist
    PodObservedGenerationTracking PodReadyToStartContainersCondition ProcMountType
    RecoverVolumeExpansionFailure RecursiveReadOnlyMounts SELinuxChangePolicy
    SELinuxMountReadWriteOncePod ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog
    TopologyManagerPolicyOptions UserNamespacesSupport
"""
_SWITCHABLE = """
    ClusterTrustBundle ClusterTrustBundleProjection CustomCPUCFSQuotaPeriod PodCertificateRequest
    SELinuxMount
"""
_BETA_ON = """
    CPUManagerPolicyBetaOptions ComponentFlagz ComponentStatusz ContainerCheckpoint
    ContainerRestartRules ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions
    DRAPartitionableDevices EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
    GracefulNodeShutdownBasedOnPodPriority HugepageAwareEviction
    InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders LoggingBetaOptions MemoryQoS
    PodLevelResources PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodsAPI
    ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile ResourceHealthStatus
    ResourceHealthStatusMessage RestartAllContainersOnContainerExits
    RotateKubeletServerCertificate TopologyManagerPolicyBetaOptions VolumeLimitScaling
"""
_BETA_OFF = """
    AllBeta DRAWorkloadResourceClaims LocalStorageCapacityIsolationFSQuotaMonitoring
    PodAndContainerStatsFromCRI PodLevelResourceManagers
"""
_ALPHA = """
    AllAlpha AtomicWriteVolumeUserFields CPUManagerPolicyAlphaOptions CRIListStreaming
    CSIVolumeHealth ContainerStopSignals DRANodeAllocatableResources DRAOptionalNodeOperations
    DefaultPodSysctls EmptyDirVolumeMode EventedPLEG GRPCContainerProbeTLS H2CContainerProbe
    ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingMemoryBackedVolumes
    InPlacePodVerticalScalingSchedulerPreemption KubeletAllocatedPodsEndpoint LoggingAlphaOptions
    NodeLifecycleConditions PodLogsQuerySplitStreams QOSReserved
    ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriAPI
    TaintTolerationComparisonOperators UserNamespacesHostNetworkSupport VolumeBindMountOptions
    WindowsCPUAndMemoryAffinity
"""
_OLD = """
    AllowDNSOnlyNodeCSR ChangeContainerStatusOnKubeletRestart KubeletRegistrationGetOnExistsOnly
"""

GATES: Final[dict[str, Gate]] = {
    gate.name: gate
    for gate in (
        *_gates(_LOCKED, Stage.GA, True, True),
        *_gates(_SWITCHABLE, Stage.GA, True),
        *_gates(_BETA_ON, Stage.BETA, True),
        *_gates(_BETA_OFF, Stage.BETA, False),
        *_gates(_ALPHA, Stage.ALPHA, False),
        *_gates(_OLD, Stage.DEPRECATED, False),
        *_gates("KubeletPodResourcesListUseActivePods", Stage.DEPRECATED, True),
        *_gates(
            "DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion",
            Stage.DEPRECATED,
            True,
            True,
        ),
        *_gates(
            "AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver",
            Stage.DEPRECATED,
            False,
            True,
        ),
    )
}


def enabled(name: str, chosen: Mapping[str, bool]) -> bool:
    """Tell whether a gate is on, given the gates that were set."""
    gate = GATES[name]
    if name in chosen:
        return chosen[name]
    wholesale = {Stage.ALPHA: ALL_ALPHA, Stage.BETA: ALL_BETA}.get(gate.stage, "")
    return chosen.get(wholesale, gate.default)


def problems(chosen: Mapping[str, bool]) -> Iterator[tuple[str, bool, str]]:
    """Yield name, value and what is allowed for each gate that may not be set so."""
    for name, value in chosen.items():
        gate = GATES.get(name)
        if gate is None:
            yield name, value, _unknown(name)
        elif gate.locked and value != gate.default:
            yield name, value, f"must be {str(gate.default).lower()}: this gate is locked"


def _unknown(name: str) -> str:
    close = closest(name, GATES)
    hint = f'; did you mean "{close}"?' if close else "; --help lists the known names"
    return f"unknown feature gate{hint}"


def warnings(chosen: Mapping[str, bool]) -> Iterator[str]:
    """Yield a line for each gate that is set but is on its way out."""
    for name in sorted(chosen):
        gate = GATES.get(name)
        if gate is not None and gate.stage in {Stage.GA, Stage.DEPRECATED}:
            word = "generally available" if gate.stage is Stage.GA else "deprecated"
            yield f"Feature gate {name} is {word}: setting it will become an error"
