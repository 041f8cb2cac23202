"""A pod that uses nearly every field that there is."""

from __future__ import annotations

from typing import Any

RICH: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "shop-7d4b9c6f5-x2x7k",
        "namespace": "shop",
        "uid": "6f1c2b2e-8d0e-4d3c-9c55-b6a1f3f2a001",
        "labels": {"app.kubernetes.io/name": "shop", "pod-template-hash": "7d4b9c6f5"},
        "annotations": {"example.com/Config_Hash": "abc", "plain": ""},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "shop-7d4b9c6f5",
                "uid": "6f1c2b2e-8d0e-4d3c-9c55-b6a1f3f2a002",
                "controller": True,
            }
        ],
        "finalizers": ["example.com/wait"],
    },
    "spec": {
        "serviceAccountName": "shop",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "dedicated", "value": "shop"},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "example.com/zone", "operator": "In", "values": ["a"]},
                                {"key": "example.com/cores", "operator": "Gt", "values": ["4"]},
                            ],
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
                            ],
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 50,
                        "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                    }
                ],
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "shop"}},
                            "matchLabelKeys": ["pod-template-hash"],
                        },
                    }
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "minDomains": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor",
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["shop"]}]
                },
                "matchLabelKeys": ["pod-template-hash"],
            }
        ],
        "securityContext": {
            "runAsUser": 1000,
            "runAsGroup": 3000,
            "fsGroup": 2000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "supplementalGroups": [4000],
            "supplementalGroupsPolicy": "Strict",
            "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/shop.json"},
            "appArmorProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"level": "s0:c123,c456"},
            "sysctls": [
                {"name": "net.ipv4.ip_local_port_range", "value": "1024 65535"},
                {"name": "kernel/shm_rmid_forced", "value": "1"},
            ],
        },
        "hostname": "shop",
        "subdomain": "web",
        "setHostnameAsFQDN": True,
        "hostAliases": [{"ip": "2001:db8::1", "hostnames": ["db.internal", "db"]}],
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.96.0.10", "2001:db8::53"],
            "searches": ["shop.svc.cluster.local", "_tcp.example.com", "."],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        },
        "imagePullSecrets": [{"name": "registry"}],
        "readinessGates": [{"conditionType": "example.com/gate"}],
        "runtimeClassName": "gvisor",
        "overhead": {"cpu": "100m", "memory": "64Mi"},
        "activeDeadlineSeconds": 3600,
        "terminationGracePeriodSeconds": 60,
        "os": {"name": "linux"},
        "resources": {"requests": {"cpu": "3", "memory": "4Gi"}, "limits": {"cpu": "4"}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu-template"}],
        "initContainers": [
            {
                "name": "migrate",
                "image": "registry.example/shop@sha256:" + "a" * 64,
                "args": ["migrate"],
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
                ],
                "volumeMounts": [{"name": "blank", "mountPath": "/out", "subPath": "a/b"}],
            },
            {
                "name": "proxy",
                "image": "registry.example/proxy:2",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 15000, "hostPort": 15000}],
                "startupProbe": {"tcpSocket": {"port": 15000}, "periodSeconds": 1},
                "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
            },
        ],
        "containers": [
            {
                "name": "shop",
                "image": "registry.example:5000/shop:1.2.3",
                "ports": [
                    {"name": "http", "containerPort": 8080},
                    {"name": "dns", "containerPort": 5353, "protocol": "UDP"},
                ],
                "env": [
                    {"name": "PLAIN", "value": "1"},
                    {"name": "with space and.dots", "value": ""},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {
                        "name": "HASH",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}},
                    },
                    {
                        "name": "CPU",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}
                        },
                    },
                    {
                        "name": "PASSWORD",
                        "valueFrom": {"secretKeyRef": {"name": "db", "key": "pass.word"}},
                    },
                    {
                        "name": "FROM_FILE",
                        "valueFrom": {
                            "fileKeyRef": {"volumeName": "blank", "path": "e.env", "key": "A"}
                        },
                    },
                ],
                "envFrom": [{"prefix": "CFG_", "configMapRef": {"name": "shop"}}],
                "resources": {
                    "limits": {
                        "cpu": "2",
                        "memory": "2Gi",
                        "hugepages-2Mi": "4Mi",
                        "example.com/gpu": "1",
                        "ephemeral-storage": "10Gi",
                    },
                    "requests": {"cpu": "500m", "memory": "1Gi"},
                    "claims": [{"name": "gpu", "request": "one"}],
                },
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "volumeMounts": [
                    {"name": "blank", "mountPath": "/cache", "subPathExpr": "$(NODE)"},
                    {
                        "name": "all",
                        "mountPath": "/info",
                        "readOnly": True,
                        "recursiveReadOnly": "IfPossible",
                    },
                    {"name": "artifact", "mountPath": "/artifact"},
                ],
                "volumeDevices": [{"name": "disk", "devicePath": "/dev/xvda"}],
                "livenessProbe": {
                    "grpc": {"port": 9090, "service": "shop"},
                    "terminationGracePeriodSeconds": 10,
                },
                "readinessProbe": {
                    "httpGet": {"port": "http", "httpHeaders": [{"name": "X-A", "value": "b"}]},
                    "successThreshold": 2,
                },
                "startupProbe": {"exec": {"command": ["true"]}},
                "lifecycle": {
                    "postStart": {"exec": {"command": ["true"]}},
                    "preStop": {"httpGet": {"port": 8080}},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "runAsNonRoot": True,
                    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                    "procMount": "Default",
                },
            },
            {
                "name": "agent",
                "image": "registry.example/agent",
                "securityContext": {"privileged": True},
                "volumeMounts": [
                    {"name": "host", "mountPath": "/h", "mountPropagation": "Bidirectional"}
                ],
            },
        ],
        "ephemeralContainers": [
            {
                "name": "debugger",
                "image": "busybox",
                "stdin": True,
                "tty": True,
                "targetContainerName": "shop",
            }
        ],
        "volumes": [
            {"name": "blank"},
            {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "huge", "emptyDir": {"medium": "HugePages-2Mi"}},
            {"name": "host", "hostPath": {"path": "/var/lib/agent", "type": "Directory"}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "shop"}},
            {"name": "share", "nfs": {"server": "nfs.example", "path": "/export"}},
            {"name": "driver", "csi": {"driver": "Inline.csi.example.com"}},
            {"name": "artifact", "image": {"reference": "registry.example/data:1"}},
            {"name": "secret", "secret": {"secretName": "db", "defaultMode": 256}},
            {
                "name": "config",
                "configMap": {
                    "name": "shop",
                    "items": [{"key": "a", "path": "dir/a", "mode": 511}],
                },
            },
            {
                "name": "scratch",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                },
            },
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "audience": "api"}},
                        {"configMap": {"name": "ca", "items": [{"key": "ca", "path": "ca.crt"}]}},
                        {"secret": {"name": "tls"}},
                        {"clusterTrustBundle": {"name": "example.com:a:b", "path": "roots.pem"}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}},
                                    {
                                        "path": "mem",
                                        "resourceFieldRef": {
                                            "containerName": "shop",
                                            "resource": "requests.memory",
                                            "divisor": "1Mi",
                                        },
                                    },
                                ]
                            }
                        },
                    ]
                },
            },
        ],
    },
}
