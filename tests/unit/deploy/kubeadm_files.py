"""The files of a node as kubeadm 1.36 writes them, and the command line that they make."""

from __future__ import annotations

import base64
import shlex

# kubeadm init, with nothing but a name and an address given.
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
  webhook:
    cacheAuthorizedTTL: 0s
    cacheUnauthorizedTTL: 0s
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""
# What the cluster's ConfigMap holds; the endpoint comes with each node's instance-config.yaml.
SHARED_CONFIG = CONFIG.replace("unix:///run/containerd/containerd.sock", '""')
INSTANCE_CONFIG = 'containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock"\n'
INIT_FLAGS = 'KUBELET_KUBEADM_ARGS="--hostname-override=cp-1 --node-ip=10.0.0.1"\n'
JOIN_FLAGS = (
    'KUBELET_KUBEADM_ARGS="--hostname-override=joiner'
    ' --register-with-taints=a=b:NoSchedule --v=2"\n'
)


def bootstrap(server: str, ca: str, token: str = "abcdef.0123456789abcdef") -> str:
    """/etc/kubernetes/bootstrap-kubelet.conf after kubeadm join."""
    return f"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {_data(ca)}
    server: {server}
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: tls-bootstrap-token-user
  name: tls-bootstrap-token-user@kubernetes
current-context: tls-bootstrap-token-user@kubernetes
kind: Config
users:
- name: tls-bootstrap-token-user
  user:
    token: {token}
"""


def kubeconfig(server: str, ca: str, node: str, chain: str, key: str) -> str:
    """/etc/kubernetes/kubelet.conf after kubeadm init."""
    return f"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {_data(ca)}
    server: {server}
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: system:node:{node}
  name: system:node:{node}@kubernetes
current-context: system:node:{node}@kubernetes
kind: Config
users:
- name: system:node:{node}
  user:
    client-certificate-data: {_data(chain)}
    client-key-data: {_data(key)}
"""


def _data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def command_line(drop_in: str, *environment_files: str) -> list[str]:
    """The words of the last ExecStart with the variables filled in, as systemd does it."""
    variables: dict[str, str] = {}
    command = ""
    for line in drop_in.splitlines():
        key, _, value = line.partition("=")
        if key == "Environment":
            for word in shlex.split(value):
                name, _, text = word.partition("=")
                variables[name] = text
        elif key == "ExecStart":
            command = value
    for text in environment_files:
        for word in shlex.split(text, comments=True):
            name, _, value = word.partition("=")
            variables[name] = value
    words: list[str] = []
    for word in command.split():
        # A variable that is a word of its own may be any number of words.
        words += variables.get(word[1:], "").split() if word.startswith("$") else [word]
    return words
