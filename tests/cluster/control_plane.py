"""A real control plane: etcd, kube-apiserver, kube-scheduler and kube-controller-manager.

Everything is in one directory on a tmpfs and on one port of loopback. Each part can be stopped,
killed, frozen and started again; the API server keeps its port over that, and etcd its data.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.admin import Admin, Kubectl, Refused, Unreachable
from tests.cluster.part import Part
from tests.cluster.pki import Authority, make_signing_key, write_kubeconfig
from tests.node.containerd import _lock as lock

START_SECONDS = 60.0
PREFIX = "kt-cp-"
HOST = "127.0.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
SERVICES = "10.232.0.0/24"
BOOTSTRAP_TOKEN = "abcdef.0123456789abcdef"
POLL_SECONDS = 0.05  # between two looks at a server that does not say when it is ready
# The addresses of a store must look like host:port; these are files in its working directory.
ETCD_SOCKET, PEER_SOCKET = "etcd:1", "etcd-peer:1"
# What is not on by itself: trust bundles and certificates of pods (L-27, L-28).
GATES = ("ClusterTrustBundle", "ClusterTrustBundleProjection", "PodCertificateRequest")
YOUNG_APIS = "certificates.k8s.io/v1beta1"
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


class ControlPlane:
    """A control plane of our own, its certificates and its administrator."""

    def __init__(self, tools: Path, *, node_grace: float = 40.0) -> None:
        """Prepare one; the nodes that are silent for `node_grace` seconds are not ready."""
        self.tools = tools
        self.directory, self._owner = _new_directory()
        self._node_grace = node_grace
        self._port = _HeldPort()
        self.server = f"https://{HOST}:{self._port.number}"
        self.authority = Authority(self.directory)
        self.ca = self.authority.pair.certificate
        self._signing = make_signing_key(self.directory, "service-accounts")
        admin = self._login("admin", "kubernetes-admin", "system:masters")
        self.admin = Admin(self.server, self.ca, *self.user_files("admin"))
        self.kubectl = Kubectl(tools / "kubectl", admin, self.directory / "kubectl-cache")
        commands = (
            self._etcd_command(),
            self._api_command(),
            self._manager_command(),
            self._scheduler_command(),
        )
        made = [Part(n, c, self.directory) for n, c in zip(PARTS, commands, strict=True)]
        self.etcd, self.api_server, self.manager, self.scheduler = made
        self._parts = made

    # Life.

    def start(self) -> ControlPlane:
        """Start everything, and return when pods can be created."""
        self.start_etcd()
        self.start_api_server()
        self.manager.start()
        self.scheduler.start()
        self.await_default_account()
        return self

    def start_api_server(self) -> None:
        """Start the API server, and return when it says that it is ready."""
        self.api_server.start()
        self.await_ready()

    def restart_api_server(self) -> None:
        """Kill and start it, on the same port: asked to end, it waits a minute for its watchers."""
        self.api_server.kill()
        self.start_api_server()

    def renew_controllers(self) -> None:
        """Start the manager and the scheduler anew, as the loss of their leases would.

        After an outage they wait for longer and longer before they try again.
        """
        for part in (self.manager, self.scheduler):
            part.kill()
            part.start()

    def start_etcd(self) -> None:
        """Start the store, with the data that it had."""
        for name in (ETCD_SOCKET, PEER_SOCKET):
            (self.directory / name).unlink(missing_ok=True)  # of one that was killed
        self.etcd.start()

    def restart_etcd(self, away: float = 0.0) -> None:
        """Kill the store and start it some seconds later; the API server is ready again then."""
        self.etcd.kill()
        time.sleep(away)
        self.start_etcd()
        self.await_ready()

    def await_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until the API server says that it is ready: a poll, for it tells nobody."""
        deadline = time.monotonic() + seconds
        while not self._is_ready():
            self.etcd.check_alive()
            self.api_server.check_alive()
            late = time.monotonic() > deadline
            assert not late, self.api_server.complaint(f"was not ready after {seconds:g}s")
            time.sleep(POLL_SECONDS)

    def await_default_account(self, namespace: str = "default") -> None:
        """Wait until pods of a namespace can be admitted: its service account is made for it."""
        self.admin.wait_for(
            f"namespace {namespace} has its service account and the authority's certificate",
            f"/api/v1/namespaces/{namespace}/serviceaccounts",
            lambda found: "default" in found,
        )
        self.admin.wait_for(
            f"namespace {namespace} has the authority's certificate",
            f"/api/v1/namespaces/{namespace}/configmaps",
            lambda found: "kube-root-ca.crt" in found,
        )

    def close(self) -> None:
        """End everything and remove the directory."""
        for part in reversed(self._parts):
            part.end()
        self._port.close()
        shutil.rmtree(self.directory)
        os.close(self._owner)

    def leftovers(self) -> list[str]:
        """What is left of it, a line for each thing."""
        running = [f"process: {part.name}" for part in self._parts if part.running]
        there = [f"directory: {self.directory}"] if self.directory.exists() else []
        return running + there

    # Who may come in.

    def node_kubeconfig(self, node: str, file: str | None = None, **options: object) -> Path:
        """A kubeconfig with a certificate of a node."""
        name = file or f"node-{node}"
        return self._login(name, f"system:node:{node}", "system:nodes", **options)

    def bootstrap_kubeconfig(self) -> Path:
        """A kubeconfig with which a node may ask for its first certificate, as kubeadm makes it."""
        self._allow_bootstrap()
        path = self.directory / "bootstrap.kubeconfig"
        return write_kubeconfig(path, self.server, self.ca, token=BOOTSTRAP_TOKEN)

    def user_files(self, name: str) -> tuple[Path, Path]:
        """The certificate and key of a user that has a kubeconfig."""
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def _login(self, file: str, user: str, *groups: str, **options: object) -> Path:
        pair = self.authority.issue(file, user, *groups, **options)  # type: ignore[arg-type]
        return write_kubeconfig(
            self.directory / f"{file}.kubeconfig",
            self.server,
            self.ca,
            client_certificate=str(pair.certificate),
            client_key=str(pair.key),
        )

    def _allow_bootstrap(self) -> None:
        token_id, _, secret = BOOTSTRAP_TOKEN.partition(".")
        data = {
            "token-id": token_id,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        }
        token = {
            "metadata": {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": data,
        }
        self.admin.ensure("/api/v1/namespaces/kube-system/secrets", token)
        certificates = "system:certificates.k8s.io:certificatesigningrequests"
        bootstrappers, nodes = "system:bootstrappers", "system:nodes"
        self.bind("test:node-bootstrapper", "system:node-bootstrapper", bootstrappers)
        self.bind("test:first-certificate", f"{certificates}:nodeclient", bootstrappers)
        self.bind("test:next-certificate", f"{certificates}:selfnodeclient", nodes)

    def bind(self, name: str, role: str, group: str) -> None:
        """Give a group a cluster role."""
        api = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": group}],
        }
        self.admin.ensure(f"/apis/{api}/v1/clusterrolebindings", binding)

    # What each part is told.

    def _etcd_command(self) -> list[str]:
        nowhere = "http://127.0.0.1:1"  # a cluster of one is told of nobody
        return [
            str(shutil.which("etcd")),
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls=unix://{ETCD_SOCKET}",
            f"--advertise-client-urls={nowhere}",
            f"--listen-peer-urls=unix://{PEER_SOCKET}",
            f"--initial-advertise-peer-urls={nowhere}",
            f"--initial-cluster=default={nowhere}",
        ]

    def _api_command(self) -> list[str]:
        hosts = (HOST, "localhost", "kubernetes.default.svc", SERVICES.replace("0/24", "1"))
        serving = self.authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        client = self.authority.issue(
            "apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"
        )
        return [
            str(self.tools / "kube-apiserver"),
            f"--etcd-servers=unix://{self.directory}/{ETCD_SOCKET}",
            f"--bind-address={HOST}",
            f"--secure-port={self._port.number}",
            "--permit-port-sharing=true",  # with the socket that holds the port for it
            f"--advertise-address={SERVICES.replace('0/24', '254')}",  # loopback is refused
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.ca}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-bootstrap-token-auth=true",
            "--allow-privileged=true",
            f"--service-account-key-file={self._signing}",
            f"--service-account-signing-key-file={self._signing}",
            f"--service-account-issuer={ISSUER}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--kubelet-client-certificate={client.certificate}",
            f"--kubelet-client-key={client.key}",
            f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}",
            f"--runtime-config={YOUNG_APIS}=true",
            "--shutdown-delay-duration=0s",
            "--profiling=false",
        ]

    def _manager_command(self) -> list[str]:
        config = self._login("controller-manager", "system:kube-controller-manager")
        grace = self._node_grace
        return [
            str(self.tools / "kube-controller-manager"),
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--secure-port=0",
            "--controllers=*,bootstrapsigner,tokencleaner",
            "--use-service-account-credentials=true",
            "--kube-api-qps=500",  # its own limit makes most of the time that it needs to start
            "--kube-api-burst=1000",
            f"--service-account-private-key-file={self._signing}",
            f"--root-ca-file={self.ca}",
            f"--cluster-signing-cert-file={self.ca}",
            f"--cluster-signing-key-file={self.authority.pair.key}",
            f"--node-monitor-grace-period={grace:g}s",
            f"--node-monitor-period={min(5.0, grace / 8):g}s",
        ]

    def _scheduler_command(self) -> list[str]:
        config = self._login("scheduler", "system:kube-scheduler")
        return [
            str(self.tools / "kube-scheduler"),
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _is_ready(self) -> bool:
        try:
            self.admin.text("/readyz", seconds=5)
        except (Refused, Unreachable):
            return False
        return True


class _HeldPort:
    """A port of loopback that stays ours while the server that shall listen there is down."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((HOST, 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Let it go."""
        self._socket.close()


@contextlib.contextmanager
def control_plane(tools: Path, **options: float) -> Iterator[ControlPlane]:
    """A running control plane; nothing of it is left at the end."""
    made = ControlPlane(tools, **options)
    try:
        yield made.start()
    finally:
        made.close()
        assert made.leftovers() == []


def sweep() -> None:
    """Remove the directories of sessions that were killed; their processes died with them."""
    for directory in _base().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, or just gone
            owner = lock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                shutil.rmtree(directory)
            finally:
                os.close(owner)


def _base() -> Path:
    return Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())


def _new_directory() -> tuple[Path, int]:
    sweep()
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_base()))
    return directory, lock(directory, fcntl.LOCK_EX)
