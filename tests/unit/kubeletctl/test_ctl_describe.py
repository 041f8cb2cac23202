"""describe, against real tables."""

from __future__ import annotations

from kubelet.pods.rows import Event, VolumeRow, VolumeState
from tests.unit.kubeletctl.harness import Tree
from tests.unit.kubeletctl.podfiles import Tables, ago, container, pod, status, text_ago

RICH = {
    "serviceAccountName": "robot",
    "priority": 100,
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"operator": "Exists"},
        {"key": "b", "value": "c"},
    ],
    "initContainers": [{"name": "setup", "image": "busybox:1", "command": ["sh", "-c", "a\nb"]}],
    "containers": [
        {
            "name": "main",
            "image": "busybox:1",
            "args": ["--x"],
            "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "1"}},
            "livenessProbe": {"httpGet": {"port": 80, "path": "healthz"}, "periodSeconds": 5},
            "readinessProbe": {"exec": {"command": ["true", "now"]}},
            "startupProbe": {"tcpSocket": {"port": "web"}},
            "envFrom": [{"secretRef": {"name": "all"}, "prefix": "P_"}],
            "env": [
                {"name": "A", "value": "one\ntwo"},
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "volumeMounts": [
                {"name": "data", "mountPath": "/data", "readOnly": True, "subPath": "x"},
                {"name": "tmp", "mountPath": "/a"},
            ],
        }
    ],
    "volumes": [
        {"name": "data", "hostPath": {"path": "/srv", "type": "Directory"}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "info", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "x"}}]}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        {"name": "nfs", "nfs": {"server": "h", "path": "/e"}},
    ],
}
DESCRIBED = """
Name: web
Namespace: default
UID: uid-web
Source: file
Priority: 100
Service Account: robot
Node: node-1/10.0.0.1
Labels: app=web
tier=front
Annotations: note: a b
Status: Running
IP: 10.1.0.5
IPs:
IP: 10.1.0.5
Init Containers:
setup:
Command:
sh
a
b
State: Terminated
Exit Code: 0
Containers:
main:
Image: busybox:1
Ports: 80/TCP, 53/TCP
Args:
--x
State: Waiting
Reason: CrashLoopBackOff
Message: back-off
Last State: Terminated
Reason: Error
Exit Code: 3
Ready: False
Restart Count: 4
Limits:
cpu: 500m
memory: 1Gi
Requests:
cpu: 1
Liveness: http-get http://:80/healthz delay=0s timeout=1s period=5s #success=1 #failure=3
Readiness: exec [true now] delay=0s timeout=1s period=10s #success=1 #failure=3
Startup: tcp-socket :web delay=0s timeout=1s period=10s #success=1 #failure=3
Environment Variables from:
all: Secret with prefix 'P_' Optional: false
Environment:
A: one
two
S: <from key 'k' of secret 's'> Optional: false
F: (v1:metadata.name)
R: limits.cpu of container 'itself'
Mounts:
/a from tmp (rw)
/data from data (ro,path="x")
Conditions:
Type Status
Initialized True
Ready False ContainersNotReady: not yet
Volumes:
data:
Type: HostPath (a path of the node)
Path: /srv
HostPathType: Directory
State: failed
Because: no such directory (tried again at
tmp:
SizeLimit: 1Gi
State: mounted
Mounted at: /var/lib/tmp
info:
Items: x -> l
all:
Secret: s
nfs:
Path: /e
Server: h
State: pending
Claim: default/files
Device at: /dev/x
Under way: mount -t nfs h:/e, for 1m05s
QoS Class: BestEffort
Node-Selectors: disk=ssd
Tolerations: a:NoExecute op=Exists for 300s
op=Exists
b=c
Events:
Type Reason Age From Message
Warning BackOff 10m (x3 over 20m) kubelet Back-off restarting
"""


def test_describe_has_the_sections_of_kubectl(node: Tree, tables: Tables):
    """Everything about a pod, in the order in which kubectl shows it; secrets as references."""
    ended = {"exitCode": 3, "reason": "Error", "finishedAt": text_ago(65)}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    main = {**container(waiting=waiting, restarts=4), "lastState": {"terminated": ended}}
    found = status(main, ready=False)
    found["conditions"][1] |= {"reason": "ContainersNotReady", "message": "not yet"}
    found["initContainerStatuses"] = [container("setup", terminated={"exitCode": 0})]
    labels = {"labels": {"tier": "front", "app": "web"}, "annotations": {"note": "a b"}}
    row = pod("web", spec=RICH, metadata=labels)
    tables.pod(row, found)
    tables.events(
        row, Event("Warning", "BackOff", "Back-off restarting", "", 3, ago(1215), ago(615))
    )
    tables.mounts(
        row,
        VolumeRow("data", VolumeState.FAILED, reason="no such directory", retry_ns=ago(-5)),
        VolumeRow("tmp", VolumeState.MOUNTED, host_path="/var/lib/tmp"),
        VolumeRow(
            "nfs",
            operation="mount -t nfs h:/e",
            operation_ns=ago(65.2),
            claim="default/files",
            block=True,
            host_path="/dev/x",
        ),
    )
    done = node.run("describe", "pod", "web")
    assert done.code == 0
    shown = "\n".join(" ".join(line.split()) for line in done.out.splitlines())
    at = 0
    for line in DESCRIBED.strip().splitlines():
        assert f"\n{line}" in f"\n{shown[at:]}", (line, shown[at : at + 300])
        at += f"\n{shown[at:]}".index(f"\n{line}")
    found_json = node.run("describe", "pod", "web", "-o", "json").json()
    assert found_json["events"][0]["reason"] == "BackOff"
    assert found_json["volumes"][0]["name"] == "data"
    assert found_json["pod"]["spec"]["priority"] == 100
