"""Validation: ranges, and the rules between fields, by their IDs in the facts."""

from __future__ import annotations

import pytest

from kubelet import config


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # ranges of table 1.3
        ("syncFrequency: -1s", 'syncFrequency: "-1s": must be greater than 0s'),
        ("port: 70000", "port: 70000: must be between 1 and 65535"),
        ("port: -1", "port: -1: must be between 1 and 65535"),
        ("readOnlyPort: -1", "readOnlyPort: -1: must be between 0 and 65535"),
        ("healthzPort: 65536", "healthzPort: 65536: must be between 0 and 65535"),
        ("oomScoreAdj: -1001", "oomScoreAdj: -1001: must be between -1000 and 1000"),
        ("registryPullQPS: -1", "registryPullQPS: -1: must be 0 or greater"),
        ("registryBurst: -1", "registryBurst: -1: must be 0 or greater"),
        ("eventRecordQPS: -1", "eventRecordQPS: -1: must be 0 or greater"),
        ("eventBurst: -1", "eventBurst: -1: must be 0 or greater"),
        ("kubeAPIQPS: -1", "kubeAPIQPS: -1: must be 0 or greater"),
        ("kubeAPIBurst: -1", "kubeAPIBurst: -1: must be 0 or greater"),
        ("maxPods: -1", "maxPods: -1: must be 0 or greater"),
        ("podsPerCore: -1", "podsPerCore: -1: must be 0 or greater"),
        ("maxOpenFiles: -1", "maxOpenFiles: -1: must be 0 or greater"),
        ("nodeStatusMaxImages: -2", "nodeStatusMaxImages: -2: must be -1 or greater"),
        ("nodeLeaseDurationSeconds: -1", "nodeLeaseDurationSeconds: -1: must be 1 or greater"),
        ("imageMinimumGCAge: -1s", 'imageMinimumGCAge: "-1s": must not be negative'),
        ("imageMaximumGCAge: -1s", 'imageMaximumGCAge: "-1s": must not be negative'),
        (
            "imageGCHighThresholdPercent: 101",
            "imageGCHighThresholdPercent: 101: must be between 0 and 100",
        ),
        (
            "imageGCLowThresholdPercent: -1",
            "imageGCLowThresholdPercent: -1: must be between 0 and 100",
        ),
        ("iptablesMasqueradeBit: 32", "iptablesMasqueradeBit: 32: must be between 0 and 31"),
        ("iptablesDropBit: -1", "iptablesDropBit: -1: must be between 0 and 31"),
        ("cpuCFSQuotaPeriod: 2s", 'cpuCFSQuotaPeriod: "2s": must be between 1ms and 1s'),
        ("cpuCFSQuotaPeriod: 0s", 'cpuCFSQuotaPeriod: "0s": must be between 1ms and 1s'),
        ("containerLogMaxFiles: 1", "containerLogMaxFiles: 1: must be 2 or greater"),
        ("containerLogMaxWorkers: 0", "containerLogMaxWorkers: 0: must be 1 or greater"),
        (
            "containerLogMonitorInterval: 2s",
            'containerLogMonitorInterval: "2s": must be 3s or longer',
        ),
        ("maxParallelImagePulls: 0", "maxParallelImagePulls: 0: must be 1 or greater"),
        ("runOnce: true", "runOnce: true: must be false: the run-once mode was removed"),
        ("podLogsDir: /a/../b", 'podLogsDir: "/a/../b": must be a normalised path, such as "/b"'),
        ("podLogsDir: /\u00e4", 'podLogsDir: "/\u00e4": must contain ASCII characters only'),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}",
            'crashLoopBackOff.maxContainerRestartPeriod: "5m1s": must be between 1s and 5m',
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 0s}",
            'crashLoopBackOff.maxContainerRestartPeriod: "0s": must be between 1s and 5m',
        ),
        (
            "memoryThrottlingFactor: 0",
            "memoryThrottlingFactor: 0.0: must be greater than 0 and at most 1",
        ),
        (
            "memoryThrottlingFactor: 1.1",
            "memoryThrottlingFactor: 1.1: must be greater than 0 and at most 1",
        ),
        (
            "userNamespaces: {idsPerPod: 1000}",
            "userNamespaces.idsPerPod: 1000: must be a multiple of 65536, at most 4294967295",
        ),
        (
            "userNamespaces: {idsPerPod: 4294967296}",
            "userNamespaces.idsPerPod: 4294967296: must be a multiple of 65536, at most 4294967295",
        ),
        ("shutdownGracePeriod: 500ms", 'shutdownGracePeriod: "500ms": must be 0s, or 1s or longer'),
        (
            "tracing: {samplingRatePerMillion: -1}",
            "tracing.samplingRatePerMillion: -1: must be between 0 and 1000000",
        ),
        (
            "tracing: {endpoint: ':'}",
            'tracing.endpoint: ":": must be a URL or host:port, such as "localhost:4317"',
        ),
        ("systemCgroups: /\ncgroupRoot: /x", 'systemCgroups: "/": must not be "/"'),
        # choices
        (
            "authorization: {mode: RBAC}",
            'authorization.mode: "RBAC": must be one of "AlwaysAllow", "Webhook"',
        ),
        (
            "hairpinMode: x",
            'hairpinMode: "x": must be one of "promiscuous-bridge", "hairpin-veth", "none"',
        ),
        ("cgroupDriver: x", 'cgroupDriver: "x": must be one of "cgroupfs", "systemd"'),
        ("topologyManagerScope: x", 'topologyManagerScope: "x": must be one of "container", "pod"'),
        (
            "memorySwap: {swapBehavior: UnlimitedSwap}",
            (
                'memorySwap.swapBehavior: "UnlimitedSwap": '
                'must be one of "", "NoSwap", "LimitedSwap"'
            ),
        ),
        ("logging: {format: xml}", 'logging.format: "xml": must be one of "text", "json"'),
        (
            "showHiddenMetricsForVersion: '1.20'",
            'showHiddenMetricsForVersion: "1.20": must be one of "", "1.36"',
        ),
        ("tlsCurvePreferences: [1]", "tlsCurvePreferences: [1]: must be out of 23 (P-256)"),
        # rules between fields
        (
            "imageGCLowThresholdPercent: 85",
            ("imageGCLowThresholdPercent: 85: must be less than imageGCHighThresholdPercent (85)"),
        ),
        (
            "imageMaximumGCAge: 2m",
            'imageMaximumGCAge: "2m0s": must be greater than imageMinimumGCAge (2m0s)',
        ),
        (
            "maxParallelImagePulls: 2\nserializeImagePulls: true",
            ("maxParallelImagePulls: 2: must be 1 or unset while serializeImagePulls is true"),
        ),
        ("systemCgroups: /x", 'systemCgroups: "/x": needs cgroupRoot'),
        (
            "enableSystemLogQuery: true\nenableSystemLogHandler: false",
            "enableSystemLogQuery: true: needs enableSystemLogHandler: true",
        ),
        (
            "shutdownGracePeriodCriticalPods: 5s",
            ('shutdownGracePeriodCriticalPods: "5s": must be at most shutdownGracePeriod (0s)'),
        ),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -1}]",
            "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: -1: must be 0",
        ),
        (
            "preloadedImagesVerificationAllowlist: [a/b]",
            (
                "preloadedImagesVerificationAllowlist: "
                '["a/b"]: needs imagePullCredentialsVerificationPolicy "NeverVerify'
                'AllowlistedImages"'
            ),
        ),
        (
            "preloadedImagesVerificationAllowlist: ['a:1']",
            (
                "preloadedImagesVerificationAllowlist[0]: "
                '"a:1": must be an image name without tag or digest, or "host/path/*"'
            ),
        ),
        # reservations
        (
            "systemReserved: {gpu: '1'}",
            (
                'systemReserved[gpu]: "1": unknown resource; known are cpu, '
                "memory, ephemeral-storage, pid"
            ),
        ),
        ("kubeReserved: {cpu: '-1'}", 'kubeReserved[cpu]: "-1": must not be negative'),
        (
            "enforceNodeAllocatable: [kube-reserved]",
            (
                'kubeReservedCgroup: "": must be set when '
                'enforceNodeAllocatable contains "kube-reserved" or its compressible form'
            ),
        ),
        (
            "enforceNodeAllocatable: [system-reserved-compressible]",
            (
                'systemReservedCgroup: "": must '
                'be set when enforceNodeAllocatable contains "system-reserved" or its '
                "compressible form"
            ),
        ),
        (
            "enforceNodeAllocatable: [pods, pods]",
            'enforceNodeAllocatable: "pods": must be listed only once',
        ),
        (
            "enforceNodeAllocatable: [none, pods]",
            'enforceNodeAllocatable: ["none", "pods"]: "none" must stand alone',
        ),
        (
            (
                "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\n"
                "kubeReservedCgroup: /k"
            ),
            (
                'enforceNodeAllocatable: ["kube-reserved", '
                '"kube-reserved-compressible"]: "kube-reserved" and "kube-reserved-compressible" '
                "exclude "
                "each other"
            ),
        ),
        (
            "cgroupsPerQOS: false",
            (
                'enforceNodeAllocatable: ["pods"]: must be empty or "none" unless '
                "cgroupsPerQOS is true"
            ),
        ),
        (
            "enforceNodeAllocatable: [all]",
            'enforceNodeAllocatable[0]: "all": must be one of "none"',
        ),
        (
            "reservedSystemCPUs: 0-1\nkubeReservedCgroup: /k",
            'reservedSystemCPUs: "0-1": cannot be set together with kubeReservedCgroup',
        ),
        (
            "reservedSystemCPUs: 3-1",
            ('reservedSystemCPUs: "3-1": must have ranges from a smaller to a larger number'),
        ),
        (
            "reservedSystemCPUs: x",
            'reservedSystemCPUs: "x": must be a list of CPUs such as "0-3,8"',
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
            (
                'reservedMemory[0].limits[cpu]: "1": '
                "unknown resource; must be memory or hugepages-<size>"
            ),
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]",
            'reservedMemory[0].limits[memory]: "0": must be greater than 0',
        ),
        (
            "reservedMemory: [{limits: {memory: 1}}, {numaNode: 0, limits: {memory: 1}}]",
            'reservedMemory[1].limits[memory]: "1": must be given only once for NUMA node 0',
        ),
        ("reservedMemory: [{numaNode: 0}]", "reservedMemory[0].limits: null: must be set"),
        # E-3
        (
            "evictionHard: {memory.free: 1Gi}",
            ('evictionHard[memory.free]: "1Gi": unknown signal; known are memory.available'),
        ),
        (
            "evictionHard: {memory.available: 101%}",
            (
                'evictionHard[memory.available]: "101%": must '
                "be a percentage from 0% to 100%, or a quantity above 0"
            ),
        ),
        (
            "evictionHard: {memory.available: '0'}",
            (
                'evictionHard[memory.available]: "0": must be a '
                "percentage from 0% to 100%, or a quantity above 0"
            ),
        ),
        (
            "evictionHard: {memory.available: x%}",
            (
                'evictionHard[memory.available]: "x%": must be a '
                "percentage from 0% to 100%, or a quantity above 0"
            ),
        ),
        (
            "evictionSoft: {memory.available: 1Gi}",
            ('evictionSoft[memory.available]: "1Gi": needs a period in evictionSoftGracePeriod'),
        ),
        (
            "evictionSoftGracePeriod: {memory.available: -1s}",
            'evictionSoftGracePeriod[memory.available]: "-1s": must not be negative',
        ),
        (
            "evictionMinimumReclaim: {nodefs.available: 0%}",
            (
                "evictionMinimumReclaim"
                '[nodefs.available]: "0%": must be a percentage above 0% up to 100%, or a quantity '
                "of 0 "
                "or more"
            ),
        ),
        # gates
        (
            "featureGates: {EventedPlag: true}",
            ('featureGates.EventedPlag: true: unknown feature gate; did you mean "EventedPLEG"?'),
        ),
        (
            "featureGates: {NodeSwap: false}",
            "featureGates.NodeSwap: false: must be true: this gate is locked",
        ),
        (
            "featureGates: {GitRepoVolumeDriver: true}",
            "featureGates.GitRepoVolumeDriver: true: must be false: this gate is locked",
        ),
        (
            "qosReserved: {memory: 10%}",
            'qosReserved: {"memory": "10%"}: needs feature gate QOSReserved',
        ),
        (
            "featureGates: {QOSReserved: true}\nqosReserved: {cpu: 10%}",
            'qosReserved[cpu]: "10%": unknown resource; only memory can be kept',
        ),
        (
            "featureGates: {QOSReserved: true}\nqosReserved: {memory: '10'}",
            'qosReserved[memory]: "10": must be a whole percentage from 0% to 100%',
        ),
        (
            "featureGates: {RotateKubeletServerCertificate: false}\nserverTLSBootstrap: true",
            "serverTLSBootstrap: true: needs feature gate RotateKubeletServerCertificate",
        ),
        (
            "featureGates: {CustomCPUCFSQuotaPeriod: false}\ncpuCFSQuotaPeriod: 50ms",
            'cpuCFSQuotaPeriod: "50ms": needs feature gate CustomCPUCFSQuotaPeriod',
        ),
        (
            "featureGates: {MemoryQoS: false}\nmemoryThrottlingFactor: 0.5",
            "memoryThrottlingFactor: 0.5: must be 0.9 or unset without gate MemoryQoS",
        ),
        (
            "featureGates: {MemoryQoS: false}\nmemoryReservationPolicy: TieredReservation",
            'memoryReservationPolicy: "TieredReservation": needs feature gate MemoryQoS',
        ),
        (
            (
                "featureGates: {KubeletCrashLoopBackOffMax: false}\n"
                "crashLoopBackOff: {maxContainerRestartPeriod: 5s}"
            ),
            (
                'crashLoopBackOff.maxContainerRestartPeriod: "5s": needs feature gate '
                "KubeletCrashLoopBackOffMax"
            ),
        ),
        (
            "featureGates: {GracefulNodeShutdown: false}\nshutdownGracePeriod: 5s",
            'shutdownGracePeriod: "5s": needs feature gate GracefulNodeShutdown',
        ),
        (
            (
                "featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}\n"
                "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]"
            ),
            "needs feature gate GracefulNodeShutdownBasedOnPodPriority",
        ),
        (
            (
                "featureGates: {KubeletEnsureSecretPulledImages: false}\n"
                "imagePullCredentialsVerificationPolicy: AlwaysVerify"
            ),
            (
                'imagePullCredentialsVerificationPolicy: "AlwaysVerify": needs feature gate '
                "KubeletEnsureSecretPulledImages"
            ),
        ),
        (
            "defaultPodSysctls: {net.core.somaxconn: '1'}",
            'defaultPodSysctls: {"net.core.somaxconn": "1"}: needs feature gate DefaultPodSysctls',
        ),
        (
            (
                "featureGates: {DefaultPodSysctls: true}\n"
                "defaultPodSysctls: {net.core.somaxconn: '1', net/core/somaxconn: '2'}"
            ),
            'defaultPodSysctls[net/core/somaxconn]: "2": is the same sysctl as net.core.somaxconn',
        ),
        (
            "featureGates: {DefaultPodSysctls: true}\ndefaultPodSysctls: {vm.swappiness: '1'}",
            'defaultPodSysctls[vm.swappiness]: "1": must be a namespaced sysctl',
        ),
        (
            "logging: {options: {text: {splitStream: true}}}",
            "logging.options.text.splitStream: true: needs feature gate LoggingAlphaOptions",
        ),
        (
            "logging: {options: {json: {infoBufferSize: -1Ki}}}",
            'logging.options.json.infoBufferSize: "-1Ki": must not be negative',
        ),
        (
            "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
            'logging.vmodule: [{"filePattern": "a", "verbosity": 1}]: needs logging.format "text"',
        ),
        # sysctls, taints
        (
            "allowedUnsafeSysctls: [vm.swappiness]",
            'allowedUnsafeSysctls[0]: "vm.swappiness": must be a namespaced sysctl',
        ),
        (
            "allowedUnsafeSysctls: ['net.*.x']",
            (
                'allowedUnsafeSysctls[0]: "net.*.x": must be a sysctl such as "net.core.'
                'somaxconn", '
                "or a "
                'prefix such as "net.ipv4.*"'
            ),
        ),
        (
            "registerWithTaints: [{key: a b, effect: NoSchedule}]",
            'registerWithTaints[0].key: "a b": must be a label key',
        ),
        (
            "registerWithTaints: [{key: a, value: '-', effect: NoSchedule}]",
            'registerWithTaints[0].value: "-": must be at most 63 letters',
        ),
        (
            "registerWithTaints: [{key: a, effect: Never}]",
            (
                'registerWithTaints[0].effect: "Never": '
                "must be one of NoSchedule, PreferNoSchedule, NoExecute"
            ),
        ),
        (
            "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: '2020-01-01T00:00:00Z'}]",
            'registerWithTaints[0].timeAdded: "2020-01-01T00:00:00Z": must not be set',
        ),
        (
            "registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]",
            'registerWithTaints[1]: {"key": "a", "effect": "NoSchedule"}: must be the only taint',
        ),
        # managers: M-2, M-5, M-6, M-21
        (
            "cpuManagerPolicy: static",
            (
                'cpuManagerPolicy: "static": needs cpu in systemReserved or '
                "kubeReserved, or reservedSystemCPUs"
            ),
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
            'cpuManagerPolicyOptions: {"full-pcpus-only": "true"}: needs cpuManagerPolicy "static"',
        ),
        (
            "cpuManagerPolicyOptions: {x: 'true'}",
            ('cpuManagerPolicyOptions[x]: "true": unknown option; known are full-pcpus-only'),
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: maybe}",
            'cpuManagerPolicyOptions[full-pcpus-only]: "maybe": must be true or false',
        ),
        (
            "cpuManagerPolicyOptions: {align-by-socket: 'true'}",
            (
                "cpuManagerPolicyOptions"
                '[align-by-socket]: "true": needs feature gate CPUManagerPolicyAlphaOptions'
            ),
        ),
        (
            (
                "cpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: 'true', "
                "distribute-cpus-across-numa: 'true'}"
            ),
            ("prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa exclude each other"),
        ),
        (
            "topologyManagerPolicyOptions: {max-allowable-numa-nodes: '7'}",
            'topologyManagerPolicyOptions[max-allowable-numa-nodes]: "7": must be 8 or greater',
        ),
        (
            "topologyManagerPolicyOptions: {x: '7'}",
            (
                'topologyManagerPolicyOptions[x]: "7": unknown '
                "option; known are prefer-closest-numa-nodes, max-allowable-numa-nodes"
            ),
        ),
    ],
)
def test_refused(files, text, line):
    """Each bad value is told with its file, its field and what is allowed."""
    found = files.problems(text + "\n")
    assert any(line in one and one.startswith("kubelet.yaml") for one in found), found


@pytest.mark.parametrize(
    "text",
    [
        "podsPerCore: 0\nregistryPullQPS: 0\neventRecordQPS: 0\nkubeAPIQPS: 0",
        "healthzPort: 0\nreadOnlyPort: 0",
        "imageMaximumGCAge: 3m\nimageGCHighThresholdPercent: 100",
        "volumeStatsAggPeriod: -1s\ncontainerLogMaxSize: -1Ki",
        "evictionHard: {memory.available: 0%, nodefs.available: 100%, pid.available: 10.5%}",
        "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 90s}",
        "evictionMinimumReclaim: {nodefs.available: '0', imagefs.available: 10%}",
        "enforceNodeAllocatable: [none]\ncgroupsPerQOS: false",
        "enforceNodeAllocatable: []\ncgroupsPerQOS: false",
        (
            "enforceNodeAllocatable: [pods, system-reserved, kube-reserved-compressible]\n"
            "systemReservedCgroup: /s\nkubeReservedCgroup: /k"
        ),
        "cpuManagerPolicy: static\nsystemReserved: {cpu: 100m}",
        "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1,3",
        (
            "cpuManagerPolicy: static\nkubeReserved: {cpu: '1'}\n"
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true', align-by-socket: 'false'}\n"
            "featureGates: {CPUManagerPolicyAlphaOptions: true}"
        ),
        "topologyManagerPolicyOptions: {max-allowable-numa-nodes: '8'}",
        "featureGates: {QOSReserved: true}\nqosReserved: {memory: 50%}",
        "featureGates: {AllAlpha: true}\nqosReserved: {memory: 50%}",
        "featureGates: {NodeSwap: true}\nmemorySwap: {swapBehavior: LimitedSwap}",
        "featureGates: {MemoryQoS: false}\nmemoryThrottlingFactor: 0.9",
        "memoryThrottlingFactor: 1\nmemoryReservationPolicy: TieredReservation",
        "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 30s",
        "allowedUnsafeSysctls: [net.ipv4.*, kernel.sem, 'kernel.shm*', net/core/somaxconn]",
        (
            "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
            "preloadedImagesVerificationAllowlist: [busybox, 'registry.io:5000/a/*', reg.io/a/b]"
        ),
        (
            "tlsCipherSuites: [TLS_AES_128_GCM_SHA256]\ntlsMinVersion: VersionTLS12\n"
            "tlsCurvePreferences: [29, 4588]"
        ),
        "tracing: {endpoint: localhost:4317, samplingRatePerMillion: 100}",
        "userNamespaces: {idsPerPod: 131072}\ncrashLoopBackOff: {maxContainerRestartPeriod: 1s}",
        (
            "logging: {options: {text: {splitStream: true, infoBufferSize: 64Ki}}}\n"
            "featureGates: {LoggingAlphaOptions: true}"
        ),
        "systemCgroups: /sys\ncgroupRoot: /pods",
    ],
)
def test_accepted(files, text):
    """What is on the edge of the allowed is allowed."""
    files.load(text + "\n")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            ["--exit-on-lock-contention"],
            "--exit-on-lock-contention: exit-on-lock-contention: true: needs --lock-file",
        ),
        (
            ["--cloud-provider=aws"],
            '--cloud-provider: cloud-provider: "aws": must be "external" or empty',
        ),
        (
            ["--hostname-override= "],
            '--hostname-override: hostname-override: " ": must not be blank',
        ),
        (
            ["--node-ip=10.0.0.1,10.0.0.2"],
            (
                '--node-ip: node-ip: "10.0.0.1,10.0.0.2": must be an IP '
                "address, or an IPv4 and an IPv6 address with a comma between"
            ),
        ),
        (
            ["--node-labels=kubernetes.io/x=1"],
            ('--node-labels: node-labels: "kubernetes.io/x": in kubernetes.io and k8s.io only'),
        ),
        (
            ["--node-labels=node-role.kubernetes.io/worker="],
            ('--node-labels: node-labels: "node-role.kubernetes.io/worker": in kubernetes.io'),
        ),
        (["--node-labels=a=b c"], '--node-labels: node-labels[a]: "b c": must be at most 63'),
        (["--node-labels==x"], '--node-labels: node-labels: "": must be a label key'),
        (["--run-dir=run"], '--run-dir: run-dir: "run": must be an absolute path'),
        (
            ["--heartbeat-timeout=499ms"],
            '--heartbeat-timeout: heartbeat-timeout: "499ms": must be 500ms or longer',
        ),
        (
            ["--heartbeat-interval=2s"],
            (
                '--heartbeat-interval: heartbeat-interval: "2s": must be at '
                "most a quarter of --heartbeat-timeout: 1.25s"
            ),
        ),
        (
            ["--heartbeat-interval=0s"],
            '--heartbeat-interval: heartbeat-interval: "0s": must be greater than 0s',
        ),
        (
            ["--unprivileged-user=a b"],
            (
                '--unprivileged-user: unprivileged-user: "a b": must be a '
                'user name, or ids such as "65534" or "65534:65534"'
            ),
        ),
        (
            ["--unprivileged-user=4294967295"],
            '--unprivileged-user: unprivileged-user: "4294967295": must have ids of at most',
        ),
        (
            ["--image-credential-provider-config=/x"],
            (
                "--image-credential-provider-config: "
                'image-credential-provider-config: "/x": needs --image-credential-provider-bin-dir'
            ),
        ),
        (
            ["--authorization-mode=Webhook"],
            (
                '--authorization-mode: authorization.mode: "Webhook": '
                'must be "AlwaysAllow" without --kubeconfig: there is no API server to ask'
            ),
        ),
        (
            ["--container-runtime-endpoint="],
            ('--container-runtime-endpoint: containerRuntimeEndpoint: "": must not be empty'),
        ),
        (
            ["--feature-gates=Nope=true"],
            (
                "--feature-gates: featureGates.Nope: true: unknown feature "
                "gate; --help lists the known names"
            ),
        ),
    ],
)
def test_flags_refused(flag_problems, argv, line):
    """C-8, C-11, C-19, C-20, N-7 and our own flags."""
    found = flag_problems(*argv)
    assert any(one.startswith(line) for one in found), found


@pytest.mark.parametrize(
    "argv",
    [
        ["--exit-on-lock-contention", "--lock-file=/l"],
        ["--cloud-provider=external"],
        ["--node-ip=10.0.0.1,fd00::1"],
        ["--node-ip=::"],
        ["--node-labels=node.kubernetes.io/x=1,a.kubelet.kubernetes.io/y=,kubernetes.io/os=linux"],
        ["--node-labels=example.com/x=1,topology.kubernetes.io/zone=z"],
        ["--unprivileged-user=65534:65534"],
        ["--unprivileged-user=_k-1"],
        ["--heartbeat-timeout=1s", "--heartbeat-interval=250ms"],
    ],
)
def test_flags_accepted(argv):
    """What the rules allow goes through."""
    config.load(argv)


def test_standalone_with_a_file(files):
    """C-8: the file's defaults ask for webhooks, which nobody answers without an API server."""
    with pytest.raises(config.ConfigError) as caught:
        config.load([f"--config={files.write('')}"])
    assert [line.split(": ")[1] for line in caught.value.problems] == [
        "authentication.webhook.enabled",
        "authorization.mode",
    ]
    alone = "authentication: {webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n"
    config.load([f"--config={files.write(alone)}"])


def test_a_short_timeout_brings_faster_heartbeats():
    """The default interval never contradicts a time-out that is allowed."""
    loaded = config.load(["--heartbeat-timeout=500ms"]).config
    assert loaded.duration("--heartbeat-interval") == 0.125
    assert config.load([]).config.duration("--heartbeat-interval") == 0.5


def test_all_rules_at_once(files):
    """Several rules are told in one go."""
    found = files.problems(
        "imageGCLowThresholdPercent: 90\nenforceNodeAllocatable: [none, pods]\nsystemCgroups: /x\n"
        "evictionHard: {a: b, c: d}\nfeatureGates: {X: true, Y: false}\n"
    )
    assert len(found) == 7


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "featureGates: {NodeSwap: true}",
            "Feature gate NodeSwap is generally available: setting it will become an error",
        ),
        (
            "featureGates: {AllowDNSOnlyNodeCSR: true}",
            "Feature gate AllowDNSOnlyNodeCSR is deprecated: setting it will become an error",
        ),
        (
            "tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]",
            "tlsCipherSuites contains insecure suites: TLS_RSA_WITH_RC4_128_SHA",
        ),
        (
            "tlsCipherSuites: [TLS_AES_128_GCM_SHA256]\ntlsMinVersion: VersionTLS13",
            "tlsCipherSuites has no effect: TLS 1.3 chooses its own suites",
        ),
        (
            "evictionHard: {containerfs.available: 5%}",
            ("evictionHard of containerfs.available has no effect: it follows the others"),
        ),
        ("clusterDNS: [dns]", 'clusterDNS "dns" is no IP address and is left out'),
    ],
)
def test_warnings(files, text, line):
    """What works but should not stay so is said."""
    assert line in files.load(text + "\n").warnings


def test_root_as_unprivileged_user_is_said():
    """Giving up no privilege is allowed, not hidden."""
    assert any("is root" in line for line in config.load(["--unprivileged-user=0"]).warnings)
